/* Acquires, as every kind of lock makes them: prepared once, submitted often.
 *
 * A prepared acquire is a function. It keeps a request that was filled in from
 * the options of a store or a lock, and from what its kind asks of the queue;
 * each call copies that and puts the options of this call over it. So options
 * have one list of names here, defaults stand in lua/dlock/options.lua alone,
 * and a call without options of its own reads none. What is read here was
 * checked by options.lua before. */
#include <string.h>

#include "lua/binding.h"

/* as_it_is: the request of a call that waits and says nothing else. handoffs:
 * what a request gets unless waiters are served in order. */
struct prepared {
  struct dlk_request request, as_it_is;
  bool fair;
  uint32_t handoffs;
};

/* Upvalues behind those of all functions: the engine, its anchor, the struct in
 * a userdata, and what owns its strings. */
enum { ENGINE = DLK_LUA_LEASE + 1, ANCHOR, PREPARED, KIND, KEY, OWNER };

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
  if (!lua_isnoneornil(L, 2))
    read(L, p, 2);
  if (!r->key || !lua_isnoneornil(L, 3)) {
    r->key = luaL_checklstring(L, 3, &r->key_len);
    r->owner = luaL_optstring(L, 4, NULL);
  }
  return decide(p, lua_toboolean(L, 1));
}

/* acquire(wait [, options [, key, owner]]): its ticket. wait false: one try. A
 * key goes with its owner (nil: the engine's name) and stands for the prepared
 * ones. */
static int submit(lua_State *L) {
  const struct engine_box *box = lua_touserdata(L, lua_upvalueindex(ENGINE));
  const struct prepared *prepared =
      lua_touserdata(L, lua_upvalueindex(PREPARED));
  const struct dlk_request *r = &prepared->as_it_is;
  struct prepared copy;
  luaL_argcheck(L, box->engine != NULL, 1, "the engine was collected");
  if (!r->key || lua_gettop(L) > 1 || !lua_toboolean(L, 1)) {
    copy = *prepared;
    r = changed(L, &copy);
  }
  return dlk_lua_submit(L, box->engine, r, lua_upvalueindex(ANCHOR));
}

/* engine:prepare(options, kind [, key, owner]): such a function. options has
 * every option that a lock falls back on; kind: units, cap, value. */
int dlk_lua_prepare(lua_State *L) {
  struct prepared p = {.request = {.kind = DLK_OP_ACQUIRE}};
  dlk_lua_check_engine(L);
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
  for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
    lua_pushvalue(L, lua_upvalueindex(type));
  lua_pushvalue(L, 1);
  lua_getuservalue(L, 1);
  *(struct prepared *)lua_newuserdata(L, sizeof p) = p;
  for (int index = 3; index <= 5; index++) /* kind, key, owner */
    lua_pushvalue(L, index);
  lua_pushcclosure(L, submit, OWNER);
  return 1;
}
