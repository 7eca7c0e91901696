/* See fake_servers.h. */
#include "fake_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/event.h"
#include "net/tls.h"
#include "plain.h"
#include "store/session/etcd/link.h"

#define KEYS 400
#define ITEMS 512
#define LEASES 256
#define WATCHES 256
#define CHANGES 8192
#define LINKS 8
#define NAME 160
#define VALUE 400

struct key {
  char name[NAME], value[VALUE];
  size_t len, value_len;
  int64_t created, modified, lease; /* created 0: there is none */
};

struct lease {
  int64_t id, ttl, ends;
};

/* A request, or an event of a watch. Without a call: nobody hears of it. */
struct item {
  struct dlk_grpc *on;
  struct dlk_grpc_call *call;
  const char *method; /* NULL: an event */
  struct dlk_buf body;
};

struct watch {
  struct dlk_grpc_call *call; /* NULL: there is none */
  int64_t id;
  char key[NAME], end[NAME];
};

struct change {
  int64_t revision;
  char name[NAME];
  bool deleted;
};

static struct key keys[KEYS];
static struct lease leases[LEASES];
static struct item items[ITEMS];
static struct watch watches[WATCHES];
static struct change changes[CHANGES];
static struct dlk_grpc *links[LINKS];
static size_t item_count, change_count;
static int64_t revision = 1, compacted, last_lease;
static struct dlk_host *host;
static bool late_waits, no_space;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "etcd_server: %s\n", what);
  abort();
}

static struct item *add_item(struct dlk_grpc_call *c, const char *method) {
  if (item_count == ITEMS)
    die("too many requests");
  struct item *i = &items[item_count++];
  *i = (struct item){.on = c->owner, .call = c, .method = method};
  return i;
}

static struct item take_item(size_t at) {
  struct item taken = items[at];
  memmove(&items[at], &items[at + 1], (--item_count - at) * sizeof taken);
  return taken;
}

/* ---- answers ---- */

static void put_header(struct dlk_buf *out) {
  size_t mark = dlk_pb_open(out, 1);
  dlk_pb_int(out, 3, revision);
  dlk_pb_close(out, mark);
}

/* A message for the call, whose owner is told. */
static void answer(struct dlk_grpc_call *c, int status, const char *text,
                   const struct dlk_buf *message) {
  unsigned char head[5] = {0, 0, 0, (unsigned char)(message->len >> 8),
                           (unsigned char)message->len};
  if (!c || !c->on)
    return;
  if (status == DLK_GRPC_OK) {
    dlk_buf_add(&c->in, head, 5);
    dlk_buf_add(&c->in, message->data, message->len);
  }
  if (!c->streams) {
    c->over = true;
    c->status = status;
    snprintf(c->text, sizeof c->text, "%s", text);
    dlk_list_remove(&c->link);
    c->on = NULL;
  }
  c->told(c);
}

/* ---- keys ---- */

static struct key *find(const char *name, size_t len) {
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created && keys[i].len == len &&
        memcmp(keys[i].name, name, len) == 0)
      return &keys[i];
  return NULL;
}

static bool within(const char *name, const char *key, const char *end) {
  return *end ? strcmp(name, key) >= 0 && strcmp(name, end) < 0
              : strcmp(name, key) == 0;
}

static void tell_change(struct dlk_grpc_call *c, int64_t id, bool deleted,
                        bool canceled) {
  struct item *i = add_item(c, NULL);
  put_header(&i->body);
  dlk_pb_int(&i->body, 2, id);
  dlk_pb_int(&i->body, 4, canceled);
  if (canceled)
    return;
  size_t mark = dlk_pb_open(&i->body, 11);
  dlk_pb_int(&i->body, 1, deleted);
  dlk_pb_close(&i->body, mark);
}

static void changed(const struct key *k, bool deleted) {
  if (change_count == CHANGES)
    die("too many changes");
  struct change *c = &changes[change_count++];
  *c = (struct change){.revision = revision, .deleted = deleted};
  memcpy(c->name, k->name, sizeof c->name);
  for (size_t i = 0; i < WATCHES; i++)
    if (watches[i].call && within(k->name, watches[i].key, watches[i].end))
      tell_change(watches[i].call, watches[i].id, deleted, false);
}

static int64_t delete_range(const char *key, const char *end) {
  int64_t count = 0;
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created && within(keys[i].name, key, end)) {
      changed(&keys[i], true);
      keys[i].created = 0;
      count++;
    }
  return count;
}

static struct lease *lease_of(int64_t id) {
  for (size_t i = 0; i < LEASES; i++)
    if (id != 0 && leases[i].id == id)
      return &leases[i];
  return NULL;
}

static void revoke(struct lease *l) {
  int64_t id = l->id;
  revision++;
  l->id = 0;
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created && keys[i].lease == id)
      delete_range(keys[i].name, "");
}

static void run_out(void) {
  for (size_t i = 0; i < LEASES && host; i++)
    if (leases[i].id && leases[i].ends <= host->now(host))
      revoke(&leases[i]);
}

/* ---- execution ---- */

static void text_of(char out[NAME], const struct dlk_pb_field *f) {
  if (f->len >= NAME || !f->bytes)
    die("a long key");
  memcpy(out, f->bytes, f->len);
  out[f->len] = '\0';
}

/* The fields of a message, by their numbers, as all requests have them. */
struct fields {
  int64_t number[80];
  struct dlk_pb_field bytes[80];
};

static struct fields fields_of(const char *p, size_t n) {
  struct fields all;
  struct dlk_pb r = dlk_pb_of(p, n);
  struct dlk_pb_field f;
  memset(&all, 0, sizeof all);
  while (dlk_pb_next(&r, &f))
    if (f.number < 80) {
      all.number[f.number] = f.value;
      all.bytes[f.number] = f;
    }
  if (r.bad)
    die("a bad message");
  return all;
}

static void range(const struct fields *q, struct dlk_buf *out) {
  char key[NAME], end[NAME] = "";
  int64_t count = 0;
  text_of(key, &q->bytes[1]);
  if (q->bytes[2].bytes)
    text_of(end, &q->bytes[2]);
  put_header(out);
  for (size_t i = 0; i < KEYS; i++) {
    const struct key *k = &keys[i];
    if (!k->created || !within(k->name, key, end))
      continue;
    count++;
    if (q->number[9])
      continue;
    size_t mark = dlk_pb_open(out, 2);
    dlk_pb_bytes(out, 1, k->name, k->len);
    dlk_pb_int(out, 2, k->created);
    dlk_pb_int(out, 3, k->modified);
    if (!q->number[8])
      dlk_pb_bytes(out, 5, k->value, k->value_len);
    dlk_pb_int(out, 6, k->lease);
    dlk_pb_close(out, mark);
  }
  dlk_pb_int(out, 4, count);
}

static void put(const struct fields *q) {
  struct key *k = find(q->bytes[1].bytes, q->bytes[1].len);
  for (size_t i = 0; !k && i < KEYS; i++)
    if (!keys[i].created) {
      k = &keys[i];
      *k = (struct key){.created = revision, .len = q->bytes[1].len};
      text_of(k->name, &q->bytes[1]);
    }
  if (!k || q->bytes[2].len > VALUE)
    die("too many keys, or too much data");
  k->modified = revision;
  if (!q->number[6])
    k->lease = q->number[3];
  if (!q->number[5]) {
    k->value_len = q->bytes[2].len;
    if (k->value_len > 0)
      memcpy(k->value, q->bytes[2].bytes, k->value_len);
  }
  changed(k, false);
}

static bool holds(const struct fields *q) {
  char key[NAME], end[NAME] = "";
  text_of(key, &q->bytes[3]);
  if (q->bytes[64].bytes) {
    text_of(end, &q->bytes[64]);
    for (size_t i = 0; i < KEYS; i++)
      if (keys[i].created && within(keys[i].name, key, end))
        return false;
    return true;
  }
  const struct key *k = find(key, strlen(key));
  return q->number[2] == DLK_ETCD_CREATE
             ? (k ? k->created : 0) == q->number[5]
             : (k ? k->modified : 0) == q->number[6];
}

/* What the branch's parts are; false: a lease is not there. */
static bool possible(const struct dlk_buf *body, unsigned branch) {
  struct dlk_pb r = dlk_pb_of(body->data, body->len);
  struct dlk_pb_field f;
  while (dlk_pb_next(&r, &f)) {
    if (f.number != branch)
      continue;
    struct fields part = fields_of(f.bytes, f.len);
    if (!part.bytes[2].bytes)
      continue;
    struct fields q = fields_of(part.bytes[2].bytes, part.bytes[2].len);
    if (q.number[3] && !lease_of(q.number[3]))
      return false;
    if (q.number[6] && !find(q.bytes[1].bytes, q.bytes[1].len))
      return false;
  }
  return true;
}

static void run_part(const struct fields *part, struct dlk_buf *out) {
  struct dlk_buf result = {0};
  unsigned kind = part->bytes[1].bytes ? 1 : part->bytes[2].bytes ? 2 : 3;
  const struct dlk_pb_field *f = &part->bytes[kind];
  struct fields q = fields_of(f->bytes, f->len);
  if (kind == 1) {
    range(&q, &result);
  } else if (kind == 2) {
    put(&q);
    put_header(&result);
  } else {
    char key[NAME], end[NAME] = "";
    text_of(key, &q.bytes[1]);
    if (q.bytes[2].bytes)
      text_of(end, &q.bytes[2]);
    put_header(&result);
    dlk_pb_int(&result, 2, delete_range(key, end));
  }
  size_t mark = dlk_pb_open(out, 3), inner = dlk_pb_open(out, kind);
  dlk_buf_add(out, result.data, result.len);
  dlk_pb_close(out, inner);
  dlk_pb_close(out, mark);
  dlk_buf_free(&result);
}

static int transaction(const struct dlk_buf *body, struct dlk_buf *out) {
  struct dlk_pb r = dlk_pb_of(body->data, body->len);
  struct dlk_pb_field f;
  bool good = true;
  while (dlk_pb_next(&r, &f))
    if (f.number == 1) {
      struct fields q = fields_of(f.bytes, f.len);
      good &= holds(&q);
    }
  unsigned branch = good ? DLK_ETCD_THEN : DLK_ETCD_ELSE;
  if (!possible(body, branch))
    return DLK_GRPC_NOT_FOUND;
  revision++;
  put_header(out);
  dlk_pb_int(out, 2, good);
  r = dlk_pb_of(body->data, body->len);
  while (dlk_pb_next(&r, &f))
    if (f.number == branch) {
      struct fields part = fields_of(f.bytes, f.len);
      run_part(&part, out);
    }
  return DLK_GRPC_OK;
}

static void grant(const struct fields *q, struct dlk_buf *out) {
  struct lease *l = leases;
  while (l < leases + LEASES && l->id)
    l++;
  if (l == leases + LEASES)
    die("too many leases");
  l->id = q->number[2] ? q->number[2] : ++last_lease;
  l->ttl = q->number[1];
  l->ends = host->now(host) + l->ttl * DLK_SEC;
  put_header(out);
  dlk_pb_int(out, 2, l->id);
  dlk_pb_int(out, 3, l->ttl);
}

static void keep_alive(const struct fields *q, struct dlk_buf *out) {
  struct lease *l = lease_of(q->number[1]);
  if (l)
    l->ends = host->now(host) + l->ttl * DLK_SEC;
  put_header(out);
  dlk_pb_int(out, 2, q->number[1]);
  dlk_pb_int(out, 3, l ? l->ttl : 0);
}

static void watch(struct dlk_grpc_call *c, const struct fields *q) {
  if (q->bytes[2].bytes) { /* cancel */
    struct fields id = fields_of(q->bytes[2].bytes, q->bytes[2].len);
    for (size_t i = 0; i < WATCHES; i++)
      if (watches[i].call == c && watches[i].id == id.number[1])
        watches[i].call = NULL;
    return;
  }
  struct fields w = fields_of(q->bytes[1].bytes, q->bytes[1].len);
  struct watch *to = watches;
  while (to < watches + WATCHES && to->call)
    to++;
  if (to == watches + WATCHES)
    die("too many watches");
  if (w.number[3] <= compacted) {
    tell_change(c, w.number[7], false, true);
    return;
  }
  *to = (struct watch){.call = c, .id = w.number[7]};
  text_of(to->key, &w.bytes[1]);
  if (w.bytes[2].bytes)
    text_of(to->end, &w.bytes[2]);
  for (size_t i = 0; i < change_count; i++)
    if (changes[i].revision >= w.number[3] &&
        within(changes[i].name, to->key, to->end))
      tell_change(c, to->id, changes[i].deleted, false);
}

static void execute(struct item *i) {
  struct dlk_buf out = {0};
  int status = DLK_GRPC_OK;
  if (!i->method) {
    answer(i->call, status, "", &i->body);
    dlk_buf_free(&i->body);
    return;
  }
  struct fields q = {.number = {0}};
  if (strcmp(i->method, "KV/Txn") == 0)
    status = transaction(&i->body, &out);
  else
    q = fields_of(i->body.data ? i->body.data : "", i->body.len);
  if (strcmp(i->method, "KV/Range") == 0)
    range(&q, &out);
  else if (strcmp(i->method, "Lease/LeaseGrant") == 0)
    grant(&q, &out);
  else if (strcmp(i->method, "Lease/LeaseKeepAlive") == 0)
    keep_alive(&q, &out);
  else if (strcmp(i->method, "Lease/LeaseRevoke") == 0 && lease_of(q.number[1]))
    revoke(lease_of(q.number[1]));
  else if (strcmp(i->method, "Watch/Watch") == 0 && i->call)
    watch(i->call, &q);
  if (no_space && strcmp(i->method, "KV/Txn") == 0)
    status = DLK_GRPC_EXHAUSTED;
  if (strcmp(i->method, "Watch/Watch") != 0)
    answer(i->call, status, "requested lease not found", &out);
  dlk_buf_free(&out);
  dlk_buf_free(&i->body);
}

/* Calls cross each other; what is said on one stream does not. */
bool fake_step(void) {
  run_out();
  if (sim_roll(300) == 0)
    compacted = revision - sim_roll(5);
  if (item_count == 0)
    return false;
  size_t at = sim_roll((uint32_t)item_count);
  for (size_t n = 0; late_waits && !items[at].call; n++) {
    if (n == item_count)
      return false;
    at = (at + 1) % item_count;
  }
  const struct dlk_grpc_call *c = items[at].call;
  for (size_t first = 0; c && c->streams && first < at; first++)
    if (items[first].call == c && !items[first].method == !items[at].method)
      at = first;
  struct item i = take_item(at);
  execute(&i);
  return true;
}

/* ---- connections ---- */

/* What was asked for may still be done. */
static void leave(struct dlk_grpc_call *c) {
  if (!c->on)
    return;
  dlk_list_remove(&c->link);
  c->on = NULL;
  for (size_t i = 0; i < item_count; i++)
    if (items[i].call == c)
      items[i].call = NULL;
  for (size_t i = 0; i < WATCHES; i++)
    if (watches[i].call == c)
      watches[i].call = NULL;
}

static void hang_up(struct dlk_grpc *g) {
  g->h2 = NULL;
  while (!dlk_list_empty(&g->calls))
    leave(DLK_CONTAINER(g->calls.next, struct dlk_grpc_call, link));
}

static void lose(struct dlk_net_conn *n, const char *text) {
  struct dlk_grpc *g = (struct dlk_grpc *)(void *)n;
  bool ready = n->state == DLK_NET_READY;
  struct dlk_error why;
  dlk_error_set(&why, DLK_UNAVAILABLE, "%s: %s", n->conf->shown, text);
  n->state = DLK_NET_OFF;
  hang_up(g);
  if (ready)
    g->events->broken(g, &why);
  else
    g->events->failed(g, &why);
}

void dlk_net_conn_lost(struct dlk_net_conn *n, const char *text) {
  if (n->state == DLK_NET_READY || n->state == DLK_NET_HANDSHAKE)
    lose(n, text);
}

void dlk_net_conn_refuse(struct dlk_net_conn *n, const struct dlk_error *why) {
  lose(n, why->text);
}

void dlk_net_conn_ready(struct dlk_net_conn *n) {
  n->state = DLK_NET_READY;
}

void dlk_net_conn_wake(struct dlk_net_conn *n) {
  (void)n;
}

void dlk_net_conn_stop(struct dlk_net_conn *n) {
  struct dlk_grpc *g = (struct dlk_grpc *)(void *)n;
  struct dlk_error why;
  dlk_error_set(&why, DLK_CLOSED, "closed");
  n->state = DLK_NET_STOPPED;
  hang_up(g);
  g->events->failed(g, &why);
}

void fake_connected(int64_t timeout) {
  static char h2;
  (void)timeout;
  for (size_t i = 0; i < LINKS; i++) {
    struct dlk_grpc *g = links[i];
    if (!g || g->net.state != DLK_NET_OFF || !g->events->waits(g))
      continue;
    host = g->net.host;
    g->net.state = DLK_NET_HANDSHAKE;
    g->h2 = (struct nghttp2_session *)(void *)&h2;
    if (!g->events->greet(g))
      die("no greeting");
  }
}

void fake_lose_all(bool executed_first) {
  run_out();
  for (size_t i = item_count; i > 0; i--) {
    items[i - 1].call = NULL;
    if (executed_first || (!late_waits && sim_roll(2) == 0)) {
      struct item taken = take_item(i - 1);
      if (executed_first && taken.method)
        execute(&taken);
      else
        dlk_buf_free(&taken.body);
    }
  }
  for (size_t i = 0; i < LINKS; i++)
    if (links[i])
      dlk_net_conn_lost(&links[i]->net, "cut");
}

static struct dlk_ss_link *link_of(struct dlk_grpc *g) {
  return (struct dlk_ss_link *)(void *)g;
}

void fake_end(bool connected, enum dlk_ss_end end) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && !link_of(links[i])->closed &&
        (links[i]->net.state == DLK_NET_READY) == connected)
      dlk_etcd_link_end(link_of(links[i]), end, "ended");
}

void fake_expire(void) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] && links[i]->net.state == DLK_NET_READY &&
        lease_of(link_of(links[i])->lease))
      revoke(lease_of(link_of(links[i])->lease));
  fake_end(true, DLK_SS_END_EXPIRED);
}

void fake_late(bool waits) {
  late_waits = waits;
}

void fake_full(bool full) {
  no_space = full;
}

int64_t fake_lease(int64_t created) {
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created == created)
      return keys[i].lease;
  return 0;
}

bool fake_has(int64_t created) {
  run_out();
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].created == created)
      return true;
  return false;
}

size_t fake_nodes(const char *lock) {
  size_t count = 0, len = strlen(lock);
  run_out();
  for (size_t i = 0; i < KEYS; i++)
    count += keys[i].created && strncmp(keys[i].name, lock, len) == 0 &&
             keys[i].name[len] == '/';
  return count;
}

void fake_reset(void) {
  while (item_count > 0)
    dlk_buf_free(&items[--item_count].body);
  memset(keys, 0, sizeof keys);
  memset(leases, 0, sizeof leases);
  memset(watches, 0, sizeof watches);
  memset(links, 0, sizeof links);
  change_count = 0;
  compacted = revision;
  host = NULL;
}

/* ---- conn/grpc.h ---- */

void dlk_grpc_init(struct dlk_grpc *g) {
  size_t at = 0;
  while (at < LINKS && links[at])
    at++;
  if (at == LINKS)
    die("too many links");
  links[at] = g;
  g->net.state = DLK_NET_OFF;
  dlk_list_init(&g->calls);
}

void dlk_grpc_free(struct dlk_grpc *g) {
  for (size_t i = 0; i < LINKS; i++)
    if (links[i] == g)
      links[i] = NULL;
  dlk_buf_free(&g->token);
}

void dlk_grpc_init_call(struct dlk_grpc_call *c, struct dlk_grpc *g,
                        const char *method, bool streams,
                        void (*told)(struct dlk_grpc_call *c)) {
  if (c->on && streams)
    return;
  dlk_grpc_drop(c);
  c->owner = g;
  c->method = method;
  c->streams = streams;
  c->told = told;
}

size_t dlk_grpc_open(struct dlk_grpc_call *c) {
  return c->out.len;
}

bool dlk_grpc_say(struct dlk_grpc_call *c, size_t mark) {
  if (!c->owner->h2)
    die("a call without a connection");
  if (!c->on) {
    c->on = c->owner;
    c->status = -1;
    c->over = false;
    c->in_at = 0;
    c->sent = c->owner->net.host->now(c->owner->net.host);
    dlk_buf_clear(&c->in);
    dlk_list_append(&c->owner->calls, &c->link);
  }
  struct item *i = add_item(c, c->method);
  dlk_buf_add(&i->body, c->out.data + mark, c->out.len - mark);
  c->out.len = mark;
  return true;
}

bool dlk_grpc_next(struct dlk_grpc_call *c, struct dlk_etcd_bytes *message) {
  dlk_buf_shift(&c->in, c->in_at);
  c->in_at = 0;
  if (c->in.len < 5)
    return false;
  const unsigned char *p = (const unsigned char *)c->in.data;
  *message =
      (struct dlk_etcd_bytes){c->in.data + 5, (size_t)p[3] << 8 | (size_t)p[4]};
  c->in_at = 5 + message->n;
  return true;
}

void dlk_grpc_drop(struct dlk_grpc_call *c) {
  leave(c);
  dlk_buf_free(&c->out);
  dlk_buf_free(&c->in);
}

void dlk_grpc_flush(struct dlk_grpc *g) {
  (void)g;
}

/* ---- what is not asked for here ---- */

void dlk_net_event(struct dlk_host *to, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...) {
  (void)to, (void)conf, (void)kind, (void)fmt;
}

int dlk_net_sock_fd(const struct dlk_net_sock *sock) {
  (void)sock;
  return -1;
}

enum dlk_code dlk_net_tls_new(const struct dlk_conf *conf, const char *alpn,
                              struct dlk_net_tls **out, struct dlk_error *err) {
  (void)conf, (void)alpn, (void)err;
  *out = NULL;
  return DLK_OK;
}

void dlk_net_tls_free(struct dlk_net_tls *tls) {
  (void)tls;
}
