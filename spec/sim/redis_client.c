/* The shipped state machines of the Redis store as a Lua module, with nothing
 * of their own around them: no socket, no thread, no clock. A simulation in
 * Lua takes each request when it is to be written, says later how it ended,
 * hands in messages, and moves the time; see spec/sim/redis_network.lua.
 *
 *   client.new(seed)            a client; all of the following are methods
 *   acquire(key, ttl, units, cap, wait, handoffs) -> id of the acquisition
 *   hand_over(id)               -> id of the one that has the hold now; nil
 *                               while anything is under way
 *   release(id) renew(id) cancel(id, timeout?)
 *   requests()                  ids of what is submitted and not written
 *   write(id)                   -> bytes; from now on it is under way
 *   answer(id, replies)         the replies to one request
 *   lose(id, written)           the connection is gone
 *   wanted() heard() deafen() message(text) channel()
 *   next() fire()               timers
 *   events()                    what happened: { kind, id, code, fence, sent,
 *                               claim, spare }
 *   close()
 * client.scripts() gives the scripts' texts by their number, which stands for
 * the hash; client.time(ns) sets the time of all. Times are nanoseconds. */
#include <lauxlib.h>
#include <stdlib.h>

#include "redis_host.h"

#define NAME "dlock.sim.client"

static struct client *check(lua_State *L) {
  struct client **c = luaL_checkudata(L, 1, NAME);
  if (!*c)
    luaL_error(L, "closed");
  return *c;
}

static struct thing *thing_at(lua_State *L, struct client *c) {
  int id = (int)luaL_checkinteger(L, 2);
  struct thing *t = c->things[id % THINGS];
  if (!t || t->id != id)
    luaL_error(L, "no acquisition %d", id);
  return t;
}

static int l_time(lua_State *L) {
  sim_time = (int64_t)luaL_checknumber(L, 1);
  return 0;
}

/* The text of each script by the name that the server knows it under. */
static int l_scripts(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < DLK_REDIS_SCRIPTS; i++) {
    size_t len;
    const char *text = dlk_redis_script_text((enum dlk_redis_script)i, &len);
    lua_pushfstring(L, "%d", i);
    lua_pushlstring(L, text, len);
    lua_rawset(L, -3);
  }
  return 1;
}

static int l_new(lua_State *L) {
  struct client **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_getmetatable(L, NAME);
  lua_setmetatable(L, -2);
  struct client *c = calloc(1, sizeof *c);
  if (!c)
    sim_die("out of memory");
  sim_client_init(c, (uint64_t)luaL_checknumber(L, 1));
  *box = c;
  return 1;
}

static struct thing *new_thing(struct client *c, const char *key, size_t len) {
  struct thing *t = calloc(1, sizeof *t);
  if (!t || len >= sizeof t->key)
    sim_die("no room");
  do
    t->id = ++c->last_id;
  while (c->things[t->id % THINGS]);
  c->things[t->id % THINGS] = t;
  memcpy(t->key, key, len);
  t->lease.key = t->key;
  t->lease.key_len = len;
  t->lease.owner = "me";
  t->lease.data = &t->hold;
  return t;
}

static int l_acquire(lua_State *L) {
  struct client *c = check(L);
  size_t len;
  const char *key = luaL_checklstring(L, 2, &len);
  struct thing *t = new_thing(c, key, len);
  t->lease.ttl = (int64_t)luaL_checknumber(L, 3);
  t->lease.want.units = (uint32_t)luaL_checkinteger(L, 4);
  t->lease.want.cap = (uint32_t)luaL_checkinteger(L, 5);
  t->lease.handoffs = (uint32_t)luaL_optinteger(L, 7, 0);
  t->acquire = (struct dlk_op){.kind = DLK_OP_ACQUIRE,
                               .wait = lua_toboolean(L, 6),
                               .lease = &t->lease,
                               .key = t->key,
                               .key_len = len,
                               .started = sim_time,
                               .deadline = DLK_FOREVER,
                               .data = &t->first};
  t->acquiring = true;
  int id = t->id;
  c->used = true;
  dlk_redis_store.submit(c->store, &t->acquire);
  lua_pushinteger(L, id);
  return 1;
}

static int l_release(lua_State *L) {
  struct client *c = check(L);
  struct thing *t = thing_at(L, c);
  t->release = (struct dlk_op){.kind = DLK_OP_RELEASE,
                               .lease = &t->lease,
                               .key = t->key,
                               .key_len = t->lease.key_len,
                               .started = sim_time,
                               .deadline = DLK_FOREVER,
                               .data = &t->second};
  t->releasing = true;
  dlk_redis_store.submit(c->store, &t->release);
  return 0;
}

static int l_hand_over(lua_State *L) {
  struct client *c = check(L);
  struct thing *from = thing_at(L, c);
  if (from->renewing || from->acquiring || from->releasing)
    return 0;
  struct thing *to = new_thing(c, from->key, from->lease.key_len);
  to->lease.ttl = from->lease.ttl;
  to->lease.want = from->lease.want;
  to->lease.handoffs = from->lease.handoffs;
  to->lease.fence = from->lease.fence + 1;
  to->lease.spare = from->lease.spare - 1;
  to->lease.sent = from->lease.sent;
  dlk_redis_store.hand_over(c->store, &from->lease, &to->lease);
  c->things[from->id % THINGS] = NULL;
  free(from);
  lua_pushinteger(L, to->id);
  return 1;
}

static int l_renew(lua_State *L) {
  struct client *c = check(L);
  struct thing *t = thing_at(L, c);
  struct dlk_lease *lease = &t->lease;
  if (t->renewing || t->acquiring || t->releasing)
    return 0;
  t->renewing = true;
  dlk_redis_store.renew(c->store, &lease, 1);
  lua_pushboolean(L, 1);
  return 1;
}

/* Of the release if there is one, else of the acquire. */
static int l_cancel(lua_State *L) {
  struct client *c = check(L);
  struct thing *t = thing_at(L, c);
  struct dlk_op *op = t->releasing ? &t->release : &t->acquire;
  if ((!t->releasing && !t->acquiring) || op->ending != DLK_OK)
    return 0;
  op->ending = t->releasing ? DLK_UNAVAILABLE : DLK_TIMEOUT;
  dlk_redis_store.cancel(c->store, op);
  return 0;
}

static int l_requests(lua_State *L) {
  struct client *c = check(L);
  int n = 0;
  lua_newtable(L);
  for (size_t i = 0; i < c->request_count; i++) {
    if (c->requests[i].written)
      continue;
    lua_pushinteger(L, c->requests[i].id);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static size_t request_at(lua_State *L, struct client *c) {
  int id = (int)luaL_checkinteger(L, 2);
  for (size_t i = 0; i < c->request_count; i++)
    if (c->requests[i].id == id)
      return i;
  return (size_t)luaL_error(L, "no request %d", id);
}

static int l_write(lua_State *L) {
  struct client *c = check(L);
  struct request *r = &c->requests[request_at(L, c)];
  struct dlk_buf out = {0};
  r->written = true;
  r->req->sent = sim_time;
  r->req->encode(r->req, &out);
  if (out.failed)
    sim_die("out of memory");
  lua_pushlstring(L, out.data, out.len);
  dlk_buf_free(&out);
  return 1;
}

static int l_answer(lua_State *L) {
  struct client *c = check(L);
  size_t at = request_at(L, c);
  struct dlk_redis_req *req = c->requests[at].req;
  sim_request_forget(c, at);
  lua_settop(L, 3);
  redisReply *all = sim_reply_new(L);
  if (all->elements != req->replies)
    sim_die("wrong number of replies");
  struct dlk_redis_answer a = {.outcome = DLK_REDIS_ANSWERED};
  for (size_t i = 0; i < all->elements; i++) {
    redisReply *r = all->element[i];
    if (req->each)
      req->each(req, (unsigned)i, r);
    if (r->type == REDIS_REPLY_ERROR && !a.refusal)
      a.refusal = r->str;
    if (r->type != REDIS_REPLY_ERROR)
      a.reply = r;
  }
  req->done(req, &a);
  sim_reply_free(all);
  return 0;
}

static int l_lose(lua_State *L) {
  struct client *c = check(L);
  size_t at = request_at(L, c);
  sim_request_lose(c, at);
  return 0;
}

static int l_wanted(lua_State *L) {
  lua_pushboolean(L, check(L)->wanted);
  return 1;
}

static int l_heard(lua_State *L) {
  struct client *c = check(L);
  c->link.listening = true;
  c->ears->heard(c->arg);
  return 0;
}

static int l_deafen(lua_State *L) {
  check(L)->link.listening = false;
  return 0;
}

static int l_message(lua_State *L) {
  struct client *c = check(L);
  size_t len;
  const char *text = luaL_checklstring(L, 2, &len);
  c->ears->message(c->arg, text, len);
  return 0;
}

static int l_channel(lua_State *L) {
  lua_pushstring(L, check(L)->channel);
  return 1;
}

static int l_next(lua_State *L) {
  struct dlk_heap_node *n = dlk_heap_first(&check(L)->timers);
  if (!n)
    return 0;
  lua_pushnumber(L, (lua_Number)n->at);
  return 1;
}

static int l_fire(lua_State *L) {
  struct client *c = check(L);
  struct dlk_heap_node *n;
  while ((n = dlk_heap_first(&c->timers)) && n->at <= sim_time) {
    dlk_heap_remove(&c->timers, n);
    struct dlk_timer *t = DLK_CONTAINER(n, struct dlk_timer, node);
    t->fire(t, sim_time);
  }
  return 0;
}

static void put(lua_State *L, const char *name, int64_t value) {
  lua_pushnumber(L, (lua_Number)value);
  lua_setfield(L, -2, name);
}

static int l_events(lua_State *L) {
  struct client *c = check(L);
  lua_newtable(L);
  for (size_t i = 0; i < c->event_count; i++) {
    const struct happening *e = &c->events[i];
    lua_newtable(L);
    lua_pushstring(L, e->kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, e->code == DLK_OK ? "ok" : dlk_code_name(e->code));
    lua_setfield(L, -2, "code");
    put(L, "id", e->id);
    put(L, "fence", e->fence);
    put(L, "sent", e->sent);
    put(L, "claim", e->claim);
    put(L, "spare", e->spare);
    lua_rawseti(L, -2, (int)i + 1);
  }
  c->event_count = 0;
  return 1;
}

static int l_deadline(lua_State *L) {
  lua_pushnumber(
      L, (lua_Number)dlk_lease_deadline((int64_t)luaL_checknumber(L, 1),
                                        (int64_t)luaL_checknumber(L, 2)));
  return 1;
}

/* The process dies: what the machines still say, nobody hears. */
static int l_close(lua_State *L) {
  struct client **box = luaL_checkudata(L, 1, NAME);
  struct client *c = *box;
  if (!c)
    return 0;
  *box = NULL;
  if (c->used)
    dlk_redis_store.stop(c->store);
  while (c->request_count > 0) {
    c->event_count = 0;
    sim_request_lose(c, 0);
  }
  for (size_t i = 0; i < THINGS; i++)
    free(c->things[i]);
  dlk_redis_store.destroy(c->store);
  free(c);
  return 0;
}

int luaopen_redis_client(lua_State *L);

int luaopen_redis_client(lua_State *L) {
  static const luaL_Reg methods[] = {{"acquire", l_acquire},
                                     {"release", l_release},
                                     {"hand_over", l_hand_over},
                                     {"renew", l_renew},
                                     {"cancel", l_cancel},
                                     {"requests", l_requests},
                                     {"write", l_write},
                                     {"answer", l_answer},
                                     {"lose", l_lose},
                                     {"wanted", l_wanted},
                                     {"heard", l_heard},
                                     {"deafen", l_deafen},
                                     {"message", l_message},
                                     {"channel", l_channel},
                                     {"next", l_next},
                                     {"fire", l_fire},
                                     {"events", l_events},
                                     {"close", l_close},
                                     {"__gc", l_close},
                                     {NULL, NULL}};
  luaL_newmetatable(L, NAME);
  for (const luaL_Reg *m = methods; m->name; m++) {
    lua_pushcfunction(L, m->func);
    lua_setfield(L, -2, m->name);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_newtable(L);
  lua_pushcfunction(L, l_new);
  lua_setfield(L, -2, "new");
  lua_pushcfunction(L, l_scripts);
  lua_setfield(L, -2, "scripts");
  lua_pushcfunction(L, l_time);
  lua_setfield(L, -2, "time");
  lua_pushcfunction(L, l_deadline);
  lua_setfield(L, -2, "deadline");
  return 1;
}
