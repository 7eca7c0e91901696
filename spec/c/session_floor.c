/* The recipe of stores with sessions (store/session) on a driver that is no
 * ZooKeeper: nodes in memory, a number in the order of the creates, one clock.
 * So it is a second driver of driver.h, as small as one may be. Each request is
 * done when a test says so, and its answer may be lost.
 * spec/session/floor_spec.lua compiles and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host.h"
#include "store/session/query/submit.h"

#define TIMEOUT (8 * DLK_SEC)
#define NODES 32
#define REQUESTS 64
#define TEXT 400

struct node {
  char path[TEXT], data[TEXT];
  size_t len;
  int64_t fence, owner, at;
  int64_t version;
  bool watched;
};

struct asked {
  struct dlk_ss_request r;
  char path[TEXT], data[TEXT], own[TEXT];
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  int64_t sent;
};

struct dlk_ss_link {
  struct dlk_host *host;
  const struct dlk_ss_events *events;
  void *user, *owner;
  int64_t id;
  struct dlk_post post;
};

static struct node nodes[NODES];
static struct asked queue[REQUESTS];
static size_t asked_count;
static int64_t revision, sessions;
static struct dlk_ss_link *link_; /* the session that is open */
static struct host *h;
static const char *lost_why;

/* ---- the servers ---- */

static struct node *find(const char *path) {
  for (size_t i = 0; i < NODES; i++)
    if (nodes[i].fence && strcmp(nodes[i].path, path) == 0)
      return &nodes[i];
  return NULL;
}

static bool is_in(const struct node *n, const char *folder) {
  size_t len = strlen(folder);
  return n->fence && strncmp(n->path, folder, len) == 0 && n->path[len] == '/';
}

static void tell(const struct node *n, enum dlk_ss_event event) {
  if (n->watched && link_)
    link_->events->event(link_->user, event, n->path);
}

static void end(struct node *n) {
  struct node was = *n;
  memset(n, 0, sizeof *n);
  tell(&was, DLK_SS_DELETED);
}

static int64_t server_ms(void) {
  return 7000 + h->host.now(&h->host) / DLK_MS;
}

static struct node *make(const struct asked *q, int64_t owner) {
  struct node *n = nodes;
  while (n->fence)
    n++;
  CHECK(n < nodes + NODES);
  n->fence = ++revision;
  n->owner = owner;
  n->at = server_ms();
  if (owner)
    snprintf(n->path, TEXT, "%.300s%010lld", q->path, (long long)revision);
  else
    snprintf(n->path, TEXT, "%s", q->path);
  n->len = q->r.len;
  memcpy(n->data, q->data, n->len);
  return n;
}

static enum dlk_ss_rc mark(struct node *n, const struct asked *q) {
  if (n->version != q->r.version)
    return DLK_SS_VERSION;
  n->version++;
  n->len = q->r.len;
  memcpy(n->data, q->data, n->len);
  tell(n, DLK_SS_CHANGED);
  n->watched = false;
  return DLK_SS_OK;
}

static struct node *subject(const struct asked *q, enum dlk_ss_rc *rc) {
  struct node *n = find(q->path);
  *rc = n ? DLK_SS_OK : DLK_SS_NONODE;
  if (q->r.verb == DLK_SS_CREATE) {
    *rc = DLK_SS_OK;
    return make(q, link_->id);
  }
  if (q->r.verb == DLK_SS_KEEP) {
    *rc = !find(q->own) ? DLK_SS_NONODE : n ? DLK_SS_EXISTS : DLK_SS_OK;
    return *rc == DLK_SS_OK ? make(q, 0) : NULL;
  }
  if (n && q->r.verb == DLK_SS_MARK)
    *rc = mark(n, q);
  if (n && q->r.verb == DLK_SS_READ)
    n->watched |= q->r.watch;
  if (n && q->r.verb == DLK_SS_PROVE && n->owner != link_->id)
    *rc = DLK_SS_UNBOUND;
  return n;
}

/* False: none is under way. */
static bool step(bool heard) {
  char *names[NODES];
  struct dlk_ss_reply r = {.text = "refused", .names = names};
  if (asked_count == 0)
    return false;
  struct asked q = queue[0];
  memmove(queue, queue + 1, --asked_count * sizeof queue[0]);
  struct node *n = subject(&q, &r.rc);
  r.sent = q.sent;
  if (n) {
    r.path = n->path;
    r.data = n->data;
    r.len = n->len;
    r.stat = (struct dlk_ss_stat){.fence = n->fence,
                                  .ctime_ms = n->at,
                                  .owner = n->owner,
                                  .version = n->version};
  }
  if (n && q.r.verb == DLK_SS_DELETE)
    end(n);
  for (size_t i = 0; q.r.verb == DLK_SS_LIST && i < NODES; i++)
    if (is_in(&nodes[i], q.path))
      names[r.count++] = strrchr(nodes[i].path, '/') + 1;
  if (q.r.verb == DLK_SS_LIST || q.r.verb == DLK_SS_CLOCK)
    r.rc = DLK_SS_OK;
  if (q.r.verb == DLK_SS_CLOCK)
    r.stat.mtime_ms = server_ms();
  if (heard)
    q.answer(q.who, q.tag, &r);
  return true;
}

static void serve(void) {
  while (step(true))
    continue;
}

static void connected(void) {
  link_->events->connected(link_->user, link_->id, TIMEOUT);
}

/* All is done, and no answer comes. */
static void cut(void) {
  static struct asked lost[REQUESTS];
  const struct dlk_ss_reply none = {.rc = DLK_SS_CUT, .text = "lost"};
  size_t count = asked_count;
  memcpy(lost, queue, count * sizeof *lost);
  while (step(false))
    continue;
  link_->events->away(link_->user, "no cable");
  for (size_t i = 0; i < count; i++)
    lost[i].answer(lost[i].who, lost[i].tag, &none);
}

static void end_session(int64_t id) {
  for (size_t i = 0; i < NODES; i++)
    if (nodes[i].fence && nodes[i].owner == id)
      end(&nodes[i]);
}

/* ---- the driver ---- */

static const struct dlk_ss_rule rule = {.lag = 0, .writes = true};

static void is_gone(struct dlk_post *post) {
  struct dlk_ss_link *l = DLK_CONTAINER(post, struct dlk_ss_link, post);
  l->events->gone(l->owner);
  free(l);
}

static struct dlk_ss_link *open_link(struct dlk_host *host, void *client,
                                     int64_t timeout,
                                     const struct dlk_ss_events *e, void *user,
                                     void *owner) {
  struct dlk_ss_link *l = calloc(1, sizeof *l);
  (void)client, (void)timeout;
  *l = (struct dlk_ss_link){
      .host = host, .events = e, .user = user, .owner = owner};
  l->id = ++sessions;
  l->post.run = is_gone;
  return link_ = l;
}

static void copy(char to[TEXT], const char *from) {
  snprintf(to, TEXT, "%s", from ? from : "");
}

static bool send_request(struct dlk_ss_link *l, const struct dlk_ss_request *r,
                         dlk_ss_answer *answer, void *who, uint32_t tag) {
  struct asked *q = &queue[asked_count++];
  CHECK(asked_count < REQUESTS && r->len < TEXT);
  *q = (struct asked){.r = *r, .answer = answer, .who = who, .tag = tag};
  q->sent = l->host->now(l->host);
  copy(q->path, r->path);
  copy(q->own, r->own);
  if (r->len > 0)
    memcpy(q->data, r->data, r->len);
  return true;
}

static void close_link(struct dlk_ss_link *l) {
  asked_count = 0;
  if (link_ == l)
    link_ = NULL;
  end_session(l->id);
  l->host->post(l->host, &l->post);
}

static void no_client(void *client) {
  (void)client;
}

static const struct dlk_ss_driver driver = {
    .name = "Memory",
    .room = "memory",
    .denied_user = "",
    .denied_nobody = "",
    .shut = "",
    .watch_bytes = 100000,
    .rule = &rule,
    .open = open_link,
    .send = send_request,
    .close = close_link,
    .abandon = close_link,
    .free_client = no_client,
};

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  (void)err;
  *out = dlk_ss_create(host, conf, &driver, NULL, "/locks", TIMEOUT);
  return DLK_OK;
}

static const struct dlk_store_type memory_store = {
    DLK_SS_STORE,
    .name = "memory",
    .create = create,
};

/* ---- a caller ---- */

static void on_lost(struct host *host, struct dlk_lease *lease,
                    const char *why) {
  (void)host, (void)lease;
  lost_why = why;
}

static void start(void) {
  static const struct dlk_conf conf = {.shown = "memory://",
                                       .scheme = "memory",
                                       .connect_timeout = 3 * DLK_SEC,
                                       .io_timeout = 2 * DLK_SEC};
  memset(nodes, 0, sizeof nodes);
  asked_count = 0;
  link_ = NULL;
  lost_why = NULL;
  h = host_open(&memory_store, &conf, NULL);
  h->on_lost = on_lost;
}

struct one {
  struct dlk_lease *lease;
  struct dlk_op *op;
};

static struct one asks(uint32_t units, int64_t min_hold) {
  struct one o = {.lease =
                      host_lease(h, "k", 1, (struct dlk_want){units, 0}, "me")};
  o.lease->min_hold = min_hold;
  o.op = host_op(h, DLK_OP_ACQUIRE, o.lease, NULL, 0);
  o.op->wait = true;
  host_submit(h, o.op);
  if (asked_count == 0)
    connected();
  serve();
  return o;
}

static bool holds(const struct one *o) {
  return host_over(o->op) && host_error(o->op)->code == DLK_OK;
}

static void forget(struct one *o) {
  host_op_free(o->op);
  free(o->lease);
}

static void gives_back(struct one *o) {
  struct dlk_op *op = host_op(h, DLK_OP_RELEASE, o->lease, NULL, 0);
  host_submit(h, op);
  serve();
  CHECK(host_over(op) && host_error(op)->code == DLK_OK);
  host_op_free(op);
  forget(o);
}

static size_t node_count(void) {
  size_t count = 0;
  for (size_t i = 0; i < NODES; i++)
    count += nodes[i].fence != 0;
  return count;
}

/* ---- tests ---- */

TEST(one_holds_and_leaves_nothing) {
  start();
  struct one o = asks(0, 0);
  CHECK(holds(&o) && node_count() == 1 && o.lease->fence == revision);
  gives_back(&o);
  CHECK(node_count() == 0);
  host_close(h);
}

TEST(they_hold_in_the_order_of_their_creates) {
  start();
  struct one a = asks(0, 0), b = asks(0, 0), c = asks(0, 0);
  CHECK(holds(&a) && !host_over(b.op) && !host_over(c.op));
  gives_back(&a);
  CHECK(holds(&b) && !host_over(c.op));
  gives_back(&b);
  CHECK(holds(&c));
  gives_back(&c);
  host_close(h);
}

TEST(readers_share_and_a_writer_waits_for_all) {
  start();
  struct one a = asks(1, 0), b = asks(1, 0), w = asks(0, 0), c = asks(1, 0);
  CHECK(holds(&a) && holds(&b) && !host_over(w.op) && !host_over(c.op));
  gives_back(&a);
  CHECK(!host_over(w.op));
  gives_back(&b);
  CHECK(holds(&w) && !host_over(c.op));
  gives_back(&w);
  CHECK(holds(&c));
  gives_back(&c);
  host_close(h);
}

TEST(a_hold_ends_with_its_session) {
  start();
  struct one a = asks(0, 0), b = asks(0, 0);
  struct dlk_ss_link *l = link_;
  l->events->ended(l->user, DLK_SS_END_EXPIRED, "ended");
  CHECK(lost_why && !host_over(b.op) && link_ && link_ != l);
  connected();
  serve();
  CHECK(holds(&b) && b.lease->fence > a.lease->fence);
  forget(&a);
  gives_back(&b);
  host_close(h);
}

/* Its node is found again, and is not made twice. */
TEST(a_create_whose_answer_is_lost_is_found) {
  start();
  struct one before = asks(0, 0);
  gives_back(&before);
  struct one o = {.lease = host_lease(h, "k", 1, (struct dlk_want){0}, "me")};
  o.op = host_op(h, DLK_OP_ACQUIRE, o.lease, NULL, 0);
  o.op->wait = true;
  host_submit(h, o.op);
  cut();
  CHECK(!host_over(o.op) && node_count() == 1);
  int64_t fence = revision;
  connected();
  serve();
  CHECK(holds(&o) && node_count() == 1 && o.lease->fence == fence);
  gives_back(&o);
  host_close(h);
}

/* Its caller does not wait any more: the node goes. */
TEST(a_lost_create_that_nobody_wants_is_taken_back) {
  start();
  struct one before = asks(0, 0);
  gives_back(&before);
  struct one o = {.lease = host_lease(h, "k", 1, (struct dlk_want){0}, "me")};
  o.op = host_op(h, DLK_OP_ACQUIRE, o.lease, NULL, 0);
  o.op->wait = true;
  host_submit(h, o.op);
  cut();
  host_cancel(h, o.op, DLK_TIMEOUT);
  CHECK(host_over(o.op) && node_count() == 1 && h->busy > 0);
  connected();
  serve();
  CHECK(node_count() == 0 && h->busy == 0);
  forget(&o);
  host_close(h);
}

TEST(a_break_lets_the_next_one_in) {
  start();
  struct one a = asks(0, 0), b = asks(0, 0);
  struct dlk_op *op = host_op(h, DLK_OP_BREAK, NULL, "k", 1);
  host_submit(h, op);
  serve();
  CHECK(host_over(op) && op->result && op->result->u.boolean && holds(&b));
  host_op_free(op);
  h->type->renew(h->store, &a.lease, 1);
  serve();
  CHECK(lost_why);
  forget(&a);
  gives_back(&b);
  host_close(h);
}

/* What stands in for it keeps the key until its time is over. */
TEST(a_min_hold_outlives_its_release) {
  start();
  struct one a = asks(0, 500 * DLK_MS);
  CHECK(holds(&a) && node_count() == 2);
  gives_back(&a);
  CHECK(node_count() == 1);
  struct one b = asks(0, 0);
  CHECK(!host_over(b.op));
  for (int i = 0; i < 10 && !host_over(b.op); i++) {
    h->skew += 200 * DLK_MS;
    host_turn(h, 0);
    serve();
  }
  CHECK(holds(&b));
  gives_back(&b);
  CHECK(node_count() == 0);
  host_close(h);
}

/* Somebody bound one of two nodes to another session: the other one's proofs
 * hide nothing. */
TEST(a_node_of_no_session_of_ours_is_lost) {
  start();
  struct one a = asks(1, 0), b = asks(1, 0);
  CHECK(holds(&a) && holds(&b));
  nodes[0].owner = 77;
  for (int i = 0; i < 40 && !lost_why; i++) {
    h->skew += DLK_SEC / 4;
    host_turn(h, 0);
    serve();
  }
  CHECK(lost_why && strstr(lost_why, "not bound"));
  CHECK(node_count() == 1 && h->skew < TIMEOUT);
  forget(&a);
  gives_back(&b);
  host_close(h);
}

int main(void) {
  return check_all();
}
