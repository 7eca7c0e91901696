/* The recipe's requests as Consul's.
 *
 * A contender is a key that the session has locked. Its fence is the
 * CreateIndex, which rises with each write of the servers. Folders are
 * prefixes: there is nothing to make. Each request is a transaction, and each
 * write of a node compares: a contender's session, a mark the ModifyIndex that
 * was read, a create the epoch (driver.c, C1).
 *
 * A1, A2: asks/asks.h.
 * A3. Reads are consistent: a majority confirms the leader that answers.
 * A4. A dead contender's key has no session. A list locks and deletes it, and
 *     lists again, in one transaction. It shows the key while Consul lets no
 *     session lock it (lock-delay). Stand-ins past their end (A5) go before, in
 *     a transaction of their own: that of the others may be refused.
 * A5. The servers' clock is the agent's. Its answers have a date in seconds:
 *     each bounds how far it is ahead of ours, and together they narrow that.
 *
 * A6. Asks share connections that have served before: an agent at its limit
 *     ends a new one, and what was asked on it may be done. While asks wait, a
 *     call that changes nothing opens one more, up to MOST. Behind one that the
 *     agent ended, none is opened for NARROW.
 *
 * One FLYING is, first,
 *   PROVING    PROVE: the renewal, then the read
 * and at last,
 *   BURYING    LIST, COUNT: A4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/consul/link.h"
#include "store/session/format/data.h"
#include "store/session/format/names.h"

#define MOST 8
#define NARROW (10 * DLK_SEC)
#define BURIED (DLK_CONSUL_OPS / 2 - 1)

enum stage { ITSELF, PROVING, BURYING };

struct ask {
  struct dlk_ss_ask a;
  struct dlk_http_call call;
  struct dlk_ss_link *on;
  enum stage stage;
  size_t skip, buried; /* results before a list's; of A4 */
  struct dlk_consul_sight sight;
  struct dlk_consul_answer said;
  struct dlk_buf body;
  size_t prefix; /* length of its folder's */
};

static struct ask *of(struct dlk_ss_ask *a) {
  return (struct ask *)(void *)a; /* its first member */
}

static void free_ask(struct dlk_ss_ask *a) {
  dlk_http_drop(&of(a)->call);
  dlk_consul_free(&of(a)->said);
  dlk_buf_free(&of(a)->body);
}

static bool lists(const struct ask *a) {
  return a->a.verb == DLK_SS_LIST || a->a.verb == DLK_SS_COUNT;
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

static bool put_guarded(const struct dlk_op *op, struct dlk_buf *out) {
  struct dlk_ss_write w;
  size_t at = 0;
  bool ok = true;
  while (ok && dlk_ss_guard_next(op, &at, &w)) {
    const struct dlk_buf key = {.data = (char *)(uintptr_t)w.key, .len = w.len};
    const struct dlk_consul_op one = {.verb = w.value ? "set" : "delete",
                                      .key = &key,
                                      .value = w.value,
                                      .len = w.value_len};
    ok = dlk_consul_op(out, &one);
  }
  return ok;
}

const char *dlk_consul_guard_error(void *client, const struct dlk_op *op) {
  struct dlk_buf none = {0};
  size_t count = dlk_ss_guard_count(op);
  bool ok = count > 0 && count < DLK_CONSUL_OPS && put_guarded(op, &none);
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
    add(a, "get-tree", lists(a) ? prefix : &other, NULL, 0);
  }
  dlk_buf_free(&other);
}

static void put_body(struct ask *a, const struct dlk_ss_request *q) {
  struct dlk_buf key = {0}, prefix = {0};
  bool folder = lists(a);
  char *slash = strrchr(a->a.path, '/');
  dlk_consul_key(&key, a->a.path);
  if (!folder)
    *slash = '\0';
  dlk_consul_prefix(&prefix, a->a.path);
  if (!folder)
    *slash = '/';
  a->prefix = prefix.len;
  put_ops(a, q, &key, &prefix);
  dlk_buf_add(&a->body, "]", 1);
  dlk_buf_free(&key);
  dlk_buf_free(&prefix);
}

/* ---- how it goes on ---- */

static void on_told(struct dlk_http_call *c);

static void call(struct ask *a, const char *path, const char *body,
                 size_t len) {
  struct dlk_ss_link *l = a->on;
  a->call.told = on_told;
  if (!dlk_http_start(&l->http, &a->call, path, body, len,
                      l->client->conf.io_timeout))
    dlk_ss_ask_end(&a->a, DLK_SS_MEMORY, "out of memory");
}

static void fly(struct ask *a, enum stage stage) {
  struct dlk_buf path = {0};
  a->stage = stage;
  if (dlk_ss_ask_is_base(&a->a)) {
    dlk_buf_addf(&path, "/v1/kv/");
    dlk_consul_prefix(&path, a->a.path);
    dlk_buf_addf(&path, "?keys&consistent&separator=/");
    dlk_buf_add(&path, "", 1);
    call(a, path.failed ? "/" : path.data, NULL, 0);
    dlk_buf_free(&path);
  } else {
    call(a, "/v1/txn?consistent", a->body.data, a->body.len);
  }
}

/* The first time, or with another token than before. */
static void go(struct ask *a) {
  char path[80];
  if (a->stage != PROVING) {
    fly(a, a->stage);
    return;
  }
  snprintf(path, sizeof path, "/v1/session/renew/%s", a->on->session);
  call(a, path, "", 0);
}

static void start(struct dlk_ss_ask *ask) {
  struct ask *a = of(ask);
  a->sight.sent = ask->sent;
  a->sight.seen = a->on->seen;
  a->stage = a->a.verb == DLK_SS_PROVE ? PROVING : ITSELF;
  go(a);
}

/* ---- the dead (A4) ---- */

enum death { LIVES, DEAD, PAST };

static enum death death(const struct ask *a, const struct dlk_consul_entry *e) {
  struct dlk_buf name = {0};
  struct dlk_ss_entry n;
  int64_t clock = a->a.sent / DLK_MS + a->on->ahead_min;
  if (e->session[0] || strlen(e->key) <= a->prefix)
    return LIVES;
  dlk_consul_name(&name, e->key + a->prefix, e->created);
  bool ours = !name.failed && dlk_ss_name_parse(name.data, &n);
  dlk_buf_free(&name);
  if (!ours || n.until_ms > clock)
    return LIVES;
  return n.until_ms > 0 ? PAST : DEAD;
}

static size_t bury_past(struct ask *a) {
  size_t count = 0;
  for (size_t i = a->skip; i < a->said.count && count < BURIED; i++) {
    const struct dlk_consul_entry *e = &a->said.at[i];
    const struct dlk_buf key = {.data = (char *)(uintptr_t)e->key,
                                .len = strlen(e->key)};
    if (death(a, e) != PAST)
      continue;
    add(a, "delete-cas", &key, NULL, e->modified);
    count++;
  }
  return count;
}

/* Those of one client had one session. */
static size_t bury_dead(struct ask *a) {
  size_t count = 0;
  const char *client = NULL;
  for (size_t i = a->skip; i < a->said.count && count < BURIED; i++) {
    const char *name = a->said.at[i].key;
    const struct dlk_buf key = {.data = (char *)(uintptr_t)name,
                                .len = strlen(name)};
    if (death(a, &a->said.at[i]) != DEAD)
      continue;
    const char *its = name + key.len - DLK_SS_CLIENT; /* ends with it */
    if (client && memcmp(client, its, DLK_SS_CLIENT) != 0)
      continue;
    client = its;
    add(a, "lock", &key, NULL, 0);
    add(a, "delete", &key, NULL, 0);
    count++;
  }
  return count;
}

/* False: there are none. */
static bool bury(struct ask *a) {
  struct dlk_buf prefix = {0};
  dlk_buf_clear(&a->body);
  size_t past = bury_past(a), count = past ? 0 : bury_dead(a);
  dlk_consul_prefix(&prefix, a->a.path);
  add(a, "get-tree", &prefix, NULL, 0);
  dlk_buf_add(&a->body, "]", 1);
  bool ok = past + count > 0 && !a->body.failed && !prefix.failed;
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
  return a->a.verb == DLK_SS_KEEP   ? DLK_SS_EXISTS
         : a->a.verb == DLK_SS_MARK ? DLK_SS_VERSION
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
    a->sight.dead |= death(a, e) != LIVES;
    a->sight.count++;
  }
}

/* Its results are of use: of the others it is known that they were done. */
static bool reads(const struct ask *a) {
  return a->a.verb != DLK_SS_DELETE && a->a.verb != DLK_SS_KEEP &&
         a->a.verb != DLK_SS_PROVE;
}

/* A whole answer of the servers. False: the session is over, or AWAY. */
static bool take(struct ask *a) {
  struct dlk_ss_link *l = a->on;
  struct dlk_http_call *c = &a->call;
  if (c->status == 404 || (c->status == 200 && !reads(a)))
    dlk_buf_clear(&c->in);
  if (a->stage == BURYING && c->status == 409) { /* it counts */
    dlk_ss_ask_end(&a->a, DLK_SS_OK, "");
    return true;
  }
  dlk_consul_free(&a->said);
  a->skip = a->stage == BURYING ? a->buried : a->skip;
  bool create = c->status == 409 && a->a.verb == DLK_SS_CREATE;
  if (!dlk_consul_read(&c->in, &a->said)) {
    dlk_ss_ask_end(&a->a, DLK_SS_MEMORY, "no answer of Consul");
  } else if (create && strstr(a->said.why, "invalid session")) {
    dlk_consul_end(l, DLK_SS_END_EXPIRED, "the session is over");
    return false;
  } else if (create && refused(a) == DLK_SS_NONODE) {
    dlk_consul_cut(l, "another epoch was written");
    return false;
  } else if (c->status == 409 && refused(a) == DLK_SS_NOAUTH &&
             dlk_consul_retries(l, c)) {
    go(a);
  } else if (c->status == 409) {
    dlk_ss_ask_end(&a->a, refused(a),
                   dlk_ss_keep_text(l->client->texts, a->said.why));
  } else if (!lists(a) || dlk_ss_ask_is_base(&a->a) || !bury(a)) {
    dlk_ss_ask_end(&a->a, DLK_SS_OK, "");
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
  if (c->fresh) /* those of before may be closed */
    l->asks.most = 1;
  if (dlk_consul_lost(l, c))
    return;
  hear_clock(l, c);
  if (a->stage == PROVING && c->status == 404) {
    dlk_consul_end(l, DLK_SS_END_EXPIRED, "the session is over");
    return;
  }
  if (a->stage == PROVING && c->status == 200) {
    fly(a, ITSELF);
  } else if (c->status == 200 || c->status == 404 || c->status == 409) {
    if (!take(a))
      return;
  } else if (c->status == 403 && dlk_consul_retries(l, c)) {
    go(a);
  } else {
    snprintf(text, sizeof text, "%.*s",
             (int)(c->in.len < 199 ? c->in.len : 199),
             c->in.len ? c->in.data : "");
    dlk_ss_ask_end(&a->a, c->status == 403 ? DLK_SS_NOAUTH : DLK_SS_FAILED,
                   dlk_ss_keep_text(l->client->texts, text));
  }
  dlk_consul_deliver(l);
}

static void read_names(const struct ask *a, struct dlk_ss_listed *out) {
  bool base = dlk_ss_ask_is_base(&a->a);
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
}

static void read_node(const struct ask *a, struct dlk_ss_reply *r,
                      struct dlk_ss_listed *out) {
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
                        struct dlk_ss_listed *out) {
  const struct dlk_consul_answer *said = &a->said;
  bool node = a->a.verb == DLK_SS_READ;
  if (said->count < (node ? 1 : a->skip)) {
    r->rc = DLK_SS_NOAUTH; /* left out of the answer */
  } else if (a->a.verb == DLK_SS_CREATE) {
    const struct dlk_consul_entry *own = &said->at[a->skip - 1];
    r->stat.fence = own->created;
    r->stat.version = own->modified;
    r->stat.ctime_ms = r->stat.mtime_ms;
    dlk_buf_addf(&out->text, "%s", a->a.path);
    dlk_consul_number(&out->text, own->created);
    r->path = out->text.data;
    if (out->text.failed)
      r->rc = DLK_SS_CUT; /* it will be found */
  } else if (node) {
    read_node(a, r, out);
  } else if (a->a.verb == DLK_SS_MARK && said->count > 1) {
    r->stat.version = said->at[1].modified;
  } else if (a->a.verb == DLK_SS_GUARD) {
    r->stat.version = said->count > 1 ? said->at[said->count - 1].modified : -1;
  } else if (lists(a)) {
    read_names(a, out);
    if (!dlk_ss_listed_tell(out, r))
      r->rc = DLK_SS_MEMORY;
  }
  if (a->a.watch && r->rc == DLK_SS_OK &&
      !dlk_consul_watch(a->on, a->a.path, lists(a), &a->sight))
    r->rc = DLK_SS_MEMORY;
}

/* A2. */
static void hand_on(struct ask *a) {
  struct dlk_ss_ask *next = dlk_ss_ask_rider(&a->a);
  if (!next)
    return;
  of(next)->skip = a->skip;
  of(next)->said = a->said;
  a->said = (struct dlk_consul_answer){.root = NULL};
}

static bool tell(struct dlk_ss_ask *ask) {
  struct ask *a = of(ask);
  struct dlk_ss_listed out = {.names = NULL};
  struct dlk_ss_reply r = {.rc = ask->rc, .text = ask->text, .sent = ask->sent};
  const struct dlk_ss_link *l = a->on;
  r.stat.mtime_ms = ask->sent / DLK_MS + l->ahead_min;
  r.stat.unsure_ms = l->ahead_max - l->ahead_min;
  if (r.rc == DLK_SS_OK) {
    look(a);
    read_answer(a, &r, &out);
  }
  hand_on(a);
  dlk_ss_ask_told(ask, &r);
  dlk_ss_listed_free(&out);
  return l->state == DLK_CONSUL_UP;
}

static void wake(struct dlk_ss_link *l) {
  if (l->state == DLK_CONSUL_UP && dlk_ss_asks_ready(&l->asks))
    l->host->timer_set(l->host, &l->soon, 0);
}

static void on_probed(struct dlk_http_call *c) {
  struct dlk_ss_link *l = DLK_CONTAINER(c, struct dlk_ss_link, probe);
  if (c->status == 0 || c->status == 429) {
    l->narrow = l->host->now(l->host) + NARROW;
  } else if (l->state == DLK_CONSUL_UP) {
    l->asks.most++;
    dlk_consul_deliver(l);
  }
}

/* A6. */
static void widen(struct dlk_ss_link *l) {
  bool full = l->asks.full;
  l->asks.full = false;
  if (!full || l->probe.on || l->asks.most >= MOST ||
      l->state != DLK_CONSUL_UP || l->host->now(l->host) < l->narrow)
    return;
  l->probe.told = on_probed;
  l->probe.anew = true;
  (void)dlk_http_start(&l->http, &l->probe, "/v1/status/leader", NULL, 0,
                       l->client->conf.io_timeout);
}

void dlk_consul_deliver(struct dlk_ss_link *l) {
  if (dlk_ss_asks_deliver(&l->asks)) {
    dlk_ss_asks_start(&l->asks);
    wake(l);
    widen(l);
  }
  dlk_consul_busy(l);
}

static bool put(struct dlk_ss_ask *ask, const struct dlk_ss_request *q) {
  of(ask)->on = DLK_CONTAINER(ask->in, struct dlk_ss_link, asks);
  put_body(of(ask), q);
  return !of(ask)->body.failed;
}

const struct dlk_ss_asks_type dlk_consul_asks = {.room = "consul",
                                                 .size = sizeof(struct ask),
                                                 .put = put,
                                                 .start = start,
                                                 .tell = tell,
                                                 .free = free_ask};

bool dlk_consul_send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                     dlk_ss_answer *answer, void *who, uint32_t tag) {
  bool up = l->state == DLK_CONSUL_UP;
  if ((!up && !l->cut) || !dlk_ss_asks_add(&l->asks, q, answer, who, tag, up))
    return false;
  wake(l);
  widen(l);
  dlk_consul_busy(l);
  return true;
}
