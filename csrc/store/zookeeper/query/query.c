/* Operations that only look, or act once: ping, locked, and what admin.c,
 * list.c and guard.c add. They run on any connected session. A look whose
 * answer was lost is asked again from the start until the engine's deadline
 * cancels it. An act (a guarded write, a mark, a break) is sent once: whether
 * it was done is not known then, and the op says `unavailable`.
 *
 * ping measures one read answered by the connected server: it says that the
 * server can be reached and our session is accepted. */
#include "store/zookeeper/query/query.h"

#include <stdlib.h>
#include <string.h>

#define RETRY (100 * DLK_MS)

/* ---- life ---- */

static void start(struct dlk_zk_ask *a);

static void free_work(struct dlk_zk_ask *a) {
  for (size_t i = 0; a->shown && i < a->queue.count; i++)
    free(a->shown[i].data);
  free(a->shown);
  a->shown = NULL;
  dlk_zk_queue_free(&a->queue);
  free(a->names);
  a->names = NULL;
  a->count = a->pending = 0;
  a->any = a->crossed = a->acting = false;
  dlk_zk_watch_drop_ask(a);
}

static void free_ask(struct dlk_zk_ask *a) {
  free_work(a);
  dlk_buf_free(&a->path);
  free(a);
}

static void leave(struct dlk_zk_ask *a) {
  a->store->host->timer_clear(a->store->host, &a->timer);
  if (a->flying > 0)
    return;
  dlk_list_remove(&a->link);
  dlk_zk_session_tidy(a->session);
  free_ask(a);
}

void dlk_zk_ask_detach(struct dlk_zk_ask *a) {
  a->op = NULL;
  dlk_zk_watch_drop_ask(a);
  leave(a);
}

void dlk_zk_ask_end(struct dlk_zk_ask *a, enum dlk_code code,
                    struct dlk_value *result) {
  struct dlk_zk_store *st = a->store;
  struct dlk_op *op = a->op;
  op->result = result;
  dlk_zk_ask_detach(a);
  dlk_zk_done(st, op, code);
}

void dlk_zk_ask_cancel(struct dlk_zk_store *st, struct dlk_op *op,
                       struct dlk_zk_ask *a) {
  (void)st;
  if (a->settling)
    return;
  bool waits = op->kind == DLK_OP_CHANGE;
  dlk_zk_ask_end(a, waits ? op->ending : dlk_zk_unanswered(op), NULL);
}

bool dlk_zk_ask_send(struct dlk_zk_ask *a, struct dlk_zk_request *r,
                     dlk_zk_answer *answer) {
  if (!dlk_zk_send(a->session, r, answer, a, a->tag))
    return false;
  a->flying++;
  return true;
}

bool dlk_zk_ask_act(struct dlk_zk_ask *a, struct dlk_zk_request *r,
                    dlk_zk_answer *answer) {
  a->acting = true;
  return dlk_zk_ask_send(a, r, answer);
}

bool dlk_zk_ask_mark(struct dlk_zk_ask *a, const char *path,
                     const struct dlk_zk_shown *read, const char *line,
                     dlk_zk_answer *answer) {
  struct dlk_buf data = {0};
  dlk_buf_add(&data, read->data, read->len);
  dlk_buf_addf(&data, "%s\n", line);
  struct dlk_zk_request r = {.verb = DLK_ZK_SET,
                             .path = path,
                             .data = data.data,
                             .len = data.len,
                             .version = read->stat.version};
  bool ok = !data.failed && dlk_zk_ask_send(a, &r, answer);
  dlk_buf_free(&data);
  return ok;
}

static void retry(struct dlk_zk_ask *a) {
  struct dlk_host *host = a->store->host;
  a->tag++;
  free_work(a);
  if (a->session->state == DLK_ZK_CONNECTED)
    host->timer_set(host, &a->timer, dlk_zk_now(a->store) + RETRY);
}

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  start(DLK_CONTAINER(timer, struct dlk_zk_ask, timer));
}

bool dlk_zk_ask_answered(struct dlk_zk_ask *a, uint32_t tag,
                         const struct dlk_zk_reply *r) {
  a->flying--;
  if (!a->op) {
    leave(a);
    return false;
  }
  if (tag != a->tag)
    return false;
  if (r->rc != DLK_ZK_CUT && r->rc != DLK_ZK_MEMORY)
    return true;
  if (a->acting)
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
  else
    retry(a);
  return false;
}

const char *dlk_zk_ask_path(struct dlk_zk_ask *a, const char *name) {
  return dlk_zk_path(&a->path, a->path_len, name);
}

bool dlk_zk_ask_keep(struct dlk_zk_ask *a, const struct dlk_zk_reply *r) {
  size_t size = r->count * sizeof(char *);
  for (size_t i = 0; i < r->count; i++)
    size += strlen(r->names[i]) + 1;
  char *block = malloc(size ? size : 1);
  if (!block)
    return false;
  a->names = (char **)(void *)block;
  a->count = r->count;
  char *at = block + r->count * sizeof(char *);
  for (size_t i = 0; i < r->count; i++) {
    size_t n = strlen(r->names[i]) + 1;
    a->names[i] = memcpy(at, r->names[i], n);
    at += n;
  }
  return true;
}

/* ---- ping, locked ---- */

static void on_ping(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  if (r->rc != DLK_ZK_OK && r->rc != DLK_ZK_NONODE) {
    dlk_zk_ask_end(a, dlk_zk_code(r->rc), NULL);
    return;
  }
  double seconds = (double)(dlk_zk_now(a->store) - r->sent) / 1e9;
  dlk_zk_ask_end(a, DLK_OK, dlk_value_number(seconds));
}

static void on_locked(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  bool locked = false;
  struct dlk_zk_entry e;
  for (size_t i = 0; r->rc == DLK_ZK_OK && i < r->count && !locked; i++)
    locked = dlk_zk_name_parse(r->names[i], &e);
  if (r->rc == DLK_ZK_OK || r->rc == DLK_ZK_NONODE)
    dlk_zk_ask_end(a, DLK_OK, dlk_value_bool(locked));
  else
    dlk_zk_ask_end(a, dlk_zk_code(r->rc), NULL);
}

bool dlk_zk_ping_start(struct dlk_zk_ask *a) {
  struct dlk_zk_request r = {.verb = DLK_ZK_EXISTS_VERB, .path = "/"};
  return dlk_zk_ask_send(a, &r, on_ping);
}

bool dlk_zk_locked_start(struct dlk_zk_ask *a) {
  struct dlk_zk_request r = {.verb = DLK_ZK_CHILDREN,
                             .path = dlk_zk_ask_path(a, NULL)};
  return r.path && dlk_zk_ask_send(a, &r, on_locked);
}

/* ---- with the session ---- */

static void start(struct dlk_zk_ask *a) {
  a->store->host->timer_clear(a->store->host, &a->timer);
  a->tag++;
  free_work(a);
  if (!a->first(a))
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
}

void dlk_zk_ask_again(struct dlk_zk_ask *a) {
  a->acting = false;
  if (a->op && a->session->state == DLK_ZK_CONNECTED)
    start(a);
}

static bool for_lease(const struct dlk_op *op) {
  return op->kind == DLK_OP_GUARD || op->kind == DLK_OP_DOWNGRADE;
}

/* What acts for a lease does so in the session of its node. */
static struct dlk_zk_session *session_for(struct dlk_zk_ask *a) {
  if (!for_lease(a->op))
    return dlk_zk_session_any(a->store);
  struct dlk_zk_node *n = *dlk_zk_node_of(a->op->lease);
  return n ? n->session : NULL;
}

static void join(struct dlk_zk_ask *a) {
  struct dlk_zk_session *s = session_for(a);
  if (!s) {
    struct dlk_op *op = a->op;
    struct dlk_zk_store *st = a->store;
    free_ask(a);
    dlk_zk_done(st, op, for_lease(op) ? DLK_LOST : DLK_UNAVAILABLE);
    return;
  }
  a->session = s;
  dlk_list_append(&s->asks, &a->link);
  if (s->state == DLK_ZK_CONNECTED)
    start(a);
}

/* What was sent while the library had no connection, and we did not know it,
 * is still to be answered. */
void dlk_zk_asks_resume(struct dlk_zk_session *s) {
  struct dlk_list todo;
  dlk_list_init(&todo);
  while (!dlk_list_empty(&s->asks)) {
    struct dlk_list *l = s->asks.next;
    dlk_list_remove(l);
    dlk_list_append(&todo, l);
  }
  while (!dlk_list_empty(&todo)) {
    struct dlk_list *l = todo.next;
    struct dlk_zk_ask *a = DLK_CONTAINER(l, struct dlk_zk_ask, link);
    dlk_list_remove(l);
    dlk_list_append(&s->asks, l);
    if (a->op && !a->acting)
      start(a);
  }
}

/* The session is over: a look goes on in the next one; an act whose answer
 * is open is not repeated. */
void dlk_zk_asks_orphaned(struct dlk_list *asks, enum dlk_code code) {
  while (!dlk_list_empty(asks)) {
    struct dlk_list *l = asks->next;
    struct dlk_zk_ask *a = DLK_CONTAINER(l, struct dlk_zk_ask, link);
    dlk_list_remove(l);
    a->store->host->timer_clear(a->store->host, &a->timer);
    bool open = a->flying > 0 && a->acting;
    a->flying = 0;
    a->tag++;
    free_work(a);
    if (a->op && code == DLK_OK && !open && !a->store->stopping) {
      join(a);
      continue;
    }
    struct dlk_op *op = a->op;
    struct dlk_zk_store *st = a->store;
    free_ask(a);
    if (op)
      dlk_zk_done(st, op, code == DLK_OK ? DLK_UNAVAILABLE : code);
  }
}

/* The session goes out of use, and would have to stay for what may wait for
 * ever in it. A look starts again in the next session: the answers that it
 * still has to get come to what is left of it here. What acts, and what acts
 * for a lease, ends where it began. */
void dlk_zk_asks_move(struct dlk_zk_session *s) {
  struct dlk_list todo;
  dlk_list_take(&s->asks, &todo);
  while (!dlk_list_empty(&todo)) {
    struct dlk_list *l = todo.next;
    struct dlk_zk_ask *a = DLK_CONTAINER(l, struct dlk_zk_ask, link);
    dlk_list_remove(l);
    dlk_list_append(&s->asks, l);
    if (!a->op || a->acting || for_lease(a->op))
      continue;
    struct dlk_zk_store *st = a->store;
    struct dlk_op *op = a->op;
    dlk_zk_first *first = a->first;
    dlk_zk_ask_detach(a);
    dlk_zk_ask(st, op, first);
  }
}

void dlk_zk_ask(struct dlk_zk_store *st, struct dlk_op *op,
                dlk_zk_first *first) {
  struct dlk_zk_ask *a = calloc(1, sizeof *a);
  if (a) {
    dlk_zk_lock_path(st, &a->path, op->key, op->key_len);
    a->path_len = a->path.len;
  }
  if (!a || a->path.failed) {
    if (a)
      free_ask(a);
    dlk_zk_done(st, op, DLK_UNAVAILABLE);
    return;
  }
  a->store = st;
  a->op = op;
  a->first = first;
  a->timer.fire = timer_fired;
  dlk_list_init(&a->link);
  ((struct dlk_zk_op_data *)op->data)->ask = a;
  join(a);
}
