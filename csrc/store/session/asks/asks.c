#include "store/session/asks/asks.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/traced.h"

static const char *const verbs[] = {
    [DLK_SS_CREATE] = "create", [DLK_SS_KEEP] = "keep",
    [DLK_SS_MARK] = "mark",     [DLK_SS_DELETE] = "delete",
    [DLK_SS_READ] = "read",     [DLK_SS_LIST] = "list",
    [DLK_SS_COUNT] = "count",   [DLK_SS_PROVE] = "prove",
    [DLK_SS_CLOCK] = "clock",   [DLK_SS_FOLDER] = "folder",
    [DLK_SS_GUARD] = "guard",   [DLK_SS_PING] = "ping",
    [DLK_SS_DETACH] = "detach", [DLK_SS_PROLONG] = "prolong",
    [DLK_SS_ATTACH] = "attach", [DLK_SS_DETACHED] = "detached"};

const char *dlk_ss_keep_text(char *texts[DLK_SS_TEXTS], const char *text) {
  for (size_t i = 0; i < DLK_SS_TEXTS; i++) {
    if (!texts[i])
      texts[i] = strdup(text);
    if (texts[i] && strcmp(texts[i], text) == 0)
      return texts[i];
  }
  return "the servers refuse it";
}

void dlk_ss_free_texts(char *texts[DLK_SS_TEXTS]) {
  for (size_t i = 0; i < DLK_SS_TEXTS; i++)
    free(texts[i]);
}

static void trace(const struct dlk_ss_ask *a, const char *event,
                  enum dlk_ss_rc rc) {
  if (DLK_TRACING)
    dlk_ss_trace(a->in->type->room, a->in->host->now(a->in->host), event,
                 a->path, "%s%s", verbs[a->verb],
                 rc == DLK_SS_OK       ? ""
                 : rc == DLK_SS_NONODE ? ", no such key"
                                       : ", not done");
}

/* ---- one ---- */

static uint32_t hash(const char *p, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)p[i]) * 16777619u;
  return h ? h : 1;
}

static bool of_folder(const struct dlk_ss_ask *a) {
  return a->verb == DLK_SS_LIST || a->verb == DLK_SS_COUNT;
}

bool dlk_ss_ask_is_base(const struct dlk_ss_ask *a) {
  return of_folder(a) && strcmp(a->path, a->in->base) == 0;
}

static uint32_t lock_of(const struct dlk_ss_ask *a) {
  const char *slash = of_folder(a) ? NULL : strrchr(a->path, '/');
  if (dlk_ss_ask_is_base(a))
    return 0;
  return hash(a->path, slash ? (size_t)(slash - a->path) : strlen(a->path));
}

/* A2. */
static bool rides(const struct dlk_ss_ask *a, const struct dlk_ss_request *q) {
  struct dlk_ss_asks *all = a->in;
  if (q->verb != DLK_SS_LIST || q->fresh || q->watch ||
      dlk_list_empty(&all->list))
    return false;
  const struct dlk_ss_ask *last = dlk_ss_ask_at(all->list.prev);
  size_t n = strlen(a->path);
  return last->verb == DLK_SS_CREATE && last->phase != DLK_SS_ASK_DONE &&
         strncmp(last->path, a->path, n) == 0 && last->path[n] == '/';
}

static struct dlk_ss_ask *new_ask(struct dlk_ss_asks *all,
                                  const struct dlk_ss_request *q,
                                  dlk_ss_answer *answer, void *who,
                                  uint32_t tag) {
  const char *path = q->path ? q->path : q->own ? q->own : all->base;
  size_t size = all->type->size, len = strlen(path);
  struct dlk_ss_ask *a = calloc(1, size + len + 1);
  if (!a)
    return NULL;
  a->path = (char *)a + size;
  memcpy(a->path, path, len);
  dlk_list_init(&a->link);
  a->in = all;
  a->answer = answer;
  a->who = who;
  a->tag = tag;
  a->verb = q->verb;
  a->writes = q->verb <= DLK_SS_DELETE || q->verb == DLK_SS_GUARD ||
              (q->verb >= DLK_SS_DETACH && q->verb <= DLK_SS_ATTACH);
  a->watch = q->watch;
  a->lock = lock_of(a);
  a->rides = rides(a, q);
  a->at_once = a->rides || q->verb == DLK_SS_FOLDER;
  return a;
}

static void free_ask(struct dlk_ss_ask *a) {
  dlk_list_remove(&a->link);
  a->in->type->free(a);
  free(a);
}

void dlk_ss_ask_end(struct dlk_ss_ask *a, enum dlk_ss_rc rc, const char *text) {
  a->phase = DLK_SS_ASK_DONE;
  a->rc = rc;
  a->text = text;
}

struct dlk_ss_ask *dlk_ss_ask_rider(struct dlk_ss_ask *a) {
  bool last = a->link.next == &a->in->list;
  struct dlk_ss_ask *next = last ? NULL : dlk_ss_ask_at(a->link.next);
  if (a->verb != DLK_SS_CREATE || !next || !next->rides)
    return NULL;
  next->rc = a->rc;
  next->text = a->text;
  next->sent = a->sent;
  return next;
}

void dlk_ss_ask_told(struct dlk_ss_ask *a, const struct dlk_ss_reply *r) {
  dlk_list_remove(&a->link);
  trace(a, "answer", r->rc);
  a->answer(a->who, a->tag, r);
  free_ask(a);
}

/* A1. */
static bool may_start(const struct dlk_ss_ask *a) {
  const struct dlk_list *all = &a->in->list;
  int flying = a->in->others;
  for (struct dlk_list *at = all->next; at != &a->link; at = at->next) {
    const struct dlk_ss_ask *b = dlk_ss_ask_at(at);
    bool same = a->lock == b->lock || a->lock == 0 || b->lock == 0;
    flying += b->phase == DLK_SS_FLYING;
    if (b->phase != DLK_SS_ASK_DONE && same && (a->writes || b->writes))
      return a->rides && b->verb == DLK_SS_CREATE && at->next == &a->link;
  }
  bool room = flying < a->in->most;
  a->in->full |= !room;
  return room;
}

static void start(struct dlk_ss_ask *a) {
  trace(a, "send", DLK_SS_OK);
  a->sent = a->in->host->now(a->in->host);
  a->phase = DLK_SS_FLYING;
  if (a->at_once)
    dlk_ss_ask_end(a, DLK_SS_OK, "");
  else
    a->in->type->start(a);
}

bool dlk_ss_asks_add(struct dlk_ss_asks *all, const struct dlk_ss_request *q,
                     dlk_ss_answer *answer, void *who, uint32_t tag, bool up) {
  struct dlk_ss_ask *a = new_ask(all, q, answer, who, tag);
  bool ok = a && all->type->put(a, q);
  if (a && !ok)
    free_ask(a);
  if (!ok)
    return false;
  dlk_list_append(&all->list, &a->link);
  if (up && may_start(a))
    start(a);
  return true;
}

/* ---- all ---- */

void dlk_ss_asks_start(struct dlk_ss_asks *all) {
  for (struct dlk_list *at = all->list.next; at != &all->list; at = at->next)
    if (dlk_ss_ask_at(at)->phase == DLK_SS_QUEUED &&
        may_start(dlk_ss_ask_at(at)))
      start(dlk_ss_ask_at(at));
}

bool dlk_ss_asks_ready(const struct dlk_ss_asks *all) {
  return !dlk_list_empty(&all->list) &&
         dlk_ss_ask_at(all->list.next)->phase == DLK_SS_ASK_DONE;
}

bool dlk_ss_asks_deliver(struct dlk_ss_asks *all) {
  bool up = true;
  if (all->delivering)
    return true;
  all->delivering = true;
  while (up && dlk_ss_asks_ready(all))
    up = all->type->tell(dlk_ss_ask_at(all->list.next));
  all->delivering = false;
  return up;
}

void dlk_ss_asks_end(struct dlk_ss_asks *all, const char *why) {
  struct dlk_list taken;
  all->closed |= !why;
  dlk_list_take(&all->list, &taken);
  const struct dlk_ss_reply cut = {
      .rc = DLK_SS_CUT, .text = why ? dlk_ss_keep_text(all->texts, why) : ""};
  while (!dlk_list_empty(&taken)) {
    struct dlk_ss_ask *a = dlk_ss_ask_at(taken.next);
    dlk_list_remove(&a->link);
    if (!all->closed)
      a->answer(a->who, a->tag, &cut);
    free_ask(a);
  }
}

/* ---- what an answer lists, and what a guard writes ---- */

bool dlk_ss_listed_tell(struct dlk_ss_listed *l, struct dlk_ss_reply *r) {
  l->names = calloc(l->count + 1, sizeof *l->names);
  if (!l->names || l->text.failed)
    return false;
  char *at = l->text.data;
  for (size_t i = 0; i < l->count; i++, at += strlen(at) + 1)
    l->names[i] = at;
  r->names = l->names;
  r->count = l->count;
  r->stat.children = (int64_t)l->count;
  return true;
}

void dlk_ss_listed_free(struct dlk_ss_listed *l) {
  free(l->names);
  dlk_buf_free(&l->text);
}

bool dlk_ss_guard_next(const struct dlk_op *op, size_t *at,
                       struct dlk_ss_write *out) {
  size_t i = *at;
  if (i >= op->argc)
    return false;
  bool puts = op->argv_len[i] == 3 && memcmp(op->argv[i], "PUT", 3) == 0;
  bool ends = op->argv_len[i] == 6 && memcmp(op->argv[i], "DELETE", 6) == 0;
  size_t n = puts ? 3 : 2;
  if ((!puts && !ends) || i + n > op->argc || op->argv_len[i + 1] == 0)
    return false;
  *out = (struct dlk_ss_write){op->argv[i + 1], puts ? op->argv[i + 2] : NULL,
                               op->argv_len[i + 1],
                               puts ? op->argv_len[i + 2] : 0};
  *at = i + n;
  return true;
}

size_t dlk_ss_guard_count(const struct dlk_op *op) {
  struct dlk_ss_write w;
  size_t at = 0, count = 0;
  while (dlk_ss_guard_next(op, &at, &w))
    count++;
  return at == op->argc ? count : 0;
}
