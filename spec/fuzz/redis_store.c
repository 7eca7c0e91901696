/* Replies of a Redis → what the store decides. The shipped state machines of
 * the Redis store on a host and a link that do what the input says: ask for
 * all that can be asked, answer with any bytes (through the shipped check and
 * hiredis' reader), lose answers, tell of anything, let time pass, end early.
 * A detached string is attached as it was, or as the input has it.
 *
 * - Each operation ends once, each renewal is answered once.
 * - A hold that is granted has a fence and was asked for in the past; an error
 *   has a code.
 * - When the store has stopped, nothing is under way, no timer is set, and no
 *   memory is left. */
#include "redis_world.h"

#define STEPS 100
#define KEYS 3

/* ---- what the input can do ---- */

/* Writes what was submitted: the bytes are a list of commands. */
static void write_all(void) {
  while (still_waiting(&w.link) > 0) {
    struct dlk_buf out = {0};
    MUST(w.link.count < STILL_MOST);
    const struct dlk_redis_req *req = still_write(&w.link, 0, w.now, &out);
    MUST(!out.failed && out.len > 4 && out.data[0] == '*');
    struct dlk_redis_scan s = {0};
    MUST(req->replies > 0 && dlk_redis_scan(&s, out.data, out.len));
    MUST(s.depth == 0 && s.type == 0 && s.skip == 0);
    dlk_buf_free(&out);
  }
}

/* The oldest request gets its replies from these bytes; when they do not
 * suffice or are none, the connection is lost. */
static void reply(const char *p, size_t n) {
  if (w.link.count == 0)
    return;
  struct dlk_redis_scan s = {0};
  redisReader *reader = redisReaderCreate();
  struct dlk_redis_req *req = w.link.written[0].req;
  redisReply *last = NULL;
  char refusal[200] = "";
  MUST(reader != NULL);
  bool fine =
      dlk_redis_scan(&s, p, n) && redisReaderFeed(reader, p, n) == REDIS_OK;
  for (req->got = 0; fine && req->got < req->replies; req->got++) {
    void *got = NULL;
    fine = redisReaderGetReply(reader, &got) == REDIS_OK && got != NULL;
    if (!fine)
      break;
    freeReplyObject(last);
    last = got;
    if (req->each)
      req->each(req, req->got, last);
    if (last->type == REDIS_REPLY_ERROR && !refusal[0])
      snprintf(refusal, sizeof refusal, "%s ", last->str);
  }
  if (fine) {
    struct dlk_redis_answer a = {.outcome = DLK_REDIS_ANSWERED};
    a.refusal = refusal[0] ? refusal : NULL;
    a.reply = refusal[0] ? NULL : last;
    still_take(&w.link, 0)->done(req, &a);
  } else {
    world_lose(DLK_UNAVAILABLE);
  }
  freeReplyObject(last);
  redisReaderFree(reader);
}

static struct asked *new_op(enum dlk_op_kind kind, struct slot *s) {
  if (w.asked_count == OPS)
    return NULL;
  struct asked *a = &w.asked[w.asked_count++];
  a->op.kind = kind;
  a->op.data = &a->try;
  a->op.key = "k0";
  a->op.key_len = 2;
  a->op.started = w.now;
  a->op.deadline = w.now + 5 * DLK_SEC;
  a->slot = s;
  if (s != NULL) {
    a->op.lease = &s->lease;
    a->op.key = s->lease.key;
    a->op.key_len = s->lease.key_len;
    s->op = &a->op;
  }
  return a;
}

static void submit(struct asked *a) {
  if (a == NULL)
    return;
  w.open++;
  dlk_redis_store.submit(w.store, &a->op);
}

static struct slot *new_slot(void) {
  if (w.slot_count == LEASES || w.asked_count == OPS)
    return NULL;
  struct slot *s = &w.slots[w.slot_count++];
  s->used = true;
  s->lease.data = &s->hold;
  s->lease.owner = "me";
  s->lease.ttl = DLK_SEC;
  return s;
}

static void acquire(struct input *in) {
  static const struct dlk_want wants[] = {{0, 0}, {1, 0}, {1, 3}, {2, 3}};
  static const char keys[KEYS][3] = {"k0", "k1", "~d"};
  uint8_t how = input_byte(in);
  struct slot *s = new_slot();
  if (s == NULL)
    return;
  s->lease.key = keys[how % KEYS];
  s->lease.key_len = 2;
  s->lease.want = wants[how / 3 % 4];
  s->lease.min_hold = how & 64 ? DLK_SEC / 2 : 0;
  s->lease.handoffs.most = how & 128 ? 3 : 0;
  s->lease.value = how & 32 ? "value" : NULL;
  s->lease.value_len = how & 32 ? 5 : 0;
  struct asked *a = new_op(DLK_OP_ACQUIRE, s);
  a->op.wait = how & 16;
  submit(a);
}

static void attach(struct input *in) {
  uint8_t how = input_byte(in);
  struct slot *s = new_slot();
  if (s == NULL)
    return;
  size_t n = w.detached_len;
  const char *p = how & 1 ? w.detached : input_bytes(in, how * 2, &n);
  memcpy(s->text, p, n);
  if (n > 0 && how & 2)
    s->text[input_byte(in) % n] ^= (char)(1 + input_byte(in) % 255);
  s->lease.key = s->text;
  s->lease.key_len = n;
  struct asked *a = new_op(DLK_OP_ATTACH, s);
  a->op.text = s->text;
  a->op.text_len = n;
  a->op.renew = how & 4;
  submit(a);
}

static struct slot *some_hold(struct input *in) {
  uint8_t from = input_byte(in);
  for (size_t i = 0; i < w.slot_count; i++) {
    struct slot *s = &w.slots[(from + i) % w.slot_count];
    if (s->held && s->op == NULL)
      return s;
  }
  return NULL;
}

static void on_hold(enum dlk_op_kind kind, struct input *in) {
  static const char *const argv[] = {"SET", "k", "v"};
  static const size_t lengths[] = {3, 1, 1};
  struct slot *s = some_hold(in);
  if (s == NULL || (kind == DLK_OP_DETACH && s->renewing))
    return;
  if (kind == DLK_OP_DOWNGRADE && s->lease.want.units != 0)
    return;
  struct asked *a = new_op(kind, s);
  if (a == NULL) {
    return;
  }
  a->op.ttl = s->lease.ttl;
  a->op.renew = true;
  a->op.argc = 3;
  a->op.argv = argv;
  a->op.argv_len = lengths;
  submit(a);
}

static void on_key(enum dlk_op_kind kind, struct input *in) {
  struct asked *a = new_op(kind, NULL);
  if (a == NULL)
    return;
  size_t n;
  const char *p = input_bytes(in, input_byte(in) % 8, &n);
  memcpy(a->text, p, n);
  a->op.limit = 10;
  a->op.fence = 7;
  if (kind == DLK_OP_LIST) {
    a->op.text = n ? a->text : NULL;
    a->op.text_len = n;
    a->op.key = "";
    a->op.key_len = 0;
  }
  submit(a);
}

static void renew(struct input *in) {
  struct slot *s = some_hold(in);
  if (s == NULL || s->renewing)
    return;
  s->renewing = true;
  struct dlk_lease *list[] = {&s->lease};
  dlk_redis_store.renew(w.store, list, 1);
}

static void cancel(struct input *in) {
  static const enum dlk_code codes[] = {DLK_TIMEOUT, DLK_CANCELLED};
  uint8_t from = input_byte(in);
  for (size_t i = 0; i < w.asked_count; i++) {
    struct asked *a = &w.asked[(from + i) % w.asked_count];
    if (a->over || a->op.ending != DLK_OK)
      continue;
    a->op.ending = codes[from % 2];
    dlk_redis_store.cancel(w.store, &a->op);
    return;
  }
}

/* A message on our channel: a token that is ours stands for a %, since no
 * fuzzer would find one. */
static void tell(struct input *in) {
  size_t n;
  const char *p = input_bytes(in, input_byte(in) % 64, &n);
  uint8_t who = input_byte(in);
  struct dlk_buf text = {0};
  for (size_t i = 0; i < n; i++) {
    const struct slot *s = w.slot_count ? &w.slots[who % w.slot_count] : NULL;
    if (p[i] == '%' && s)
      dlk_buf_add(&text, s->hold.token.text, s->hold.token.len);
    else
      dlk_buf_add(&text, p + i, 1);
  }
  dlk_buf_add(&text, "", 1);
  w.link.events->message(w.store, text.data, text.len - 1);
  dlk_buf_free(&text);
}

static void pass(int64_t ns) {
  w.now += ns;
  for (int i = 0; i < 64; i++) {
    struct dlk_heap_node *n = dlk_heap_first(&w.timers);
    if (n == NULL || n->at > w.now)
      return;
    dlk_heap_remove(&w.timers, n);
    struct dlk_timer *t = DLK_CONTAINER(n, struct dlk_timer, node);
    t->fire(t, w.now);
  }
}

/* Of all slots, or of the last one that messages were wanted of. */
static void subscription(bool stands, bool all) {
  struct dlk_error err;
  struct still_link *l = &w.link;
  int slot = all ? DLK_REDIS_ANY_SLOT : l->wanted_slot;
  MUST(!l->wanted || l->wanted_slot >= 0);
  l->sharded = !all;
  l->subscribed = stands;
  memset(&l->acknowledged, 0, sizeof l->acknowledged);
  if (slot >= 0)
    dlk_redis_slots_put(&l->acknowledged, slot, stands);
  if (stands) {
    l->events->subscribed(w.store, slot);
  } else {
    dlk_error_set(&err, DLK_UNAVAILABLE, "cut");
    l->events->unsubscribed(w.store, slot, &err);
  }
}

static void step(struct input *in) {
  static const enum dlk_op_kind holds[] = {DLK_OP_RELEASE, DLK_OP_EXTEND,
                                           DLK_OP_DETACH, DLK_OP_GUARD,
                                           DLK_OP_DOWNGRADE};
  static const enum dlk_op_kind keys[] = {
      DLK_OP_PING,  DLK_OP_LOCKED, DLK_OP_INSPECT, DLK_OP_LIST,
      DLK_OP_BREAK, DLK_OP_REVOKE, DLK_OP_CHANGE};
  uint8_t what = input_byte(in);
  size_t n;
  const char *p;
  switch (what % 16) {
  case 0:
  case 1:
    acquire(in);
    break;
  case 2:
  case 3:
    on_hold(holds[what / 16 % 5], in);
    break;
  case 4:
    on_key(keys[what / 16 % 7], in);
    break;
  case 5:
    attach(in);
    break;
  case 6:
    renew(in);
    break;
  case 7:
    cancel(in);
    break;
  case 8:
    tell(in);
    break;
  case 9:
    pass((int64_t)(what / 16 + 1) * DLK_SEC / 8);
    break;
  case 10:
    subscription(what & 16, what & 32);
    break;
  case 11:
    if (what & 16)
      write_all();
    world_lose(what & 32 ? DLK_DENIED : DLK_UNAVAILABLE);
    break;
  default:
    write_all();
    p = input_bytes(in, input_byte(in), &n);
    reply(p, n);
    break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  world_begin();
  for (int i = 0; i < STEPS && in.p < in.end; i++)
    step(&in);
  world_end();
  return 0;
}
