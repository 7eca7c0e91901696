/* The Redlock store against made-up servers, in made-up time. Requests and
 * answers are late or lost, servers restart and forget, clients crash or stand
 * still. In each history two never hold at once, a fence is larger than those
 * that were given before its acquire began, and everything ends.
 * usage: redlock_hold_test [HISTORIES] */
#include "check.h"

#include <string.h>

#include "core/heap.h"
#include "store/redis/op/store.h"
#include "store/redis/recipe/vote.h"
#include "store/redis/redis.h"
#include "store/redlock/count.h"
#include "store/redlock/redlock.h"

#define CLIENTS 8
#define MOST 5 /* servers */
#define MAX_TTL DLK_SEC
#define SILENCE DLK_SEC /* a request without an answer ends after it */

/* A server, and its view of the one key. */
struct server {
  uint64_t token; /* 0: free */
  char name[DLK_REDIS_NAME];
  int64_t ends, born, back_at;
  int64_t counter;
  unsigned process, counted_by; /* the process that the counter belongs to */
  int drift;                    /* of its clock, in thousandths */
};

/* What the program that is a client knows of its lease. */
struct take {
  struct dlk_lease lease;
  struct take *next;
  _Alignas(16) char data[256];
};

struct client {
  struct dlk_host host; /* first */
  void *store;
  unsigned life; /* a crash begins the next one */
  struct dlk_heap timers;
  int64_t up[MOST], down[MOST]; /* in order */
  int64_t mute[MOST];           /* nothing is sent until then */
  struct asked *acquire;
  struct take *take;
  bool held, renewing, extending, quits;
  unsigned kept; /* answers, while it stood still */
  int64_t stands_until, acts_at, renews_at, deadline, cut, after;
};

/* An op of the program. */
struct asked {
  struct dlk_op op; /* first */
  struct client *client;
  struct take *take;
  struct asked *next;
  bool over;
  _Alignas(16) char data[64];
};

/* The made-up dlk_redis_store. */
struct node {
  struct dlk_redis redis; /* first: the store reads its link */
  struct dlk_redis_link link;
  struct dlk_host *host;
  struct client *client;
  unsigned number;
};

/* A request, and its answer. Without op and lease it is of no use any more,
 * unless it is an orphan, which is repeated. */
struct message {
  struct dlk_heap_node at; /* first */
  struct message *next;    /* all that are under way */
  struct node *node;
  struct client *client;
  unsigned life, number;
  enum dlk_op_kind kind;
  enum { GOES, COMES, FAILS } way;
  bool orphan;
  struct dlk_op *op;
  struct dlk_lease *renewed;
  uint64_t token;
  char name[DLK_REDIS_NAME];
  int64_t sent, ttl, floor;
  enum dlk_code code;
  int64_t value;
};

/* What a history may have; and rules of the store that are broken, so that a
 * history shows it. */
struct setting {
  bool losses, restarts, crashes, races;
  enum { NONE, LAST_END, UNRAISED, UNCHECKED, FORGETFUL } fault;
};

static struct setting set;
static struct server servers[MOST];
static struct client clients[CLIENTS], *opening;
static struct dlk_heap wires;
static struct message *messages;
static struct asked *all_asked;
static struct take *all_takes;
static unsigned n, count, last_holds;
static uint64_t tokens;
static int64_t now, largest, free_since, longest_free;
static unsigned overlaps, falls;
static unsigned long histories = 2000;

static bool chance(unsigned of) {
  return check_random(of) == 0;
}

static int64_t ms(unsigned least, unsigned most) {
  return (int64_t)(least + check_random(most - least + 1)) * DLK_MS;
}

int64_t __real_dlk_redlock_deadline(unsigned q, const int64_t *ends,
                                    unsigned of);
int64_t __wrap_dlk_redlock_deadline(unsigned q, const int64_t *ends,
                                    unsigned of);
int64_t __wrap_dlk_redlock_clock(void);

int64_t __wrap_dlk_redlock_deadline(unsigned q, const int64_t *ends,
                                    unsigned of) {
  return __real_dlk_redlock_deadline(set.fault == LAST_END && of >= q ? 1 : q,
                                     ends, of);
}

int64_t __wrap_dlk_redlock_clock(void) {
  return INT64_C(1000000000000) + now / DLK_MS * 64;
}

static void drop(struct message *m) {
  struct message **at = &messages;
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  dlk_heap_remove(&wires, &m->at);
  free(m);
}

static void free_key(struct server *s) {
  s->token = 0;
  for (struct message *m = messages; m; m = m->next)
    if (m->kind == DLK_OP_CHANGE && m->way == GOES &&
        &servers[m->number] == s && m->at.at > now)
      dlk_heap_put(&wires, &m->at, now);
}

static void vote(struct server *s, struct message *m) {
  int64_t out = m->floor > 0 ? 3 * DLK_SEC : MAX_TTL + 2 * DLK_SEC;
  if (s->token) {
    m->code = DLK_BUSY;
    m->value = memcmp(s->name, m->name, sizeof s->name) < 0;
    return;
  }
  if (now - s->born < out && set.fault != FORGETFUL) {
    m->code = DLK_UNAVAILABLE;
    return;
  }
  if (s->counted_by == s->process && s->counter > 0) {
    s->counter = s->counter + 1 > m->floor ? s->counter + 1 : m->floor;
    m->value = s->counter;
  }
  s->token = m->token;
  memcpy(s->name, m->name, sizeof s->name);
  s->ends = now + m->ttl * (1000 + s->drift) / 1000;
}

/* A renewal, or an extension. */
static void extend(struct server *s, struct message *m) {
  int64_t ends = now + m->ttl * (1000 + s->drift) / 1000;
  bool ours = s->token == m->token;
  if (m->floor > 0 && set.fault != UNRAISED &&
      (ours || set.fault == UNCHECKED) &&
      (s->counted_by != s->process || s->counter < m->floor)) {
    s->counted_by = s->process;
    s->counter = m->floor;
  }
  if (ours && (m->kind == DLK_OP_EXTEND || ends > s->ends))
    s->ends = ends;
  m->code = ours || set.fault == UNCHECKED ? DLK_OK : DLK_LOST;
}

/* False: it waits there. */
static bool run(struct server *s, struct message *m) {
  m->code = DLK_OK;
  m->value = 0;
  if (s->token && s->ends <= now)
    free_key(s);
  if (m->kind == DLK_OP_ACQUIRE) {
    vote(s, m);
  } else if (m->kind == DLK_OP_EXTEND || m->renewed) {
    extend(s, m);
  } else if (m->kind == DLK_OP_RELEASE) {
    m->code = s->token == m->token ? DLK_OK : DLK_LOST;
    if (m->code == DLK_OK)
      free_key(s);
  } else if (s->token) { /* CHANGE */
    dlk_heap_put(&wires, &m->at,
                 s->ends < now + DLK_SEC ? s->ends : now + DLK_SEC);
    return false;
  }
  return true;
}

/* ---- the made-up dlk_redis_store ---- */

/* races: each client is near another server, so that those which ask at one
 * moment get one vote each. */
static int64_t later(const struct client *c, unsigned number, int64_t *last) {
  unsigned far = (number + (unsigned)(c - clients)) % n;
  int64_t at = now + (set.races ? (20 + 10 * far) * DLK_MS : ms(1, 40));
  if (set.losses && chance(20))
    at += ms(0, 400);
  if (at < *last)
    at = *last;
  *last = at;
  return at;
}

static struct message *message(struct client *c, unsigned number,
                               enum dlk_op_kind kind, uint64_t token) {
  struct message *m = calloc(1, sizeof *m);
  m->client = c;
  m->life = c->life;
  m->number = number;
  m->kind = kind;
  m->token = token;
  m->next = messages;
  messages = m;
  return m;
}

static void go(struct message *m) {
  bool cut = set.losses && (chance(40) || now < m->client->mute[m->number]);
  m->sent = now;
  m->way = cut ? FAILS : GOES;
  dlk_heap_put(&wires, &m->at,
               cut ? now + SILENCE
                   : later(m->client, m->number, &m->client->up[m->number]));
}

static uint64_t *token_of(struct dlk_lease *lease) {
  return lease->data;
}

static void take_back(struct client *c, unsigned number, uint64_t token) {
  struct message *m = message(c, number, DLK_OP_RELEASE, token);
  m->orphan = true;
  go(m);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  struct node *node = calloc(1, sizeof *node);
  (void)err;
  node->redis.link = &node->link;
  node->host = host;
  node->client = opening;
  node->number = (unsigned)conf->shown[0] - '1';
  *out = node;
  return DLK_OK;
}

static void submit(void *store, struct dlk_op *op) {
  struct node *node = store;
  if (op->kind == DLK_OP_ACQUIRE)
    *token_of(op->lease) = ++tokens;
  struct message *m = message(node->client, node->number, op->kind,
                              op->lease ? *token_of(op->lease) : 0);
  m->node = node;
  m->op = op;
  if (op->lease) {
    m->ttl = op->kind == DLK_OP_EXTEND ? op->ttl : op->lease->ttl;
    m->floor = op->lease->fence;
  }
  if (op->kind == DLK_OP_ACQUIRE)
    memcpy(m->name, op->text, sizeof m->name);
  go(m);
}

static void end_op(struct node *node, struct dlk_op *op, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  node->host->done(node->host, op, code == DLK_OK ? NULL : &err);
}

/* Its answer is of no use; or, of a vote or an extension, it is waited for. */
static void cancel(void *store, struct dlk_op *op) {
  struct node *node = store;
  struct message *m = messages;
  while (m && m->op != op)
    m = m->next;
  if (!m || op->kind == DLK_OP_EXTEND ||
      (op->kind == DLK_OP_ACQUIRE && chance(2)))
    return;
  m->op = NULL;
  if (op->kind != DLK_OP_CHANGE)
    take_back(node->client, node->number, *token_of(op->lease));
  end_op(node, op, op->ending);
}

static void renew(void *store, struct dlk_lease *const *leases, size_t of) {
  struct node *node = store;
  for (size_t i = 0; i < of; i++) {
    struct message *m =
        message(node->client, node->number, DLK_OP_PING, *token_of(leases[i]));
    m->node = node;
    m->renewed = leases[i];
    m->ttl = leases[i]->ttl;
    m->floor = leases[i]->fence;
    go(m);
  }
}

static void stop(void *store) {
  struct node *node = store;
  node->host->stopped(node->host);
}

const struct dlk_store_type dlk_redis_store = {
    .abi = DLK_STORE_ABI,
    .op_size = 16,
    .lease_size = sizeof(uint64_t),
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = renew,
    .stop = stop,
    .destroy = free,
};

static void answer_op(struct message *m) {
  struct node *node = m->node;
  struct dlk_op *op = m->op;
  struct dlk_lease *lease = op->lease;
  enum dlk_code code = m->way == FAILS ? DLK_UNAVAILABLE : m->code;
  if (op->kind == DLK_OP_CHANGE && m->way == FAILS) {
    m->way = GOES;
    go(m);
    return;
  }
  if (m->way == FAILS && op->kind != DLK_OP_EXTEND)
    take_back(node->client, node->number, m->token);
  if (code == DLK_OK && op->kind == DLK_OP_ACQUIRE)
    lease->fence = m->value;
  if (code == DLK_OK && lease && op->kind != DLK_OP_RELEASE)
    lease->sent = m->sent;
  if (code == DLK_BUSY)
    op->fence = m->value ? DLK_REDIS_SMALLER : 0;
  drop(m);
  end_op(node, op, code);
}

static void answer(struct message *m) {
  struct node *node = m->node;
  struct dlk_lease *lease = m->renewed;
  bool fails = m->way == FAILS, ours = m->code == DLK_OK;
  int64_t sent = m->sent;
  if (m->orphan && fails) {
    go(m);
  } else if (m->op) {
    answer_op(m);
  } else {
    drop(m);
    if (lease && fails)
      node->host->renew_failed(node->host, lease);
    else if (lease && ours)
      node->host->renewed(node->host, lease, sent);
    else if (lease)
      node->host->lost(node->host, lease, "gone");
  }
}

static void move(struct message *m) {
  struct server *s = &servers[m->number];
  struct client *c = m->client;
  dlk_heap_remove(&wires, &m->at);
  if (m->way == GOES) {
    bool cut = s->back_at > now || (set.losses && chance(40));
    if (s->back_at <= now && !run(s, m))
      return;
    m->way = cut ? FAILS : COMES;
    dlk_heap_put(&wires, &m->at,
                 cut ? now + SILENCE
                     : later(c, m->number, &c->down[m->number]));
  } else if (m->life != c->life) {
    drop(m);
  } else if (c->stands_until > now) {
    dlk_heap_put(&wires, &m->at, c->stands_until + ++c->kept); /* in order */
  } else {
    answer(m);
  }
}

/* ---- clients ---- */

static bool holds(const struct client *c) {
  return c->held && now < c->deadline;
}

static void set_deadline(struct client *c) {
  int64_t at = dlk_lease_deadline(c->take->lease.sent, c->take->lease.ttl);
  c->deadline = at < c->cut ? at : c->cut;
  for (unsigned i = 0; holds(c) && i < count; i++)
    overlaps += &clients[i] != c && holds(&clients[i]);
}

static void ask(struct client *c, enum dlk_op_kind kind, struct take *take,
                int64_t ttl) {
  struct asked *a = calloc(1, sizeof *a);
  a->client = c;
  a->take = take;
  a->next = all_asked;
  all_asked = a;
  a->op.kind = kind;
  a->op.lease = &take->lease;
  a->op.key = "k";
  a->op.key_len = 1;
  a->op.wait = kind == DLK_OP_ACQUIRE && !chance(4);
  a->op.ttl = ttl;
  a->op.data = a->data;
  if (kind == DLK_OP_ACQUIRE)
    c->acquire = a;
  dlk_redlock_store.submit(c->store, &a->op);
}

static void begin(struct client *c) {
  struct take *t = calloc(1, sizeof *t);
  t->next = all_takes;
  all_takes = t;
  t->lease = (struct dlk_lease){.key = "k",
                                .key_len = 1,
                                .owner = "o",
                                .data = t->data,
                                .ttl = ms(200, 1000)};
  c->take = t;
  c->after = largest;
  c->acts_at = now + ms(300, 5000); /* gives up */
  ask(c, DLK_OP_ACQUIRE, t, 0);
}

static void leave(struct client *c) {
  c->held = c->extending = c->renewing = false;
  c->acts_at = now + ms(0, 30);
  if (free_since < 0)
    free_since = now;
  ask(c, DLK_OP_RELEASE, c->take, 0);
}

static void granted(struct client *c) {
  struct take *t = c->take;
  c->cut = DLK_FOREVER;
  c->held = true;
  set_deadline(c);
  if (!holds(c)) {
    leave(c);
    return;
  }
  if (free_since >= 0 && now - free_since > longest_free)
    longest_free = now - free_since;
  free_since = -1;
  falls += t->lease.fence <= c->after;
  largest = t->lease.fence > largest ? t->lease.fence : largest;
  last_holds++;
  c->renews_at = now + t->lease.ttl / 3;
  c->acts_at = now + (set.races ? ms(1, 20) : ms(1, chance(2) ? 100 : 2500));
}

static void act(struct client *c) {
  struct take *t = c->take;
  if (c->held && now >= c->deadline) {
    leave(c);
  } else if (c->held && !c->extending && !c->renewing && now >= c->renews_at &&
             now < c->acts_at) {
    struct dlk_lease *lease = &t->lease;
    c->renewing = true;
    dlk_redlock_store.renew(c->store, &lease, 1);
  } else if (now < c->acts_at) {
    return;
  } else if (c->held && !c->extending && chance(3)) {
    int64_t ttl = ms(200, 1000), at = dlk_lease_deadline(now, ttl);
    c->acts_at = now + ms(1, 1500);
    c->extending = true;
    c->cut = at < c->cut ? at : c->cut;
    set_deadline(c);
    ask(c, DLK_OP_EXTEND, t, ttl);
  } else if (c->held) {
    leave(c);
  } else if (!c->acquire && !c->quits) {
    begin(c);
  } else {
    c->acts_at = now + DLK_SEC;
    if (c->acquire && c->acquire->op.ending == DLK_OK) {
      c->acquire->op.ending = DLK_TIMEOUT;
      dlk_redlock_store.cancel(c->store, &c->acquire->op);
    }
  }
}

static int64_t wakes_at(const struct client *c) {
  const struct dlk_heap_node *timer = dlk_heap_first(&c->timers);
  int64_t at = c->acts_at;
  if (c->held && c->deadline < at)
    at = c->deadline;
  if (c->held && !c->renewing && !c->extending && c->renews_at < at)
    at = c->renews_at;
  if (timer && timer->at < at)
    at = timer->at;
  return at > c->stands_until ? at : c->stands_until;
}

/* ---- the clients' host ---- */

static struct client *of(struct dlk_host *host) {
  return (struct client *)(void *)host;
}

static int64_t host_now(struct dlk_host *host) {
  (void)host;
  return now;
}

static void host_random(struct dlk_host *host, void *out, size_t len) {
  unsigned char *at = out;
  (void)host;
  while (len-- > 0)
    *at++ = (unsigned char)check_random(256);
}

static void timer_set(struct dlk_host *host, struct dlk_timer *timer,
                      int64_t at) {
  dlk_heap_put(&of(host)->timers, &timer->node, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *timer) {
  dlk_heap_remove(&of(host)->timers, &timer->node);
}

static void op_done(struct dlk_host *host, struct dlk_op *op,
                    const struct dlk_error *err) {
  struct client *c = of(host);
  struct asked *a = (struct asked *)(void *)op;
  struct take *t = a->take;
  bool extends = op->kind == DLK_OP_EXTEND && t == c->take && c->held;
  bool acquires = op->kind == DLK_OP_ACQUIRE;
  int64_t ttl = op->ttl;
  overlaps += a->over; /* it ends once */
  a->over = true;
  if (acquires) {
    c->acquire = NULL;
    c->acts_at = now + ms(0, 30);
    if (!err)
      granted(c);
  } else if (extends && err && err->code == DLK_LOST) {
    leave(c);
  } else if (extends) {
    c->extending = false;
    c->renews_at = now;
    if (!err) {
      t->lease.ttl = ttl;
      c->cut = DLK_FOREVER;
      set_deadline(c);
    }
  }
}

/* Its lease was being renewed. */
static bool renews(struct client *c, const struct dlk_lease *lease) {
  bool yes = c->take && lease == &c->take->lease && c->held && c->renewing &&
             now < c->deadline;
  c->renewing = c->renewing && !yes;
  return yes;
}

static void host_renewed(struct dlk_host *host, struct dlk_lease *lease,
                         int64_t sent) {
  struct client *c = of(host);
  if (!renews(c, lease))
    return;
  lease->sent = sent;
  c->cut = c->extending ? c->cut : DLK_FOREVER;
  c->renews_at = now + lease->ttl / 3;
  set_deadline(c);
}

static void host_renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  struct client *c = of(host);
  if (renews(c, lease))
    c->renews_at = now + DLK_MS + (c->deadline - now) / 8;
}

static void host_lost(struct dlk_host *host, struct dlk_lease *lease,
                      const char *why) {
  struct client *c = of(host);
  (void)why;
  if (c->take && lease == &c->take->lease && c->held)
    leave(c);
}

static void host_busy(struct dlk_host *host, int delta) {
  (void)host, (void)delta;
}

static void host_stopped(struct dlk_host *host) {
  (void)host;
}

static const struct dlk_host functions = {
    DLK_STORE_ABI, host_now,    host_random,  timer_set,
    timer_clear,   op_done,     host_renewed, host_renew_failed,
    host_lost,     NULL,        NULL,         NULL,
    NULL,          host_busy,   NULL,         NULL,
    NULL,          host_stopped};

/* ---- histories ---- */

static void open_client(struct client *c) {
  static const char *const keys[] = {
      "1 scheme", "2 scheme", "3 scheme", "4 scheme", "5 scheme",
      "1 shown",  "2 shown",  "3 shown",  "4 shown",  "5 shown"};
  static const char *const shown[] = {"1", "2", "3", "4", "5"};
  struct dlk_option list[2 * MOST + 2] = {{"node_timeout", NULL, NULL, 0.25},
                                          {"max_ttl", NULL, NULL, 1}};
  for (unsigned i = 0; i < n; i++) {
    list[2 + 2 * i] = (struct dlk_option){"nodes", keys[i], "redlock", 0};
    list[3 + 2 * i] = (struct dlk_option){"nodes", keys[MOST + i], shown[i], 0};
  }
  struct dlk_conf conf = {.connect_timeout = DLK_SEC,
                          .io_timeout = DLK_SEC,
                          .options = {list, 2 + 2 * n}};
  struct dlk_error err;
  unsigned life = c->life;
  memset(c, 0, sizeof *c);
  c->life = life + 1;
  c->host = functions;
  c->acts_at = now + ms(0, 100);
  opening = c;
  if (dlk_redlock_store.create(&c->host, &conf, &c->store, &err) != DLK_OK)
    abort();
}

/* What it asked for is forgotten, and its servers hear nothing. */
static void crash(struct client *c) {
  dlk_redlock_store.stop(c->store);
  dlk_redlock_store.destroy(c->store);
  for (struct asked *a = all_asked; a; a = a->next)
    a->over = a->over || a->client == c;
  if (c->held && free_since < 0)
    free_since = now;
  c->life++;
}

static void trouble(void) {
  struct client *c = &clients[check_random(count)];
  struct server *s = &servers[check_random(n)];
  if (set.crashes && chance(3)) {
    crash(c);
    open_client(c);
  } else if (set.crashes && chance(2)) {
    c->stands_until = now + ms(1, 3000);
  } else if (set.losses && chance(2)) {
    for (unsigned i = 0; i < n; i++)
      c->mute[i] = chance(2) ? now + ms(1, 1500) : 0;
  } else if (chance(2)) { /* its counter is ahead of the others */
    s->counter += check_random(50);
  } else if (set.restarts && chance(2)) {
    s->back_at = s->born = now + ms(1, 500);
    s->process++;
    if (chance(2)) { /* it loads older data */
      s->counter /= 2;
      s->token = 0;
    }
  }
}

static void step(int64_t *troubled) {
  int64_t at = *troubled;
  struct client *next = NULL;
  struct dlk_heap_node *wire = dlk_heap_first(&wires);
  for (unsigned i = 0; i < count; i++)
    if (wakes_at(&clients[i]) < at) {
      next = &clients[i];
      at = wakes_at(next);
    }
  if (wire && wire->at <= at) {
    now = wire->at > now ? wire->at : now;
    move((struct message *)(void *)wire);
  } else if (next) {
    now = at > now ? at : now;
    struct dlk_heap_node *timer = dlk_heap_first(&next->timers);
    if (timer && timer->at <= now) {
      dlk_heap_remove(&next->timers, timer);
      struct dlk_timer *t = DLK_CONTAINER(timer, struct dlk_timer, node);
      t->fire(t, now);
    } else {
      act(next);
    }
  } else {
    now = at;
    *troubled = now + ms(50, 600);
    trouble();
  }
}

/* True: all ended, and no token stands longer than it may. */
static bool finish(void) {
  int64_t never = DLK_FOREVER;
  for (unsigned i = 0; i < count; i++)
    clients[i].quits = true;
  set.losses = set.restarts = set.crashes = false;
  for (int64_t end = now + 30 * DLK_SEC; now < end;)
    step(&never);
  bool good = true;
  for (const struct asked *a = all_asked; a; a = a->next)
    good = good && a->over;
  for (unsigned i = 0; i < n; i++)
    good = good && (!servers[i].token || servers[i].ends <= now);
  for (unsigned i = 0; i < count; i++)
    crash(&clients[i]);
  while (messages)
    drop(messages);
  for (struct take *t; (t = all_takes); free(t))
    all_takes = t->next;
  for (struct asked *a; (a = all_asked); free(a))
    all_asked = a->next;
  return good;
}

/* Plays one history; false: something did not end. */
static bool play(struct setting setting, unsigned of_clients) {
  int64_t troubled;
  set = setting;
  n = 3 + 2 * check_random(2);
  count = of_clients;
  now = 100 * DLK_SEC;
  troubled = now + ms(50, 400);
  largest = longest_free = 0;
  free_since = now;
  last_holds = overlaps = falls = 0;
  memset(servers, 0, sizeof servers);
  for (unsigned i = 0; i < n; i++) {
    servers[i].process = servers[i].counted_by = 1;
    servers[i].counter = chance(4) ? 0 : 1 + (int64_t)check_random(1000);
    servers[i].drift = (int)check_random(11) - 5;
  }
  for (unsigned i = 0; i < count; i++)
    open_client(&clients[i]);
  for (int64_t end = now + 15 * DLK_SEC; now < end;)
    step(&troubled);
  return finish();
}

static const struct setting all = {
    .losses = true, .restarts = true, .crashes = true};

TEST(two_never_hold_and_fences_rise) {
  for (unsigned long i = 0; i < histories; i++) {
    CHECK(play(all, 2 + check_random(3)));
    CHECK(overlaps == 0);
    CHECK(falls == 0);
  }
}

/* R11: in a race of eight somebody soon has a majority, each time. */
TEST(split_votes_end) {
  struct setting races = {.races = true};
  for (unsigned i = 0; i < 20; i++) {
    CHECK(play(races, CLIENTS));
    CHECK(overlaps == 0 && falls == 0);
    CHECK(last_holds > 10);
    CHECK(longest_free < 3 * DLK_SEC);
  }
}

static bool shows(int fault) {
  struct setting setting = all;
  bool shown = false;
  setting.fault = fault;
  for (unsigned i = 0; i < 3000 && !shown; i++)
    shown = !play(setting, 4) || overlaps > 0 || falls > 0;
  return shown;
}

TEST(each_broken_rule_is_seen) {
  CHECK(shows(LAST_END));
  CHECK(shows(UNRAISED));
  CHECK(shows(UNCHECKED));
  CHECK(shows(FORGETFUL));
}

int main(int argc, char **argv) {
  if (argc > 1)
    histories = strtoul(argv[1], NULL, 10);
  return check_all();
}
