/* The recipe's requests as Consul's.
 *
 * A contender is a key that the session has locked. Its fence is the
 * CreateIndex, which rises with each write of the servers. Folders are
 * prefixes: there is nothing to make. Each request is a transaction, and each
 * write of a node compares: a contender's session, a mark the ModifyIndex that
 * was read, a create the epoch (driver.c, C1).
 *
 * A1. Requests go over several connections, so order (D1) is kept here. An ask
 *     begins when no earlier one of the same lock, of which one writes, is
 *     under way, and MOST at a time are. All are answered in the order in which
 *     they came.
 * A2. A create lists the lock in its own transaction. The LIST that follows at
 *     once (`leads`) is answered by that: an acquire is one round trip.
 * A3. Reads are consistent: a majority confirms the leader that answers.
 * A4. A dead contender's key has no session. A list locks and deletes it, and
 *     lists again, in one transaction. It shows the key while Consul lets no
 *     session lock it (lock-delay).
 * A5. The servers' clock is the agent's. Its answers have a date in seconds:
 *     each bounds how far it is ahead of ours, and together they narrow that.
 *
 *   QUEUED -> FLYING               start
 *   QUEUED -> PROVING -> FLYING    PROVE: the renewal, then the read
 *   FLYING -> BURYING              LIST, COUNT: A4
 *   any -> DONE                    until then delivered */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/consul/link.h"
#include "store/session/format/data.h"
#include "store/session/format/names.h"
#include "store/session/format/traced.h"

#define MOST 8
#define BURIED (DLK_CONSUL_OPS / 2 - 1)

enum phase { QUEUED, PROVING, FLYING, BURYING, DONE };

struct ask {
  struct dlk_list link;
  struct dlk_http_call call;
  struct dlk_ss_link *on;
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  enum dlk_ss_verb verb;
  enum phase phase;
  enum dlk_ss_rc rc;
  const char *text;
  uint32_t lock; /* of its folder's name; 0: all locks */
  bool writes, watch, rides;
  size_t skip, buried; /* results before a list's; A4 */
  struct dlk_consul_sight sight;
  struct dlk_consul_answer said;
  struct dlk_buf body;
  size_t prefix; /* length of its folder's */
  char path[];
};

static const char *const verbs[] = {
    [DLK_SS_CREATE] = "create", [DLK_SS_KEEP] = "keep",
    [DLK_SS_MARK] = "mark",     [DLK_SS_DELETE] = "delete",
    [DLK_SS_READ] = "read",     [DLK_SS_LIST] = "list",
    [DLK_SS_COUNT] = "count",   [DLK_SS_PROVE] = "prove",
    [DLK_SS_CLOCK] = "clock",   [DLK_SS_FOLDER] = "folder",
    [DLK_SS_GUARD] = "guard",   [DLK_SS_PING] = "ping"};

static struct ask *ask_at(struct dlk_list *l) {
  return DLK_CONTAINER(l, struct ask, link);
}

static void free_ask(struct ask *a) {
  dlk_list_remove(&a->link);
  dlk_http_drop(&a->call);
  dlk_consul_free(&a->said);
  dlk_buf_free(&a->body);
  free(a);
}

static void trace(const struct ask *a, const char *event, enum dlk_ss_rc rc) {
  if (DLK_TRACING)
    dlk_ss_trace("consul", a->on->host->now(a->on->host), event, a->path,
                 "%s%s", verbs[a->verb],
                 rc == DLK_SS_OK       ? ""
                 : rc == DLK_SS_NONODE ? ", no such key"
                                       : ", not done");
}

/* ---- what is asked ---- */

static bool add(struct ask *a, const char *verb, const struct dlk_buf *key,
                const struct dlk_ss_request *q, int64_t index) {
  bool locks = strcmp(verb, "lock") == 0 || strcmp(verb, "check-session") == 0;
  const struct dlk_consul_op op = {.verb = verb,
                                   .key = key,
                                   .value = q ? q->data : NULL,
                                   .len = q ? q->len : 0,
                                   .session = locks ? a->on->session : NULL,
                                   .index = index};
  return dlk_consul_op(&a->body, &op);
}

/* "PUT", key, value and "DELETE", key, as many as there are. */
static bool put_guarded(const struct dlk_op *op, struct dlk_buf *out) {
  size_t i = 0, count = 1;
  bool ok = true;
  while (ok && i < op->argc) {
    bool puts = op->argv_len[i] == 3 && memcmp(op->argv[i], "PUT", 3) == 0;
    bool ends = op->argv_len[i] == 6 && memcmp(op->argv[i], "DELETE", 6) == 0;
    size_t n = puts ? 3 : 2;
    if ((!puts && !ends) || i + n > op->argc || op->argv_len[i + 1] == 0)
      return false;
    const struct dlk_buf key = {.data = (char *)(uintptr_t)op->argv[i + 1],
                                .len = op->argv_len[i + 1]};
    const struct dlk_consul_op one = {.verb = puts ? "set" : "delete",
                                      .key = &key,
                                      .value = puts ? op->argv[i + 2] : NULL,
                                      .len = puts ? op->argv_len[i + 2] : 0};
    ok = dlk_consul_op(out, &one) && ++count <= DLK_CONSUL_OPS;
    i += n;
  }
  return ok && i > 0;
}

const char *dlk_consul_guard_error(void *client, const struct dlk_op *op) {
  struct dlk_buf none = {0};
  bool ok = put_guarded(op, &none);
  (void)client;
  dlk_buf_free(&none);
  return ok ? NULL
            : "guard takes \"PUT\", key, value and \"DELETE\", key, at most 63 "
              "of them, which are done together; keys are UTF-8";
}

/* What a's transaction has; key and prefix: of its path. */
static void put_ops(struct ask *a, const struct dlk_ss_request *q,
                    const struct dlk_buf *key, const struct dlk_buf *prefix) {
  struct dlk_ss_link *l = a->on;
  struct dlk_buf other = {0};
  switch (q->verb) {
  case DLK_SS_CREATE:
    dlk_consul_epoch_key(l, &other);
    add(a, l->epoch ? "check-index" : "check-not-exists", &other, NULL,
        l->epoch);
    add(a, "lock", key, q, 0);
    add(a, "get-tree", prefix, NULL, 0);
    a->skip = l->epoch ? 2 : 1;
    break;
  case DLK_SS_KEEP:
    dlk_consul_key(&other, q->own);
    add(a, "check-session", &other, NULL, 0);
    add(a, "cas", key, q, 0);
    break;
  case DLK_SS_MARK:
    add(a, "get", key, NULL, 0);
    add(a, "cas", key, q, q->version);
    break;
  case DLK_SS_DELETE:
    add(a, "get", key, NULL, 0);
    add(a, "delete", key, NULL, 0);
    break;
  case DLK_SS_READ:
    add(a, "get", key, NULL, 0);
    break;
  case DLK_SS_PROVE:
    add(a, "check-session", key, NULL, 0);
    break;
  case DLK_SS_GUARD:
    add(a, "check-session", key, NULL, 0);
    put_guarded(q->op, &a->body);
    break;
  default:
    dlk_consul_epoch_key(l, &other);
    add(a, "get-tree",
        q->verb == DLK_SS_LIST || q->verb == DLK_SS_COUNT ? prefix : &other,
        NULL, 0);
  }
  dlk_buf_free(&other);
}

static void put_body(struct ask *a, const struct dlk_ss_request *q) {
  struct dlk_buf key = {0}, prefix = {0};
  bool folder = q->verb == DLK_SS_LIST || q->verb == DLK_SS_COUNT;
  char *slash = strrchr(a->path, '/');
  dlk_consul_key(&key, a->path);
  if (!folder)
    *slash = '\0';
  dlk_consul_prefix(&prefix, a->path);
  if (!folder)
    *slash = '/';
  a->prefix = prefix.len;
  put_ops(a, q, &key, &prefix);
  dlk_buf_add(&a->body, "]", 1);
  dlk_buf_free(&key);
  dlk_buf_free(&prefix);
}

/* ---- how it goes on ---- */

static void end_ask(struct ask *a, enum dlk_ss_rc rc, const char *text) {
  a->phase = DONE;
  a->rc = rc;
  a->text = text;
}

static void on_told(struct dlk_http_call *c);

static void call(struct ask *a, enum phase phase, const char *path,
                 const char *body, size_t len) {
  struct dlk_ss_link *l = a->on;
  a->phase = phase;
  a->call.told = on_told;
  if (!dlk_http_start(&l->http, &a->call, path, body, len,
                      l->client->conf.io_timeout))
    end_ask(a, DLK_SS_MEMORY, "out of memory");
}

static bool is_base(const struct ask *a) {
  return a->verb == DLK_SS_LIST && strcmp(a->path, a->on->client->base) == 0;
}

static void fly(struct ask *a, enum phase phase) {
  struct dlk_buf path = {0};
  if (is_base(a)) {
    dlk_buf_addf(&path, "/v1/kv/");
    dlk_consul_prefix(&path, a->path);
    dlk_buf_addf(&path, "?keys&consistent&separator=/");
    dlk_buf_add(&path, "", 1);
    call(a, phase, path.failed ? "/" : path.data, NULL, 0);
    dlk_buf_free(&path);
  } else {
    call(a, phase, "/v1/txn?consistent", a->body.data, a->body.len);
  }
}

static void start(struct ask *a) {
  struct dlk_ss_link *l = a->on;
  char path[80];
  trace(a, "send", DLK_SS_OK);
  a->sight.sent = l->host->now(l->host);
  a->sight.seen = l->seen;
  if (a->verb == DLK_SS_PROVE) {
    snprintf(path, sizeof path, "/v1/session/renew/%s", l->session);
    call(a, PROVING, path, "", 0);
  } else if (a->rides || a->verb == DLK_SS_FOLDER) {
    end_ask(a, DLK_SS_OK, "");
  } else {
    fly(a, FLYING);
  }
}

/* A1. */
static bool may_start(const struct ask *a) {
  const struct dlk_list *all = &a->on->asks;
  int flying = 0;
  for (struct dlk_list *at = all->next; at != &a->link; at = at->next) {
    const struct ask *b = ask_at(at);
    bool same = a->lock == b->lock || a->lock == 0 || b->lock == 0;
    flying += b->phase != QUEUED && b->phase != DONE;
    if (b->phase != DONE && same && (a->writes || b->writes))
      return a->rides && b->verb == DLK_SS_CREATE && at->next == &a->link;
  }
  return flying < MOST;
}

/* ---- the dead (A4) ---- */

static bool dead(const struct ask *a, const struct dlk_consul_entry *e) {
  struct dlk_buf name = {0};
  struct dlk_ss_entry n;
  if (e->session[0] || strlen(e->key) <= a->prefix)
    return false;
  dlk_consul_name(&name, e->key + a->prefix, e->created);
  bool is = !name.failed && dlk_ss_name_parse(name.data, &n) && n.until_ms == 0;
  dlk_buf_free(&name);
  return is;
}

/* Those of one client had one session. False: there are none. */
static bool bury(struct ask *a) {
  struct dlk_buf prefix = {0};
  size_t count = 0;
  const char *client = NULL;
  dlk_buf_clear(&a->body);
  for (size_t i = a->skip; i < a->said.count && count < BURIED; i++) {
    const char *name = a->said.at[i].key;
    const struct dlk_buf key = {.data = (char *)(uintptr_t)name,
                                .len = strlen(name)};
    if (!dead(a, &a->said.at[i]))
      continue;
    const char *its = name + key.len - DLK_SS_CLIENT; /* ends with it */
    if (client && memcmp(client, its, DLK_SS_CLIENT) != 0)
      continue;
    client = its;
    add(a, "lock", &key, NULL, 0);
    add(a, "delete", &key, NULL, 0);
    count++;
  }
  dlk_consul_prefix(&prefix, a->path);
  add(a, "get-tree", &prefix, NULL, 0);
  dlk_buf_add(&a->body, "]", 1);
  bool ok = count > 0 && !a->body.failed && !prefix.failed;
  dlk_buf_free(&prefix);
  a->buried = count;
  if (ok)
    fly(a, BURYING);
  return ok;
}

/* ---- answers ---- */

static enum dlk_ss_rc refused(const struct ask *a) {
  if (strstr(a->said.why, "ermission denied"))
    return DLK_SS_NOAUTH;
  if (a->said.failed == 0)
    return DLK_SS_NONODE;
  return a->verb == DLK_SS_KEEP   ? DLK_SS_EXISTS
         : a->verb == DLK_SS_MARK ? DLK_SS_VERSION
                                  : DLK_SS_FAILED;
}

static void look(struct ask *a) {
  struct dlk_ss_link *l = a->on;
  for (size_t i = 0; i < a->said.count; i++) {
    const struct dlk_consul_entry *e = &a->said.at[i];
    if (e->modified > l->seen)
      l->seen = e->modified;
    if (i < a->skip)
      continue;
    if (e->modified > a->sight.modified)
      a->sight.modified = e->modified;
    a->sight.dead |= dead(a, e);
    a->sight.count++;
  }
}

/* A whole answer of the servers. False: the session is over, or AWAY. */
static bool take(struct ask *a) {
  struct dlk_ss_link *l = a->on;
  struct dlk_http_call *c = &a->call;
  bool lists =
      (a->verb == DLK_SS_LIST && !is_base(a)) || a->verb == DLK_SS_COUNT;
  if (c->status == 404)
    dlk_buf_clear(&c->in);
  if (a->phase == BURYING && c->status == 409) { /* it counts */
    end_ask(a, DLK_SS_OK, "");
    return true;
  }
  dlk_consul_free(&a->said);
  a->skip = a->phase == BURYING ? a->buried : a->skip;
  bool create = c->status == 409 && a->verb == DLK_SS_CREATE;
  if (!dlk_consul_read(&c->in, &a->said)) {
    end_ask(a, DLK_SS_MEMORY, "no answer of Consul");
  } else if (create && strstr(a->said.why, "invalid session")) {
    dlk_consul_end(l, DLK_SS_END_EXPIRED, "the session is over");
    return false;
  } else if (create && refused(a) == DLK_SS_NONODE) {
    dlk_consul_cut(l, "another epoch was written");
    return false;
  } else if (c->status == 409) {
    end_ask(a, refused(a), dlk_consul_keep(l->client, a->said.why));
  } else if (!lists || !bury(a)) {
    end_ask(a, DLK_SS_OK, "");
  }
  return true;
}

/* A5. A clock that was set begins anew. */
static void hear_clock(struct dlk_ss_link *l, const struct dlk_http_call *c) {
  int64_t least = c->date_ms - l->host->now(l->host) / DLK_MS;
  int64_t most = c->date_ms + 1000 - c->sent / DLK_MS;
  bool anew = least > l->ahead_max || most < l->ahead_min;
  if (anew || least > l->ahead_min)
    l->ahead_min = least;
  if (anew || most < l->ahead_max)
    l->ahead_max = most;
}

static void on_told(struct dlk_http_call *c) {
  struct ask *a = DLK_CONTAINER(c, struct ask, call);
  struct dlk_ss_link *l = a->on;
  char text[200];
  if (dlk_consul_lost(l, c))
    return;
  hear_clock(l, c);
  if (a->phase == PROVING && c->status == 404) {
    dlk_consul_end(l, DLK_SS_END_EXPIRED, "the session is over");
    return;
  }
  if (a->phase == PROVING && c->status == 200) {
    fly(a, FLYING);
  } else if (c->status == 200 || c->status == 404 || c->status == 409) {
    if (!take(a))
      return;
  } else {
    snprintf(text, sizeof text, "%.*s",
             (int)(c->in.len < 199 ? c->in.len : 199),
             c->in.len ? c->in.data : "");
    end_ask(a, c->status == 403 ? DLK_SS_NOAUTH : DLK_SS_FAILED,
            dlk_consul_keep(l->client, text));
  }
  dlk_consul_deliver(l);
}

struct listed {
  struct dlk_buf text; /* names, or a node's data */
  char **names;
  size_t count;
};

static bool read_names(const struct ask *a, struct listed *out) {
  bool base = is_base(a);
  for (size_t i = a->skip; i < a->said.count; i++) {
    const struct dlk_consul_entry *e = &a->said.at[i];
    if (strlen(e->key) <= a->prefix)
      continue;
    const char *rest = e->key + a->prefix, *slash = strchr(rest, '/');
    if (base ? !slash || slash[1] : slash != NULL)
      continue;
    if (base)
      dlk_consul_lock(&out->text, rest, (size_t)(slash - rest));
    else
      dlk_consul_name(&out->text, rest, e->created);
    out->count++;
  }
  out->names = calloc(out->count + 1, sizeof *out->names);
  if (!out->names || out->text.failed)
    return false;
  char *at = out->text.data;
  for (size_t i = 0; i < out->count; i++, at += strlen(at) + 1)
    out->names[i] = at;
  return true;
}

static void read_node(const struct ask *a, struct dlk_ss_reply *r,
                      struct listed *out) {
  struct dlk_ss_data data;
  const struct dlk_consul_entry *e = &a->said.at[0];
  dlk_consul_value(e, &out->text);
  if (out->text.failed)
    r->rc = DLK_SS_MEMORY;
  r->data = out->text.data;
  r->len = out->text.len;
  dlk_ss_data_parse(r->data, r->len, &data);
  r->stat.ctime_ms = data.since_ms;
  r->stat.fence = e->created;
  bool ours = strcmp(e->session, a->on->session) == 0;
  r->stat.owner = ours ? a->on->id : 0;
  r->stat.version = e->modified;
}

static void read_answer(struct ask *a, struct dlk_ss_reply *r,
                        struct listed *out) {
  const struct dlk_consul_answer *said = &a->said;
  bool lists = a->verb == DLK_SS_LIST || a->verb == DLK_SS_COUNT;
  bool reads = a->verb == DLK_SS_READ;
  if (said->count < (reads ? 1 : a->skip)) {
    r->rc = DLK_SS_NOAUTH; /* left out of the answer */
  } else if (a->verb == DLK_SS_CREATE) {
    const struct dlk_consul_entry *own = &said->at[a->skip - 1];
    r->stat.fence = own->created;
    r->stat.version = own->modified;
    r->stat.ctime_ms = r->stat.mtime_ms;
    dlk_buf_addf(&out->text, "%s", a->path);
    dlk_consul_number(&out->text, own->created);
    r->path = out->text.data;
    if (out->text.failed)
      r->rc = DLK_SS_CUT; /* it will be found */
  } else if (reads) {
    read_node(a, r, out);
  } else if (a->verb == DLK_SS_MARK && said->count > 1) {
    r->stat.version = said->at[1].modified;
  } else if (a->verb == DLK_SS_GUARD) {
    r->stat.version = said->count > 1 ? said->at[said->count - 1].modified : -1;
  } else if (lists) {
    if (!read_names(a, out))
      r->rc = DLK_SS_MEMORY;
    r->names = out->names;
    r->count = out->count;
    r->stat.children = (int64_t)out->count;
  }
  if (a->watch && r->rc == DLK_SS_OK &&
      !dlk_consul_watch(a->on, a->path, lists, &a->sight))
    r->rc = DLK_SS_MEMORY;
}

/* The create's list is that of the ask behind it (A2). */
static void hand_on(struct ask *a) {
  struct ask *next = a->link.next != &a->on->asks ? ask_at(a->link.next) : NULL;
  if (a->verb != DLK_SS_CREATE || !next || !next->rides)
    return;
  next->rc = a->rc;
  next->text = a->text;
  next->sight.sent = a->sight.sent;
  next->skip = a->skip;
  next->said = a->said;
  a->said = (struct dlk_consul_answer){.root = NULL};
}

static void answer(struct ask *a) {
  struct listed out = {.names = NULL};
  struct dlk_ss_reply r = {.rc = a->rc, .text = a->text, .sent = a->sight.sent};
  const struct dlk_ss_link *l = a->on;
  r.stat.mtime_ms = a->sight.sent / DLK_MS + l->ahead_min;
  r.stat.unsure_ms = l->ahead_max - l->ahead_min;
  if (r.rc == DLK_SS_OK) {
    look(a);
    read_answer(a, &r, &out);
  }
  hand_on(a);
  dlk_list_remove(&a->link);
  trace(a, "answer", r.rc);
  a->answer(a->who, a->tag, &r);
  free_ask(a);
  free(out.names);
  dlk_buf_free(&out.text);
}

void dlk_consul_deliver(struct dlk_ss_link *l) {
  if (l->delivering)
    return;
  l->delivering = true;
  while (l->state == DLK_CONSUL_UP && !dlk_list_empty(&l->asks) &&
         ask_at(l->asks.next)->phase == DONE)
    answer(ask_at(l->asks.next));
  l->delivering = false;
  for (struct dlk_list *at = l->asks.next; at != &l->asks; at = at->next)
    if (ask_at(at)->phase == QUEUED && may_start(ask_at(at)))
      start(ask_at(at));
  if (!dlk_list_empty(&l->asks) && ask_at(l->asks.next)->phase == DONE)
    l->host->timer_set(l->host, &l->soon, 0);
  dlk_consul_busy(l);
}

void dlk_consul_asks_end(struct dlk_ss_link *l, const char *why) {
  struct dlk_list all;
  dlk_list_take(&l->asks, &all);
  const struct dlk_ss_reply cut = {
      .rc = DLK_SS_CUT, .text = why ? dlk_consul_keep(l->client, why) : ""};
  while (!dlk_list_empty(&all)) {
    struct ask *a = ask_at(all.next);
    dlk_list_remove(&a->link);
    dlk_http_drop(&a->call);
    if (why && l->state < DLK_CONSUL_CLOSED)
      a->answer(a->who, a->tag, &cut);
    free_ask(a);
  }
  dlk_consul_busy(l);
}

/* ---- send ---- */

static uint32_t hash(const char *p, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)p[i]) * 16777619u;
  return h ? h : 1;
}

static uint32_t lock_of(const struct ask *a) {
  bool folder = a->verb == DLK_SS_LIST || a->verb == DLK_SS_COUNT;
  if (is_base(a))
    return 0;
  return hash(a->path, folder ? strlen(a->path)
                              : (size_t)(strrchr(a->path, '/') - a->path));
}

/* A2. */
static bool rides(const struct dlk_ss_link *l, const struct dlk_ss_request *q,
                  const char *path) {
  if (q->verb != DLK_SS_LIST || q->fresh || q->watch ||
      dlk_list_empty(&l->asks))
    return false;
  const struct ask *last = ask_at(l->asks.prev);
  size_t n = strlen(path);
  return last->verb == DLK_SS_CREATE && last->phase != DONE &&
         strncmp(last->path, path, n) == 0 && last->path[n] == '/';
}

bool dlk_consul_send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                     dlk_ss_answer *answer_to, void *who, uint32_t tag) {
  const char *path = q->path ? q->path : q->own ? q->own : l->client->base;
  size_t len = strlen(path);
  bool up = l->state == DLK_CONSUL_UP;
  struct ask *a = up || l->cut ? calloc(1, sizeof *a + len + 1) : NULL;
  if (!a)
    return false;
  memcpy(a->path, path, len);
  a->on = l;
  a->answer = answer_to;
  a->who = who;
  a->tag = tag;
  a->verb = q->verb;
  a->writes = q->verb <= DLK_SS_DELETE || q->verb == DLK_SS_GUARD;
  a->watch = q->watch;
  a->lock = lock_of(a);
  a->rides = rides(l, q, path);
  put_body(a, q);
  dlk_list_append(&l->asks, &a->link);
  if (a->body.failed) {
    free_ask(a);
    return false;
  }
  if (up && may_start(a))
    start(a);
  if (a->phase == DONE)
    l->host->timer_set(l->host, &l->soon, 0);
  dlk_consul_busy(l);
  return true;
}
