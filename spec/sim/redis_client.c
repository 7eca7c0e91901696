/* A process with the shipped engine and Redis store as a Lua module, without
 * socket, thread and clock. A simulation in Lua takes each request when it is
 * to be written, says later how it ended, hands in messages, and moves the
 * time; see spec/sim/redis_network.lua.
 *
 *   client.new(seed, resident, lingers, routed)  a process, which may not have
 *                           the server drop its old connections, or whose
 *                           store is a cluster's; all of the following are
 *                           methods
 *   acquire(key, ttl, units, cap, wait, renew, handoffs, timeout,
 *           max_hold or nothing) -> id
 *   attach(text, renew) -> id
 *   ask(id, what, value...) -> id of the request: release, extend (ttl),
 *                           detach (whether nobody looks at its end),
 *                           downgrade or guard (words) of a lease
 *   admin(what, key) -> id  break or revoke
 *   cancel(id)              what is asked for is not wanted any longer
 *   forget(id)              the lease's handle, or the ticket, is collected
 *   held(id) -> until, units, cap, ttl, when the request that said so was
 *                           sent; nothing: it is not held
 *   quiet()                 nothing is asked of the server, or to be taken back
 *   knows(token)            it waits with it, or holds it
 *   events()                what is over: { id, code, fence, token, text };
 *                           raises { wrong = } where a promise was broken
 *   left()                  what is left when nobody wants anything, or nil
 *   next()                  the time of its next timer; nothing: it has none
 *   fire()                  runs what is due
 *   close()                 the process dies
 *
 * Its network is in redis_wire.c. client.scripts() gives the scripts' texts by
 * their digest; client.slot(key) its slot; client.time(ns) sets the time of
 * all; client.deadline(sent, ttl) says until when such a lease counts. Times
 * are nanoseconds. */
#include "redis_client.h"

#include <stdlib.h>

#define NAME "dlock.sim.client"

struct client *sim_client_check(lua_State *L) {
  struct client **c = luaL_checkudata(L, 1, NAME);
  if (!*c)
    luaL_error(L, "closed");
  sim_running = *c;
  return *c;
}

static struct thing *thing_at(lua_State *L, struct client *c) {
  int id = (int)luaL_checkinteger(L, 2);
  struct thing *t = c->things[id % THINGS];
  if (!t || t->id != id)
    luaL_error(L, "nothing has the number %d", id);
  return t;
}

static int l_time(lua_State *L) {
  sim_time = (int64_t)luaL_checknumber(L, 1);
  return 0;
}

/* The text of each script by the name that the server knows it under. */
static int l_scripts(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < 2 * DLK_REDIS_SCRIPTS; i++) {
    const struct dlk_redis_script_source *s =
        i < DLK_REDIS_SCRIPTS ? &dlk_redis_scripts[i]
                              : &dlk_redis_shard_scripts[i - DLK_REDIS_SCRIPTS];
    lua_pushstring(L, s->sha);
    lua_pushlstring(L, s->text, s->len);
    lua_rawset(L, -3);
  }
  return 1;
}

static int l_slot(lua_State *L) {
  size_t len;
  const char *key = luaL_checklstring(L, 1, &len);
  lua_pushinteger(L, (lua_Integer)dlk_redis_slot(key, len));
  return 1;
}

static int l_new(lua_State *L) {
  lua_settop(L, 4);
  struct client **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_getmetatable(L, NAME);
  lua_setmetatable(L, -2);
  struct client *c = calloc(1, sizeof *c);
  if (!c)
    sim_die("out of memory");
  sim_client_init(c, (uint64_t)luaL_checknumber(L, 1), lua_toboolean(L, 2),
                  lua_toboolean(L, 4));
  sim_store(c)->link->may_linger = lua_toboolean(L, 3);
  *box = c;
  return 1;
}

/* ---- requests ---- */

static int submit(lua_State *L, struct client *c, const struct dlk_request *r) {
  struct dlk_error err;
  struct thing *t = calloc(1, sizeof *t);
  if (!t)
    sim_die("out of memory");
  t->ticket = dlk_engine_submit(c->engine, r, false, &err);
  if (!t->ticket)
    sim_die(err.text);
  do
    t->id = ++c->last_id;
  while (c->things[t->id % THINGS]);
  c->things[t->id % THINGS] = t;
  sim_enter(c);
  sim_leave(c);
  lua_pushinteger(L, t->id);
  return 1;
}

static int l_acquire(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct dlk_request r = {.task = DLK_TASK_OP, .kind = DLK_OP_ACQUIRE};
  r.key = luaL_checklstring(L, 2, &r.key_len);
  r.ttl = (int64_t)luaL_checknumber(L, 3);
  r.want.units = (uint32_t)luaL_checkinteger(L, 4);
  r.want.cap = (uint32_t)luaL_checkinteger(L, 5);
  r.wait = lua_toboolean(L, 6);
  r.renew = lua_toboolean(L, 7);
  r.handoffs = (uint32_t)luaL_checkinteger(L, 8);
  r.timeout = (int64_t)luaL_checknumber(L, 9);
  r.max_hold = DLK_FOREVER;
  if (!lua_isnoneornil(L, 10))
    r.max_hold = (int64_t)luaL_checknumber(L, 10);
  return submit(L, c, &r);
}

static int l_attach(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct dlk_request r = {.task = DLK_TASK_OP,
                          .kind = DLK_OP_ATTACH,
                          .timeout = -1,
                          .ttl = DLK_SEC};
  r.text = luaL_checklstring(L, 2, &r.text_len);
  r.key = r.text;
  r.key_len = r.text_len;
  r.renew = lua_toboolean(L, 3);
  r.max_hold = DLK_FOREVER;
  return submit(L, c, &r);
}

static int l_ask(lua_State *L) {
  static const char *const names[] = {"release",   "extend", "detach",
                                      "downgrade", "guard",  NULL};
  static const enum dlk_op_kind kinds[] = {DLK_OP_RELEASE, DLK_OP_EXTEND,
                                           DLK_OP_DETACH, DLK_OP_DOWNGRADE,
                                           DLK_OP_GUARD};
  struct client *c = sim_client_check(L);
  const char *words[16];
  size_t lens[16];
  struct dlk_request r = {.task = DLK_TASK_OP,
                          .kind = kinds[luaL_checkoption(L, 3, NULL, names)],
                          .hold = thing_at(L, c)->hold,
                          .timeout = -1,
                          .argv = words,
                          .argv_len = lens};
  if (r.kind == DLK_OP_EXTEND)
    r.ttl = (int64_t)luaL_checknumber(L, 4);
  for (int i = 4; r.kind == DLK_OP_GUARD && i <= lua_gettop(L); i++, r.argc++)
    words[r.argc] = luaL_checklstring(L, i, &lens[r.argc]);
  if (r.kind == DLK_OP_DETACH) {
    r.renew = dlk_hold_renews(r.hold);
    dlk_handle_give_up(&thing_at(L, c)->handle);
  }
  bool unread = r.kind == DLK_OP_DETACH && lua_toboolean(L, 4);
  submit(L, c, &r);
  c->things[lua_tointeger(L, -1) % THINGS]->unread = unread;
  return 1;
}

static int l_admin(lua_State *L) {
  static const char *const names[] = {"break", "revoke", NULL};
  static const enum dlk_op_kind kinds[] = {DLK_OP_BREAK, DLK_OP_REVOKE};
  struct client *c = sim_client_check(L);
  struct dlk_request r = {.task = DLK_TASK_OP,
                          .kind = kinds[luaL_checkoption(L, 2, NULL, names)],
                          .timeout = -1};
  r.key = luaL_checklstring(L, 3, &r.key_len);
  return submit(L, c, &r);
}

static int l_cancel(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct thing *t = thing_at(L, c);
  if (!t->ticket)
    return 0;
  dlk_ticket_cancel(t->ticket, DLK_CANCELLED);
  sim_enter(c);
  sim_leave(c);
  return 0;
}

static int l_forget(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct thing *t = thing_at(L, c);
  c->things[t->id % THINGS] = NULL;
  if (t->ticket)
    dlk_ticket_unref(t->ticket);
  if (t->hold) {
    if (dlk_handle_give_up(&t->handle))
      dlk_hold_release_later(t->hold);
    dlk_hold_unref(t->hold);
  }
  free(t);
  sim_enter(c);
  sim_leave(c);
  return 0;
}

/* As dlk_hold_remaining, without its memory of having been asked. */
static int l_held(lua_State *L) {
  struct client *c = sim_client_check(L);
  const struct dlk_hold *h = thing_at(L, c)->hold;
  if (!h || !dlk_hold_is_held(h) ||
      atomic_load(&h->state) == DLK_HOLD_DROPPING || atomic_load(&h->expired))
    return 0;
  struct dlk_want want = dlk_hold_want(h);
  lua_pushnumber(L, (lua_Number)atomic_load(&h->deadline));
  lua_pushinteger(L, (lua_Integer)want.units);
  lua_pushinteger(L, (lua_Integer)want.cap);
  lua_pushnumber(L, (lua_Number)atomic_load(&h->ttl));
  lua_pushnumber(L, (lua_Number)h->lease.sent);
  return 5;
}

static int l_quiet(lua_State *L) {
  lua_pushboolean(L, sim_client_quiet(sim_client_check(L)));
  return 1;
}

static int l_knows(lua_State *L) {
  struct client *c = sim_client_check(L);
  size_t len;
  const char *token = luaL_checklstring(L, 2, &len);
  struct dlk_redis_tokens *tokens = &sim_store(c)->tokens;
  lua_pushboolean(L, dlk_redis_token_find(tokens, token, len) != NULL);
  return 1;
}

/* ---- what is over ---- */

static void tell(lua_State *L, struct thing *t) {
  const struct dlk_error *err = dlk_ticket_error(t->ticket);
  const struct dlk_value *v = dlk_ticket_result(t->ticket);
  lua_newtable(L);
  lua_pushinteger(L, t->id);
  lua_setfield(L, -2, "id");
  lua_pushstring(L, err ? dlk_code_name(err->code) : "ok");
  lua_setfield(L, -2, "code");
  if (v && v->kind == DLK_VALUE_STRING) {
    lua_pushlstring(L, v->u.string.data, v->u.string.len);
    lua_setfield(L, -2, "text");
  }
  if (!err && dlk_ticket_detaches(t->ticket) &&
      !dlk_ticket_take_text(t->ticket))
    sim_complain("a lease was given back whose detach somebody waits for");
  if (!err && dlk_ticket_makes_hold(t->ticket)) {
    t->hold = dlk_ticket_take(t->ticket);
    t->handle = (struct dlk_handle){.hold = t->hold};
    const struct dlk_redis_hold *h = dlk_hold_lease(t->hold)->data;
    lua_pushnumber(L, (lua_Number)dlk_hold_lease(t->hold)->fence);
    lua_setfield(L, -2, "fence");
    lua_pushlstring(L, h->token.text, h->token.len);
    lua_setfield(L, -2, "token");
  }
  dlk_ticket_unref(t->ticket);
  t->ticket = NULL;
}

static void say(lua_State *L, struct client *c) {
  if (!c->complaint)
    return;
  lua_newtable(L);
  lua_pushstring(L, c->complaint);
  lua_setfield(L, -2, "wrong");
  c->complaint = NULL;
  lua_error(L);
}

static int l_events(lua_State *L) {
  struct client *c = sim_client_check(L);
  int n = 0;
  sim_client_look(c);
  say(L, c);
  lua_newtable(L);
  for (size_t i = 0; i < THINGS; i++) {
    struct thing *t = c->things[i];
    if (!t || !t->ticket || t->unread || !dlk_ticket_done(t->ticket))
      continue;
    tell(L, t);
    if (!t->hold) {
      free(t);
      c->things[i] = NULL;
    }
    lua_rawseti(L, -2, ++n);
  }
  for (struct dlk_event *news = dlk_engine_events(c->engine); news;) {
    struct dlk_event *next = news->next;
    free(news);
    news = next;
  }
  return 1;
}

static int l_left(lua_State *L) {
  struct client *c = sim_client_check(L);
  lua_pushstring(L, sim_client_left(c));
  return 1;
}

/* ---- time ---- */

static int l_next(lua_State *L) {
  int64_t at = dlk_timers_next(&sim_client_check(L)->engine->loop.timers);
  if (at == DLK_FOREVER)
    return 0;
  lua_pushnumber(L, (lua_Number)at);
  return 1;
}

static int l_fire(lua_State *L) {
  struct client *c = sim_client_check(L);
  sim_enter(c);
  sim_leave(c);
  return 0;
}

static int l_deadline(lua_State *L) {
  lua_pushnumber(
      L, (lua_Number)dlk_lease_deadline((int64_t)luaL_checknumber(L, 1),
                                        (int64_t)luaL_checknumber(L, 2)));
  return 1;
}

static int l_close(lua_State *L) {
  struct client **box = luaL_checkudata(L, 1, NAME);
  struct client *c = *box;
  if (!c)
    return 0;
  *box = NULL;
  bool clean = sim_client_end(c);
  free(c);
  lua_pushboolean(L, clean);
  return 1;
}

static void add(lua_State *L, const luaL_Reg *functions) {
  for (; functions->name; functions++) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

int luaopen_redis_client(lua_State *L);

int luaopen_redis_client(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"acquire", l_acquire}, {"attach", l_attach},
      {"ask", l_ask},         {"admin", l_admin},
      {"cancel", l_cancel},   {"forget", l_forget},
      {"held", l_held},       {"events", l_events},
      {"left", l_left},       {"next", l_next},
      {"fire", l_fire},       {"close", l_close},
      {"quiet", l_quiet},     {"knows", l_knows},
      {"__gc", l_close},      {NULL, NULL}};
  luaL_newmetatable(L, NAME);
  add(L, methods);
  add(L, sim_wire_methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_newtable(L);
  static const luaL_Reg functions[] = {
      {"new", l_new},   {"scripts", l_scripts},   {"slot", l_slot},
      {"time", l_time}, {"deadline", l_deadline}, {NULL, NULL}};
  add(L, functions);
  return 1;
}
