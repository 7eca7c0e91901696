/* Acquires, as every kind of lock makes them: prepared once, submitted often.
 *
 * A prepared acquire is an object that is called. It keeps a request that was
 * filled in from the options of a store or a lock, and from what its kind asks
 * of the queue; each call copies that and puts the options of this call over
 * it. So options have one list of names here, defaults stand in
 * lua/dlock/options.lua alone, and a call without options of its own reads
 * none. What is read here was checked by options.lua before.
 *
 * It is no function, because LuaJIT's traces keep the functions alive that they
 * call, and with that one they would keep its store. */
#include <string.h>

#include "lua/binding.h"

/* as_it_is: the request of a call that waits and says nothing else. handoffs:
 * what a request gets unless waiters are served in order. */
struct prepared {
  const struct engine_box *box;
  struct dlk_request request, as_it_is;
  bool fair;
  uint32_t handoffs;
};

#define TYPE "dlock.prepared"

/* What its uservalue keeps alive: the engine and its anchor, and what owns the
 * request's strings. */
enum { ANCHOR = 1, ENGINE, KIND, KEY, OWNER };

enum type { NS, COUNT, FLAG };

static const struct option {
  const char *name;
  enum type type;
  size_t offset;
} options[] = {
    {"ttl", NS, offsetof(struct prepared, request.ttl)},
    {"timeout", NS, offsetof(struct prepared, request.timeout)},
    {"renew", FLAG, offsetof(struct prepared, request.renew)},
    {"max_hold", NS, offsetof(struct prepared, request.max_hold)},
    {"min_hold", NS, offsetof(struct prepared, request.min_hold)},
    {"fair", FLAG, offsetof(struct prepared, fair)},
    {"local_handoffs", COUNT, offsetof(struct prepared, handoffs)},
    {"permits", COUNT, offsetof(struct prepared, request.want.units)},
    {"units", COUNT, offsetof(struct prepared, request.want.units)},
    {"cap", COUNT, offsetof(struct prepared, request.want.cap)},
    {"settle", NS, offsetof(struct prepared, request.withdrawal)},
    {"provisional", FLAG, offsetof(struct prepared, request.provisional)},
};

static void set(lua_State *L, struct prepared *p, const struct option *o,
                int value) {
  void *at = (char *)p + o->offset;
  if (o->type == NS)
    *(int64_t *)at = dlk_lua_ns(L, value);
  else if (o->type == COUNT)
    *(uint32_t *)at = dlk_lua_count(L, value);
  else
    *(bool *)at = lua_toboolean(L, value);
}

/* Puts the option `name`, whose value is at an absolute index, into p; a name
 * that means nothing for a request is left alone. */
static void put(lua_State *L, struct prepared *p, const char *name, int value) {
  struct dlk_request *r = &p->request;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (strcmp(name, options[i].name) == 0) {
      set(L, p, &options[i], value);
      return;
    }
  if (strcmp(name, "value") == 0) /* stays alive in its table */
    r->value = luaL_checklstring(L, value, &r->value_len);
}

/* All options that the table at an absolute index has. */
static void read(lua_State *L, struct prepared *p, int table) {
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, table); lua_settop(L, top + 1))
    if (lua_type(L, top + 1) == LUA_TSTRING)
      put(L, p, lua_tostring(L, top + 1), top + 2);
}

/* Whether and how long the request waits, once it has its options. */
static struct dlk_request *decide(struct prepared *p, bool wait) {
  struct dlk_request *r = &p->request;
  r->wait = wait && r->timeout > 0;
  if (!r->wait)
    r->timeout = -1;
  r->handoffs = p->fair ? 0 : p->handoffs;
  return r;
}

/* The request with what this call says otherwise. */
static const struct dlk_request *changed(lua_State *L, struct prepared *p) {
  struct dlk_request *r = &p->request;
  if (!lua_isnoneornil(L, 3))
    read(L, p, 3);
  if (!r->key || !lua_isnoneornil(L, 4)) {
    r->key = luaL_checklstring(L, 4, &r->key_len);
    r->owner = luaL_optstring(L, 5, NULL);
  }
  return decide(p, lua_toboolean(L, 2));
}

/* Its metatable is one more upvalue of submit: see binding.h. */
#define OWN_TYPE (DLK_LUA_LEASE + 1)

static const struct prepared *check(lua_State *L) {
  const struct prepared *p = lua_touserdata(L, 1);
  if (p && lua_getmetatable(L, 1)) {
    int same = lua_rawequal(L, -1, lua_upvalueindex(OWN_TYPE));
    lua_pop(L, 1);
    if (same)
      return p;
  }
  return luaL_checkudata(L, 1, TYPE);
}

/* acquire(wait [, options [, key, owner]]): its ticket. wait false: one try. A
 * key goes with its owner (nil: the engine's name) and stands for the prepared
 * ones. */
static int submit(lua_State *L) {
  const struct prepared *prepared = check(L);
  const struct dlk_request *r = &prepared->as_it_is;
  struct prepared copy;
  if (!r->key || lua_gettop(L) > 2 || !lua_toboolean(L, 2)) {
    copy = *prepared;
    r = changed(L, &copy);
  }
  lua_getuservalue(L, 1);
  lua_rawgeti(L, -1, ANCHOR);
  return dlk_lua_submit(L, prepared->box->engine, r, lua_gettop(L));
}

/* The metatable, on the stack; its function has the upvalues of all others. */
static void push_type(lua_State *L) {
  if (luaL_newmetatable(L, TYPE)) {
    for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
      lua_pushvalue(L, lua_upvalueindex(type));
    lua_pushvalue(L, -1 - DLK_LUA_LEASE);
    lua_pushcclosure(L, submit, OWN_TYPE);
    lua_setfield(L, -2, "__call");
  }
}

/* engine:prepare(options, kind [, key, owner]): such an object. options has
 * every option that a lock falls back on; kind: units, cap, value. */
int dlk_lua_prepare(lua_State *L) {
  struct prepared p = {.request = {.kind = DLK_OP_ACQUIRE}};
  p.box = dlk_lua_box(L, 1, DLK_LUA_ENGINE);
  p.request.user = p.box->user;
  lua_settop(L, 5);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  read(L, &p, 2);
  read(L, &p, 3);
  p.request.key = luaL_optlstring(L, 4, NULL, &p.request.key_len);
  p.request.owner = luaL_optstring(L, 5, NULL);
  luaL_argcheck(L, p.request.ttl > 0, 2, "there is no ttl");
  struct prepared copy = p;
  p.as_it_is = *decide(&copy, true);
  *(struct prepared *)lua_newuserdata(L, sizeof p) = p;
  lua_createtable(L, OWNER, 0);
  lua_getuservalue(L, 1);
  lua_rawseti(L, -2, ANCHOR);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, ENGINE);
  for (int i = 3; i <= 5; i++) { /* kind, key, owner */
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, KIND + i - 3);
  }
  lua_setuservalue(L, -2);
  push_type(L);
  lua_setmetatable(L, -2);
  return 1;
}
