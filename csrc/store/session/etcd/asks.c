/* The recipe's requests as etcd's.
 *
 * A contender is a key on the session's lease. Its fence is the
 * create_revision, which rises with each write of the cluster. Folders are
 * prefixes: there is nothing to make. Each write of a node is a transaction
 * that compares: a contender's create_revision (its name has it), a mark the
 * mod_revision that was read, a create the epoch (driver.c, E1).
 *
 * A1, A2: asks/asks.h.
 * A3. A LIST that is not fresh, and a READ, are the member's own
 *     (serializable): it has applied what it answered here (driver.c, E2).
 * A4. The servers show no clock. CLOCK is ours. A stand-in's end is for its
 *     maker alone (names.c); for all others its own lease ends it.
 * A5. A detached node's mark is "<its key>/d", and goes with it. A detach
 *     compares the epoch, so a lost one is not done after its repetition. It
 *     writes its own, so none is done when the session and its epochs are gone:
 *     the key may be another's by then. A prolonging compares the mark's
 *     mod_revision, so a lost one undoes none that came behind it.
 * A6. Events have a stream of their own: one may come just behind an answer
 *     that shows its cause (D3). No watch misses it (watch.c). But a try may
 *     call busy a lock that was downgraded a moment before.
 *
 * One FLYING is, first,
 *   PROVING    PROVE: the keepalive, then the read
 *   GRANTING   KEEP, DETACH, PROLONG: the key's lease */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/etcd/link.h"
#include "store/session/format/data.h"

enum stage { ITSELF, PROVING, GRANTING };

struct ask {
  struct dlk_ss_ask a;
  struct dlk_grpc_call call;
  struct dlk_ss_link *on;
  enum stage stage;
  bool ranges, again;
  int64_t created;      /* the node's, or 0 */
  int64_t seen;         /* what an ATTACH compares; -1: nothing */
  int64_t keep, keeper; /* of a lease of its own: seconds, and its id */
  struct dlk_buf body;  /* the call's message */
};

static struct ask *of(struct dlk_ss_ask *a) {
  return (struct ask *)(void *)a; /* its first member */
}

static void free_ask(struct dlk_ss_ask *a) {
  dlk_grpc_drop(&of(a)->call);
  dlk_buf_free(&of(a)->body);
}

/* ---- what is asked ---- */

static struct dlk_etcd_bytes bytes_of(const struct dlk_buf *b) {
  return (struct dlk_etcd_bytes){b->data ? b->data : "", b->len};
}

/* All names in the folder: the key ends with '/'. */
static struct dlk_etcd_range names_in(const struct dlk_buf *folder) {
  return (struct dlk_etcd_range){
      .key = bytes_of(folder), .folder = true, .keys_only = true};
}

static void if_epoch(struct dlk_ss_link *l, struct dlk_buf *out) {
  struct dlk_buf next = {0};
  size_t folder = dlk_etcd_epoch_key(l, l->epoch + 1, &next);
  out->failed |= next.failed;
  if (!next.failed)
    dlk_etcd_if_none(out, bytes_of(&next),
                     (struct dlk_etcd_bytes){next.data, folder});
  dlk_buf_free(&next);
}

static void put_create(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                       struct dlk_etcd_bytes key, struct dlk_buf *out) {
  struct dlk_buf folder = {0};
  dlk_buf_add(&folder, q->path, (size_t)(strrchr(q->path, '/') - q->path) + 1);
  const struct dlk_etcd_put put = {key, {q->data, q->len}, .lease = l->lease};
  const struct dlk_etcd_range names = names_in(&folder);
  out->failed |= folder.failed;
  if_epoch(l, out);
  dlk_etcd_do_put(out, &put);
  dlk_etcd_do_range(out, DLK_ETCD_THEN, &names);
  dlk_buf_free(&folder);
}

static void put_count(struct dlk_buf *out, struct dlk_etcd_bytes key) {
  const struct dlk_etcd_range there = {.key = key, .count_only = true};
  dlk_etcd_do_range(out, DLK_ETCD_ELSE, &there);
}

static void put_guarded(const struct dlk_op *op, struct dlk_buf *out) {
  struct dlk_ss_write w;
  size_t at = 0;
  while (dlk_ss_guard_next(op, &at, &w)) {
    const struct dlk_etcd_put put = {
        {w.key, w.len}, {w.value ? w.value : "", w.value_len}, .lease = 0};
    if (w.value)
      dlk_etcd_do_put(out, &put);
    else
      dlk_etcd_do_delete(out, put.key, false);
  }
}

const char *dlk_etcd_guard_error(void *client, const struct dlk_op *op) {
  (void)client;
  return dlk_ss_guard_count(op) > 0
             ? NULL
             : "guard takes \"PUT\", key, value and \"DELETE\", key, one or "
               "several, which are done together";
}

static void put_ranged(const struct ask *a, bool fresh,
                       struct dlk_etcd_bytes key, struct dlk_buf *out) {
  struct dlk_buf folder = {0};
  bool names = a->a.verb == DLK_SS_LIST || a->a.verb == DLK_SS_COUNT;
  bool pings = a->a.verb == DLK_SS_PING; /* of a key that nobody has */
  dlk_buf_addf(&folder, "%s/", a->a.path);
  const struct dlk_etcd_range r = {
      .key = names || pings ? bytes_of(&folder) : key,
      .folder = names,
      .serializable = a->a.verb == DLK_SS_READ || (names && !fresh),
      .keys_only = a->a.verb == DLK_SS_LIST || a->a.verb == DLK_SS_PROVE,
      .count_only = a->a.verb == DLK_SS_COUNT || pings};
  out->failed |= folder.failed;
  dlk_etcd_range(out, &r);
  dlk_buf_free(&folder);
}

/* A5. */
static void put_move(const struct ask *a, const struct dlk_ss_request *q,
                     const struct dlk_etcd_node *node, struct dlk_buf *out) {
  struct dlk_buf name = {0};
  dlk_buf_addf(&name, "%.*s/d", (int)node->key.len, node->key.data);
  const struct dlk_etcd_bytes key = bytes_of(&node->key),
                              mark = bytes_of(&name);
  const struct dlk_etcd_range read = {.key = mark}, own = {.key = key};
  const struct dlk_etcd_put note = {
      mark, {q->data, q->len}, .lease = a->keeper};
  struct dlk_etcd_put move = {key, .lease = a->keeper, .same_value = true};
  bool back = q->verb == DLK_SS_ATTACH;
  out->failed |= name.failed;
  dlk_etcd_if(out, key, DLK_ETCD_CREATE, node->created);
  if (a->seen >= 0)
    dlk_etcd_if(out, key, DLK_ETCD_MOD, a->seen);
  if (q->verb == DLK_SS_DETACH)
    if_epoch(a->on, out);
  else
    dlk_etcd_if(out, mark,
                q->verb == DLK_SS_PROLONG ? DLK_ETCD_MOD : DLK_ETCD_CREATE,
                q->version);
  if (q->verb == DLK_SS_DETACH)
    dlk_etcd_put_epoch(a->on, out);
  if (back)
    move.lease = a->on->lease;
  if (back && q->data) {
    move.same_value = false;
    move.value = (struct dlk_etcd_bytes){q->data, q->len};
  }
  if (back || q->verb == DLK_SS_DETACHED)
    dlk_etcd_do_range(out, DLK_ETCD_THEN, &read);
  if (q->verb != DLK_SS_DETACHED)
    dlk_etcd_do_put(out, &move);
  if (back) {
    dlk_etcd_do_delete(out, mark, false);
    dlk_etcd_do_range(out, DLK_ETCD_ELSE, &own);
  } else if (q->verb != DLK_SS_DETACHED) {
    dlk_etcd_do_put(out, &note);
    dlk_etcd_do_range(out, DLK_ETCD_THEN, &read);
    dlk_etcd_do_range(out, DLK_ETCD_THEN, &own);
  }
  dlk_buf_free(&name);
}

/* The message of a's call. */
static void put_body(struct ask *a, const struct dlk_ss_request *q) {
  struct dlk_ss_link *l = a->on;
  struct dlk_buf *out = &a->body;
  struct dlk_etcd_node node = {0}, own = {0};
  dlk_etcd_node_of(&node, a->a.path);
  a->created = node.created;
  if (q->own)
    dlk_etcd_node_of(&own, q->own);
  struct dlk_etcd_bytes key = bytes_of(&node.key), mine = bytes_of(&own.key);
  struct dlk_etcd_put put = {key, {q->data, q->len}, .same_lease = true};
  switch (q->verb) {
  case DLK_SS_CREATE:
    put_create(l, q, key, out);
    break;
  case DLK_SS_KEEP:
    put.same_lease = false;
    put.lease = a->keeper;
    dlk_etcd_if(out, mine, DLK_ETCD_CREATE, own.created);
    dlk_etcd_if(out, key, DLK_ETCD_CREATE, 0);
    dlk_etcd_do_put(out, &put);
    put_count(out, mine);
    break;
  case DLK_SS_MARK:
    dlk_etcd_if(out, key, DLK_ETCD_MOD, q->version);
    dlk_etcd_do_put(out, &put);
    put_count(out, key);
    break;
  case DLK_SS_DELETE:
    if (node.created != 0)
      dlk_etcd_if(out, key, DLK_ETCD_CREATE, node.created);
    dlk_etcd_do_delete(out, key, true);
    break;
  case DLK_SS_GUARD:
    dlk_etcd_if(out, mine, DLK_ETCD_CREATE, own.created);
    put_guarded(q->op, out);
    break;
  case DLK_SS_DETACH:
  case DLK_SS_PROLONG:
  case DLK_SS_ATTACH:
  case DLK_SS_DETACHED:
    put_move(a, q, &node, out);
    break;
  default:
    a->ranges = true;
    put_ranged(a, q->fresh, key, out);
  }
  out->failed |= node.key.failed || own.key.failed;
  dlk_buf_free(&node.key);
  dlk_buf_free(&own.key);
}

/* ---- how it goes on ---- */

static void on_told(struct dlk_grpc_call *c);
static void on_kept(struct dlk_grpc_call *c);

static bool call(struct ask *a, const char *method) {
  struct dlk_grpc_call *c = &a->call;
  dlk_grpc_init_call(c, &a->on->grpc, method, false, on_told);
  size_t mark = dlk_grpc_open(c);
  if (a->stage == GRANTING)
    dlk_etcd_grant(&c->out, a->keep, a->keeper);
  else
    dlk_buf_add(&c->out, a->body.data, a->body.len);
  return dlk_grpc_say(c, mark);
}

static void fly(struct ask *a) {
  a->stage = ITSELF;
  if (!call(a, a->ranges ? "KV/Range" : "KV/Txn"))
    dlk_ss_ask_end(&a->a, DLK_SS_MEMORY, "out of memory");
}

static bool keep_alive(struct dlk_ss_link *l) {
  struct dlk_grpc_call *c = &l->keeper;
  dlk_grpc_init_call(c, &l->grpc, "Lease/LeaseKeepAlive", true, on_kept);
  size_t mark = dlk_grpc_open(c);
  dlk_etcd_lease(&c->out, l->lease);
  return dlk_grpc_say(c, mark);
}

static void start(struct dlk_ss_ask *ask) {
  struct ask *a = of(ask);
  bool keeps = a->keep > 0;
  if (!keeps && ask->verb != DLK_SS_PROVE) {
    fly(a);
    return;
  }
  a->stage = keeps ? GRANTING : PROVING;
  if (!(keeps ? call(a, "Lease/LeaseGrant") : keep_alive(a->on)))
    dlk_ss_ask_end(ask, DLK_SS_MEMORY, "out of memory");
}

/* A write that passes the quota is done, and answered by EXHAUSTED as one that
 * was refused is. A create is taken for refused, and then deleted. */
static enum dlk_ss_rc rc_of(const struct ask *a) {
  const struct dlk_grpc_call *c = &a->call;
  if (c->status == DLK_GRPC_OK)
    return DLK_SS_OK;
  if (dlk_etcd_denied(a->on, c))
    return DLK_SS_NOAUTH;
  bool unsure = c->status == DLK_GRPC_EXHAUSTED &&
                !strstr(c->text, "larger than max") && /* read by nobody */
                (a->a.verb != DLK_SS_CREATE ||
                 strstr(c->text, "too many requests") != NULL);
  return unsure ? DLK_SS_THROTTLED : DLK_SS_FAILED;
}

static void forget(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)who, (void)tag, (void)r;
}

static void on_told(struct dlk_grpc_call *c) {
  struct ask *a = DLK_CONTAINER(c, struct ask, call);
  struct dlk_ss_link *l = a->on;
  if (dlk_etcd_link_lost(l, c))
    return;
  bool binds = a->a.verb == DLK_SS_CREATE || a->a.verb == DLK_SS_ATTACH;
  if (c->status == DLK_GRPC_NOT_FOUND && binds) {
    dlk_etcd_link_end(l, DLK_SS_END_EXPIRED, "the lease ran out");
    return;
  }
  enum dlk_ss_rc rc = rc_of(a);
  if (rc == DLK_SS_OK && a->stage == GRANTING)
    fly(a);
  else
    dlk_ss_ask_end(
        &a->a, rc,
        rc == DLK_SS_OK ? "" : dlk_ss_keep_text(l->client->texts, c->text));
  const struct dlk_ss_request undo = {.verb = DLK_SS_DELETE, .path = a->a.path};
  if (c->status == DLK_GRPC_EXHAUSTED && rc == DLK_SS_FAILED &&
      a->a.verb == DLK_SS_CREATE)
    (void)dlk_etcd_send(l, &undo, forget, NULL, 0);
  if (dlk_etcd_deliver(l)) {
    dlk_ss_asks_start(&l->asks);
    dlk_etcd_link_wake(l);
  }
}

/* Keepalives are answered in their order. */
static struct ask *first_proving(struct dlk_ss_link *l) {
  struct dlk_list *all = &l->asks.list;
  for (struct dlk_list *at = all->next; at != all; at = at->next)
    if (of(dlk_ss_ask_at(at))->stage == PROVING)
      return of(dlk_ss_ask_at(at));
  return NULL;
}

static void on_kept(struct dlk_grpc_call *c) {
  struct dlk_ss_link *l =
      (struct dlk_ss_link *)(void *)c->owner; /* its first member */
  struct dlk_etcd_bytes m;
  struct dlk_etcd_leased leased;
  while (dlk_grpc_next(c, &m)) {
    struct ask *a = first_proving(l);
    if (!dlk_etcd_leased(m, &leased) || leased.ttl <= 0) {
      dlk_etcd_link_end(l, DLK_SS_END_EXPIRED, "the lease ran out");
      return;
    }
    if (a)
      fly(a);
  }
  dlk_etcd_link_wake(l);
  if (c->over)
    dlk_etcd_link_lost(l, c);
}

/* ---- answers ---- */

/* Of the base folder each lock once: its keys stand together. */
static void add_lock(struct dlk_ss_listed *out, struct dlk_etcd_bytes rest,
                     struct dlk_etcd_bytes *last) {
  const char *slash = memchr(rest.p, '/', rest.n);
  size_t n = slash ? (size_t)(slash - rest.p) : 0;
  if (n == 0 || rest.p[0] == '~' || memchr(rest.p, '\0', n) ||
      (n == last->n && memcmp(rest.p, last->p, n) == 0))
    return;
  *last = (struct dlk_etcd_bytes){rest.p, n};
  dlk_buf_add(&out->text, rest.p, n);
  dlk_buf_add(&out->text, "", 1);
  out->count++;
}

static void read_names(const struct ask *a, struct dlk_pb *kvs,
                       struct dlk_ss_listed *out) {
  size_t skip = strlen(a->a.path) + 1;
  bool base = dlk_ss_ask_is_base(&a->a);
  struct dlk_etcd_bytes last = {"", 0};
  struct dlk_etcd_kv kv;
  while (dlk_etcd_next_kv(kvs, &kv)) {
    if (kv.key.n <= skip)
      continue;
    struct dlk_etcd_bytes rest = {kv.key.p + skip, kv.key.n - skip};
    if (base) {
      add_lock(out, rest, &last);
    } else if (!memchr(rest.p, '/', rest.n) && !memchr(rest.p, '\0', rest.n)) {
      dlk_etcd_name(&out->text, rest, kv.created);
      out->count++;
    }
  }
}

/* A key of another number is another node (names.c). A key that is on another
 * lease proves nothing of ours: somebody put it there, or a detach did whose
 * answer is still to come. */
static bool read_node(struct ask *a, struct dlk_ss_reply *r,
                      struct dlk_etcd_ranged *got) {
  struct dlk_etcd_kv kv;
  r->stat.children = got->count;
  if (a->a.verb != DLK_SS_PROVE && a->a.verb != DLK_SS_READ)
    return true;
  bool there = got->count > 0;
  if (there && !dlk_etcd_next_kv(&got->kvs, &kv))
    return false;
  if (!there || (a->created != 0 && kv.created != a->created))
    r->rc = DLK_SS_NONODE;
  else if (a->a.verb == DLK_SS_PROVE && kv.lease != a->on->lease)
    r->rc = DLK_SS_UNBOUND;
  if (a->a.verb == DLK_SS_PROVE || r->rc != DLK_SS_OK)
    return true;
  r->data = kv.value.p;
  r->len = kv.value.n;
  r->stat.fence = kv.created;
  r->stat.owner = kv.lease;
  r->stat.version = kv.modified;
  struct dlk_ss_data data;
  dlk_ss_data_parse(kv.value.p, kv.value.n, &data);
  r->stat.ctime_ms = data.since_ms; /* etcd keeps no time */
  return true;
}

/* Of an attach that was done before, the node is on this session. A node that
 * was written since it was seen may still be detached. */
static void read_move(struct ask *a, struct dlk_ss_reply *r,
                      const struct dlk_etcd_did *did) {
  struct dlk_pb kvs = did->range.kvs;
  struct dlk_etcd_kv kv = {.key = {"", 0}};
  bool there = dlk_etcd_next_kv(&kvs, &kv);
  bool again = !did->succeeded && there && a->a.verb == DLK_SS_ATTACH &&
               a->again && kv.lease == a->on->lease;
  r->rc = again || (did->succeeded && there) ? DLK_SS_OK : DLK_SS_NONODE;
  if (!did->succeeded && !again && there && a->seen >= 0 &&
      kv.created == a->created && kv.modified != a->seen)
    r->rc = DLK_SS_VERSION;
  if (!did->succeeded)
    return;
  r->stat.version = a->a.verb == DLK_SS_DETACHED ? kv.modified : kv.created;
  kvs = did->second.kvs;
  if (a->a.verb == DLK_SS_DETACH && !dlk_etcd_next_kv(&kvs, &kv))
    return;
  r->data = kv.value.p;
  r->len = kv.value.n;
}

/* What it compares is not so: the key is gone, unless the count says else. */
static enum dlk_ss_rc undone(const struct ask *a,
                             const struct dlk_etcd_did *did) {
  if (a->a.verb == DLK_SS_CREATE)
    return DLK_SS_FAILED;
  if (did->range.count == 0)
    return DLK_SS_NONODE;
  return a->a.verb == DLK_SS_KEEP ? DLK_SS_EXISTS : DLK_SS_VERSION;
}

static void read_txn(struct ask *a, struct dlk_ss_reply *r,
                     const struct dlk_etcd_did *did) {
  r->stat.version = r->stat.fence = did->range.revision;
  r->stat.ctime_ms = a->a.sent / DLK_MS;
  r->stat.owner = a->on->lease;
  r->text = "the servers compared, and refuse it";
  if (a->a.verb >= DLK_SS_DETACH)
    read_move(a, r, did);
  else if (!did->succeeded)
    r->rc = undone(a, did);
  else if (a->a.verb == DLK_SS_DELETE && did->deleted == 0)
    r->rc = DLK_SS_NONODE;
}

/* Fills r from the call's answer; false: it is none. */
static bool read_answer(struct ask *a, struct dlk_ss_reply *r,
                        struct dlk_ss_listed *names, struct dlk_buf *full) {
  struct dlk_etcd_bytes m;
  struct dlk_etcd_ranged got = {0};
  struct dlk_etcd_did did;
  if (a->a.at_once && !a->a.rides)
    return true;
  if (!dlk_grpc_next(&a->call, &m))
    return false;
  if (a->ranges && !a->a.rides) {
    if (!dlk_etcd_ranged(m, &got))
      return false;
  } else if (!dlk_etcd_did(m, &did)) {
    return false;
  } else if (a->a.rides) {
    got = did.range;
    r->rc = did.succeeded ? DLK_SS_OK : DLK_SS_FAILED;
  } else {
    read_txn(a, r, &did);
  }
  if (a->a.verb == DLK_SS_LIST) {
    read_names(a, &got.kvs, names);
    if (!dlk_ss_listed_tell(names, r))
      r->rc = DLK_SS_MEMORY;
  } else if (a->ranges && !read_node(a, r, &got)) {
    return false;
  }
  if (a->a.verb == DLK_SS_CREATE && r->rc == DLK_SS_OK) {
    dlk_buf_addf(full, "%s", a->a.path);
    dlk_etcd_number(full, r->stat.fence);
    r->path = full->data;
    if (full->failed)
      return false; /* with the connection: it will be found */
  }
  if (a->a.watch && r->rc == DLK_SS_OK &&
      !dlk_etcd_watch_path(a->on, a->a.path, a->a.verb == DLK_SS_LIST,
                           got.revision))
    r->rc = DLK_SS_MEMORY;
  return !got.kvs.bad;
}

/* A2. */
static void hand_on(struct ask *a) {
  struct dlk_ss_ask *next = dlk_ss_ask_rider(&a->a);
  if (!next)
    return;
  struct dlk_buf *in = &of(next)->call.in;
  dlk_buf_add(in, a->call.in.data, a->call.in.len);
  if (in->failed)
    dlk_ss_ask_end(next, DLK_SS_MEMORY, "out of memory");
}

static bool tell(struct dlk_ss_ask *ask) {
  struct ask *a = of(ask);
  struct dlk_ss_link *l = a->on;
  struct dlk_ss_listed names = {0};
  struct dlk_buf full = {0};
  struct dlk_ss_reply r = {.rc = ask->rc, .text = ask->text, .sent = ask->sent};
  hand_on(a);
  r.stat.mtime_ms = ask->sent / DLK_MS;
  bool ok = r.rc != DLK_SS_OK || read_answer(a, &r, &names, &full);
  if (ok)
    dlk_ss_ask_told(ask, &r);
  dlk_ss_listed_free(&names);
  dlk_buf_free(&full);
  if (!ok)
    dlk_net_conn_lost(&l->grpc.net, "the server's answer broke the protocol");
  return ok && !l->closed;
}

bool dlk_etcd_deliver(struct dlk_ss_link *l) {
  dlk_ss_asks_deliver(&l->asks);
  dlk_etcd_link_busy(l);
  return !l->closed;
}

int64_t dlk_etcd_oldest(const struct dlk_ss_link *l) {
  const struct dlk_list *all = &l->asks.list;
  for (struct dlk_list *at = all->next; at != all; at = at->next) {
    const struct dlk_ss_ask *a = dlk_ss_ask_at(at);
    if (a->phase == DLK_SS_FLYING)
      return a->sent;
  }
  return -1;
}

/* ---- send ---- */

static void set_keeper(struct ask *a, const struct dlk_ss_request *q) {
  struct dlk_host *host = a->on->host;
  uint64_t id;
  int64_t now = host->now(host) / DLK_MS;
  int64_t ms = q->ms ? q->ms : dlk_etcd_until_ms(a->a.path) - now;
  host->random(host, &id, sizeof id);
  a->keeper = (int64_t)(id >> 1 | 1);
  a->keep = ms > 0 ? ms / 1000 + 1 : 1;
}

static bool put(struct dlk_ss_ask *ask, const struct dlk_ss_request *q) {
  struct ask *a = of(ask);
  a->on = DLK_CONTAINER(ask->in, struct dlk_ss_link, asks);
  a->ranges = ask->rides;
  ask->at_once |= q->verb == DLK_SS_CLOCK;
  dlk_list_init(&a->call.link);
  a->again = q->attempt > 0;
  a->seen = q->verb == DLK_SS_ATTACH && q->data ? q->seen : -1;
  if (q->verb == DLK_SS_KEEP || q->verb == DLK_SS_DETACH ||
      q->verb == DLK_SS_PROLONG)
    set_keeper(a, q);
  if (!ask->at_once)
    put_body(a, q);
  return !a->body.failed;
}

const struct dlk_ss_asks_type dlk_etcd_asks = {.room = "etcd",
                                               .size = sizeof(struct ask),
                                               .put = put,
                                               .start = start,
                                               .tell = tell,
                                               .free = free_ask};

bool dlk_etcd_send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                   dlk_ss_answer *answer, void *who, uint32_t tag) {
  if (!l->up || l->closed ||
      !dlk_ss_asks_add(&l->asks, q, answer, who, tag, true))
    return false;
  dlk_etcd_link_wake(l);
  dlk_etcd_link_busy(l);
  return true;
}
