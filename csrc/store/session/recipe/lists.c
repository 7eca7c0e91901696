/* One list of a lock's contenders serves all of a session that ask: N lists of
 * N names would delay the session's confirms until it counts as lost.
 *
 * Definitions. A question arises when a contender has to look (create, event,
 * confirm, new connection, try, lost create). It is open until its contender
 * was told or forgot it. A list is under way from its sending until all were
 * told.
 *
 * I1. One list at most is under way for a lock and a session: `struct list`
 *     exists exactly as long.
 * I2. A list answers a question (is `due`) only if sent after it arose. An
 *     older one may only let in a contender that stands in it (R2). Absence,
 *     watches and `busy` need a due list.
 * I3. An open question is in `due` of the list under way, or in `next`, which
 *     gets a list of its own afterwards.
 * I4. A contender's create is sent before the list that answers it, in one
 *     session.
 *
 * Crossings.
 * - A question arises during the telling: it goes to `next` (I2).
 * - The connection is lost: `due` is told CUT, and `next` unless connected by
 *   then. A contender that asks anew stands in `next`, for the old list's
 *   answer may still come.
 * - The session ends: all questions are forgotten. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

struct list {
  struct dlk_map_node node; /* by path */
  struct dlk_ss_session *session;
  struct dlk_list due, next; /* contenders */
  bool fresh;                /* `next` wants it so */
  char path[];
};

static struct dlk_map *lists_of(const struct dlk_ss_session *s) {
  return &((struct dlk_ss_holds *)s->data)->lists;
}

static void free_list(struct list *l) {
  dlk_map_remove(lists_of(l->session), &l->node);
  free(l);
}

static struct list *new_list(struct dlk_ss_session *s, const char *path,
                             size_t len) {
  struct list *l = calloc(1, sizeof *l + len + 1);
  if (!l)
    return NULL;
  memcpy(l->path, path, len);
  l->session = s;
  dlk_list_init(&l->due);
  dlk_list_init(&l->next);
  if (dlk_map_put(lists_of(s), &l->node, l->path, len))
    return l;
  free(l);
  return NULL;
}

/* Ours that stands in the list. A stand-in's contender is gone. */
static struct dlk_ss_contender *own(struct dlk_ss_session *s,
                                    const struct dlk_ss_entry *e) {
  struct dlk_ss_store *st = dlk_ss_store_of(s);
  struct dlk_map_node *m = dlk_map_get(&st->by_guid, e->guid, DLK_SS_GUID);
  struct dlk_ss_contender *n =
      m ? DLK_CONTAINER(m, struct dlk_ss_contender, by_guid) : NULL;
  return n && n->member.session == s && e->until_ms == 0 ? n : NULL;
}

/* R5. */
static void delete_ghosts(const struct list *l, const struct dlk_ss_queue *q) {
  struct dlk_ss_store *st = dlk_ss_store_of(l->session);
  for (size_t i = 0; i < q->count && !st->driver->portable; i++) {
    const struct dlk_ss_entry *e = &q->at[i];
    if (e->until_ms > 0 || memcmp(e->client, st->client, DLK_SS_CLIENT) != 0 ||
        dlk_map_get(&st->by_guid, e->guid, DLK_SS_GUID))
      continue;
    dlk_ss_delete_path(l->session,
                       dlk_ss_node_path(st, l->path, strlen(l->path), e->name));
  }
}

static bool tell(struct dlk_ss_contender *n, struct dlk_ss_listing *say,
                 size_t place, bool due) {
  say->place = place;
  say->due = due;
  if (due)
    dlk_ss_contender_step_out(n);
  return n->told(n, say);
}

/* In the order of the queue. Behind one that may not hold nobody may: only due
 * ones are told. Others may leave or join meanwhile, so each is looked up in
 * its turn. */
static void tell_queue(struct dlk_ss_session *s, struct list *l,
                       struct dlk_ss_listing *say) {
  bool open = true;
  for (size_t i = 0; i < say->queue->count; i++) {
    struct dlk_ss_contender *n = own(s, &say->queue->at[i]);
    bool due = n && l && n->list == l && n->due;
    if (due)
      open &= tell(n, say, i, true);
    else if (n && open && n->told)
      open = tell(n, say, i, false);
  }
}

/* Those in `line` stand in no known queue. */
static void tell_rest(struct dlk_list *line, struct dlk_ss_listing *say) {
  while (!dlk_list_empty(line))
    tell(DLK_CONTAINER(line->next, struct dlk_ss_contender, line), say,
         say->queue ? say->queue->count : 0, true);
}

static void tell_all(struct list *l, struct dlk_ss_listing *say,
                     const struct dlk_ss_reply *r) {
  struct dlk_ss_queue q = {0};
  if (say->rc == DLK_SS_OK && !dlk_ss_queue_read(&q, r->names, r->count))
    say->rc = DLK_SS_MEMORY;
  if (say->rc == DLK_SS_OK) {
    say->queue = &q;
    dlk_ss_standins_end(l->session, l->path, &q);
    delete_ghosts(l, &q);
    tell_queue(l->session, l, say);
  }
  tell_rest(&l->due, say);
  say->queue = NULL;
  dlk_ss_queue_free(&q);
}

static void on_listed(void *who, uint32_t tag, const struct dlk_ss_reply *r);

/* False: nothing was sent. */
static bool send(struct list *l) {
  struct dlk_ss_request r = {
      .verb = DLK_SS_LIST, .path = l->path, .fresh = l->fresh};
  l->fresh = false;
  return dlk_ss_send(l->session, &r, on_listed, l, 0);
}

static void on_listed(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct list *l = who;
  struct dlk_ss_session *s = l->session;
  struct dlk_ss_listing say = {.rc = r->rc, .sent = r->sent};
  (void)tag;
  tell_all(l, &say, r);
  if (!dlk_list_empty(&l->next)) {
    dlk_list_take(&l->next, &l->due);
    for (struct dlk_list *at = l->due.next; at != &l->due; at = at->next)
      DLK_CONTAINER(at, struct dlk_ss_contender, line)->due = true;
    if (dlk_ss_session_connected(s) && send(l))
      return;
  }
  struct dlk_list rest;
  dlk_list_take(&l->due, &rest);
  free_list(l);
  say = (struct dlk_ss_listing){
      .rc = dlk_ss_session_connected(s) ? DLK_SS_MEMORY : DLK_SS_CUT};
  tell_rest(&rest, &say);
}

bool dlk_ss_lists_ask(struct dlk_ss_contender *n, bool fresh,
                      dlk_ss_told *told) {
  struct dlk_ss_session *s = n->member.session;
  struct dlk_map_node *m = dlk_map_get(lists_of(s), n->path, n->lock_len);
  bool first = !m;
  struct list *l = first ? new_list(s, n->path, n->lock_len)
                         : DLK_CONTAINER(m, struct list, node);
  if (!l)
    return false;
  l->fresh |= fresh;
  if (first && !send(l)) {
    free_list(l);
    return false;
  }
  dlk_ss_contender_step_out(n);
  n->told = told;
  n->list = l;
  n->due = first;
  dlk_list_append(first ? &l->due : &l->next, &n->line);
  return true;
}

static void forget(struct dlk_list *line) {
  while (!dlk_list_empty(line))
    dlk_list_remove(line->next);
}

static void over(struct dlk_ss_session *s) {
  struct dlk_map *lists = lists_of(s);
  struct dlk_host *host = s->sessions->host;
  host->timer_clear(host, &((struct dlk_ss_holds *)s->data)->fresh_timer);
  for (size_t i = 0; i < lists->size; i++)
    while (lists->buckets[i]) {
      struct list *l = DLK_CONTAINER(lists->buckets[i], struct list, node);
      forget(&l->due);
      forget(&l->next);
      free_list(l);
    }
  dlk_map_clear(lists);
}

/* Tells a list that a watch asked for to all of s that wait. */
static bool listed(struct dlk_ss_session *s, const struct dlk_ss_reply *r) {
  struct dlk_ss_queue q;
  struct dlk_ss_listing say = {.queue = &q, .sent = r->sent};
  if (!dlk_ss_queue_read(&q, r->names, r->count))
    return false;
  dlk_ss_standins_end(s, NULL, &q);
  for (size_t i = 0; i < q.count; i++) {
    struct dlk_ss_contender *n = own(s, &q.at[i]);
    if (n)
      n->listed = s->lists;
  }
  tell_queue(s, NULL, &say);
  dlk_ss_queue_free(&q);
  return true;
}

const struct dlk_ss_session_hooks dlk_ss_recipe = {
    .size = sizeof(struct dlk_ss_holds),
    .opened = dlk_ss_holds_opened,
    .connected = dlk_ss_holds_connected,
    .over = over,
    .listed = listed,
};
