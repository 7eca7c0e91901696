/* A prepared acquire keeps a request filled from the options of a store or a
 * lock, and of its kind. Each call copies it and adds the call's options; a
 * call without any reads none. options.lua has the defaults and the checks.
 *
 * It is a callable object, no function: LuaJIT's traces would keep a function,
 * and so its store, alive. */
#include <string.h>

#include "lua/binding.h"

/* handoffs: unless fair. */
struct prepared {
  const struct engine_box *box;
  struct dlk_request request;
  bool fair;
  uint32_t handoffs;
};

#define TYPE "dlock.prepared"

/* Its uservalue keeps these and the request's strings alive. */
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

/* value: an absolute index. Other names mean nothing for a request. */
static void put(lua_State *L, struct prepared *p, const char *name, int value) {
  struct dlk_request *r = &p->request;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (strcmp(name, options[i].name) == 0) {
      void *at = (char *)p + options[i].offset;
      if (options[i].type == NS)
        *(int64_t *)at = dlk_lua_ns(L, value);
      else if (options[i].type == COUNT)
        *(uint32_t *)at = dlk_lua_count(L, value);
      else
        *(bool *)at = lua_toboolean(L, value);
      return;
    }
  if (strcmp(name, "value") == 0) /* stays alive in its table */
    r->value = luaL_checklstring(L, value, &r->value_len);
}

/* table: an absolute index. */
static void read(lua_State *L, struct prepared *p, int table) {
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, table); lua_settop(L, top + 1))
    if (lua_type(L, top + 1) == LUA_TSTRING)
      put(L, p, lua_tostring(L, top + 1), top + 2);
}

/* One more upvalue of submit (binding.h). */
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

/* acquire(wait [, options [, key, owner]]): its ticket. wait false: one try.
 * key and owner (nil: the engine's name) replace the prepared ones. */
static int submit(lua_State *L) {
  struct prepared p = *check(L);
  struct dlk_request *r = &p.request;
  if (!lua_isnoneornil(L, 3))
    read(L, &p, 3);
  if (!r->key || !lua_isnoneornil(L, 4)) {
    r->key = luaL_checklstring(L, 4, &r->key_len);
    r->owner = luaL_optstring(L, 5, NULL);
  }
  r->wait = lua_toboolean(L, 2) && r->timeout > 0;
  if (!r->wait)
    r->timeout = -1;
  r->handoffs = p.fair ? 0 : p.handoffs;
  lua_getuservalue(L, 1);
  lua_rawgeti(L, -1, ANCHOR);
  return dlk_lua_submit(L, p.box->engine, r, lua_gettop(L));
}

/* engine:prepare(options, kind [, key, owner]). options: complete. */
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
  if (luaL_newmetatable(L, TYPE)) {
    /* Its call has the upvalues of all others. */
    for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
      lua_pushvalue(L, lua_upvalueindex(type));
    lua_pushvalue(L, -1 - DLK_LUA_LEASE);
    lua_pushcclosure(L, submit, OWN_TYPE);
    lua_setfield(L, -2, "__call");
  }
  lua_setmetatable(L, -2);
  return 1;
}
