/* Watches.
 *
 * W1. One watch per path and session. It stays armed until it fires or the
 *     session ends, as on the server.
 * W2. A successful read sets it: a watch on a missing node would stay forever.
 * W3. A member that asks for a watched path need not read it: any change since
 *     its list still has an event to come.
 * W4. Of a lock's children the list that arms the watch judges all contenders
 *     waiting there: nothing is lost in between. */
#include "store/session/life/session.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"

struct dlk_ss_watch {
  struct dlk_map_node node;
  struct dlk_ss_session *session;
  struct dlk_list refs;
  bool armed, downgraded, revoked, list, own;
  int64_t owner;
  char path[];
};

struct ref {
  struct dlk_list by_watch, by_member;
  struct dlk_ss_member *member;
  bool own;
};

static void free_ref(struct ref *r) {
  dlk_list_remove(&r->by_watch);
  dlk_list_remove(&r->by_member);
  free(r);
}

static struct ref *first_of(struct dlk_list *refs) {
  return DLK_CONTAINER(refs->next, struct ref, by_watch);
}

static void free_watch(struct dlk_ss_watch *w) {
  struct dlk_ss_session *s = w->session;
  while (!dlk_list_empty(&w->refs))
    free_ref(first_of(&w->refs));
  s->watch_bytes -= w->node.len;
  s->own_watches -= w->own;
  dlk_map_remove(&s->watches, &w->node);
  free(w);
}

/* It fired (OK: a change; NONODE: the node is gone), or the read failed. Each
 * member is told once and may watch again. */
static void over(struct dlk_ss_watch *w, enum dlk_ss_rc rc) {
  struct dlk_list todo;
  dlk_list_take(&w->refs, &todo);
  free_watch(w);
  while (!dlk_list_empty(&todo)) {
    struct ref *r = first_of(&todo);
    struct dlk_ss_member *m = r->member;
    bool own = r->own;
    free_ref(r);
    m->type->changed(m, own, rc);
  }
}

static void tell_armed(struct dlk_ss_watch *w, struct ref *r) {
  struct dlk_ss_sight sight = {.own = r->own,
                               .list = w->list,
                               .downgraded = w->downgraded,
                               .revoked = w->revoked,
                               .owner = w->owner};
  r->member->type->armed(r->member, &sight);
}

/* The new list judges the contenders. */
static void tell_list_changed(struct dlk_ss_watch *w, struct ref *r) {
  (void)w;
  if (!r->member->type->by_list)
    r->member->type->changed(r->member, false, DLK_SS_OK);
}

/* Each is told once and may watch again. */
static void tell_all(struct dlk_ss_watch *w,
                     void (*tell)(struct dlk_ss_watch *, struct ref *)) {
  struct dlk_list todo;
  dlk_list_take(&w->refs, &todo);
  while (!dlk_list_empty(&todo)) {
    struct ref *r = first_of(&todo);
    dlk_list_remove(&r->by_watch);
    dlk_list_append(&w->refs, &r->by_watch);
    tell(w, r);
  }
}

static struct dlk_ss_watch *find(struct dlk_ss_session *s, const char *path) {
  struct dlk_map_node *m = dlk_map_get(&s->watches, path, strlen(path));
  return m ? DLK_CONTAINER(m, struct dlk_ss_watch, node) : NULL;
}

static void on_read(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_watch *w = who;
  struct dlk_ss_session *s = w->session;
  enum dlk_ss_rc rc = r->rc;
  (void)tag;
  if (rc == DLK_SS_OK && w->list) {
    w->armed = true;
    s->lists++;
    if (!s->sessions->hooks->listed(s, r))
      rc = DLK_SS_MEMORY;
  } else if (rc == DLK_SS_OK) {
    struct dlk_ss_data data;
    dlk_ss_data_parse(r->data, r->len, &data);
    w->armed = true;
    w->downgraded = data.shared;
    w->revoked = data.revoked;
    w->owner = r->stat.owner;
  }
  if (rc == DLK_SS_OK)
    tell_all(w, tell_armed);
  else
    over(w, rc);
}

static bool read_path(struct dlk_ss_watch *w) {
  struct dlk_ss_request r = {.verb = w->list ? DLK_SS_LIST : DLK_SS_READ,
                             .path = w->path,
                             .watch = true};
  return dlk_ss_send(w->session, &r, on_read, w, 0);
}

static struct dlk_ss_watch *new_watch(struct dlk_ss_session *s,
                                      const char *path, bool list) {
  size_t len = strlen(path);
  struct dlk_ss_watch *w = calloc(1, sizeof *w + len + 1);
  if (!w)
    return NULL;
  memcpy(w->path, path, len + 1);
  w->session = s;
  w->list = list;
  dlk_list_init(&w->refs);
  if (!dlk_map_put(&s->watches, &w->node, w->path, len) || !read_path(w)) {
    dlk_map_remove(&s->watches, &w->node);
    free(w);
    return NULL;
  }
  s->watch_bytes += len;
  return w;
}

/* An own node that others watch already is armed for its owner at once. The
 * owner is told first: a holder should know that its node is gone before the
 * next holds. */
bool dlk_ss_watch_add(struct dlk_ss_member *m, const char *path, bool own,
                      bool list) {
  struct ref *r = calloc(1, sizeof *r);
  if (!r)
    return false;
  struct dlk_ss_watch *w = find(m->session, path);
  if (!w)
    w = new_watch(m->session, path, list);
  if (!w) {
    free(r);
    return false;
  }
  r->member = m;
  r->own = own;
  dlk_list_append(own ? w->refs.next : &w->refs, &r->by_watch);
  dlk_list_append(&m->watches, &r->by_member);
  if (own && !w->armed && !w->own) {
    m->session->own_watches++;
    w->own = true;
  }
  if (own && w->armed)
    tell_armed(w, r);
  return true;
}

void dlk_ss_watch_drop(struct dlk_ss_member *m) {
  while (!dlk_list_empty(&m->watches))
    free_ref(DLK_CONTAINER(m->watches.next, struct ref, by_member));
}

int dlk_ss_watch_knows(struct dlk_ss_session *s, const char *path) {
  struct dlk_ss_watch *w = find(s, path);
  if (!w || !w->armed)
    return 0;
  return w->downgraded ? 2 : 1;
}

/* One list for all contenders arms the watch anew and judges them. False: no
 * contenders, or no memory. */
static bool children_changed(struct dlk_ss_watch *w) {
  bool judged = false;
  for (struct dlk_list *l = w->refs.next; l != &w->refs; l = l->next)
    judged |= DLK_CONTAINER(l, struct ref, by_watch)->member->type->by_list;
  if (!w->list || !judged)
    return false;
  w->armed = false;
  if (!read_path(w))
    return false;
  tell_all(w, tell_list_changed);
  return true;
}

void dlk_ss_watch_event(void *session, enum dlk_ss_event event,
                        const char *path) {
  struct dlk_ss_watch *w = find(session, path);
  if (!w || !w->armed)
    return;
  if (event != DLK_SS_CHILD || !children_changed(w))
    over(w, event == DLK_SS_DELETED ? DLK_SS_NONODE : DLK_SS_OK);
}

void dlk_ss_watch_free_all(struct dlk_ss_session *s) {
  for (size_t i = 0; i < s->watches.size; i++)
    while (s->watches.buckets[i])
      free_watch(
          DLK_CONTAINER(s->watches.buckets[i], struct dlk_ss_watch, node));
}
