/* The module dlock.core: what C gives to Lua. Nothing in it blocks but
 * core.drive, which is bounded; all waiting is Lua code. */
#include <string.h>
#include <unistd.h>

#include "core/mode.h"
#include "lua/binding.h"

__attribute__((visibility("default"))) int luaopen_dlock_core(lua_State *L);

int dlk_lua_failure(lua_State *L, const struct dlk_error *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  lua_pushstring(L, dlk_code_name(err->code));
  return 3;
}

static void push_children(lua_State *L, const struct dlk_value *v) {
  int n = 0;
  lua_newtable(L);
  for (v = v->u.children.first; v; v = v->next) {
    dlk_lua_push_value(L, v);
    if (v->name)
      lua_setfield(L, -2, v->name);
    else
      lua_rawseti(L, -2, ++n);
  }
}

static int push_tuple(lua_State *L, const struct dlk_value *v) {
  int n = 0;
  for (v = v->u.children.first; v; v = v->next) {
    luaL_checkstack(L, 4, "too many results");
    n += dlk_lua_push_value(L, v);
  }
  return n;
}

int dlk_lua_push_value(lua_State *L, const struct dlk_value *v) {
  luaL_checkstack(L, 4, "results nested too deeply");
  switch (v->kind) {
  case DLK_VALUE_TUPLE:
    return push_tuple(L, v);
  case DLK_VALUE_LIST:
  case DLK_VALUE_MAP:
    push_children(L, v);
    break;
  case DLK_VALUE_BOOL:
    lua_pushboolean(L, v->u.boolean);
    break;
  case DLK_VALUE_INT:
    dlk_compat_pushint(L, v->u.integer);
    break;
  case DLK_VALUE_NUMBER:
    lua_pushnumber(L, v->u.number);
    break;
  case DLK_VALUE_STRING:
    lua_pushlstring(L, v->u.string.data, v->u.string.len);
    break;
  case DLK_VALUE_NIL:
    lua_pushnil(L);
    break;
  }
  return 1;
}

int64_t dlk_lua_ns(lua_State *L, int index) {
  if (lua_isnoneornil(L, index))
    return -1;
  double s = luaL_checknumber(L, index);
  luaL_argcheck(L, s >= 0, index, "seconds must not be negative or NaN");
  return s >= 9e9 ? DLK_FOREVER : (int64_t)(s * 1e9);
}

const char *const dlk_lua_type_names[] = {
    [DLK_LUA_ENGINE] = DLK_ENGINE_TYPE,
    [DLK_LUA_TICKET] = DLK_TICKET_TYPE,
    [DLK_LUA_LEASE] = DLK_LEASE_TYPE,
};

static const size_t sizes[] = {
    [DLK_LUA_ENGINE] = sizeof(struct engine_box),
    [DLK_LUA_TICKET] = sizeof(struct ticket_box),
    [DLK_LUA_LEASE] = sizeof(struct lease_box),
};

void *dlk_lua_find_box(lua_State *L, int index, enum dlk_lua_type type) {
  struct dlk_lua_tag *box = lua_touserdata(L, index);
  if (!box)
    return NULL;
  if (lua_rawlen(L, index) == sizes[type] &&
      box->name == &dlk_lua_type_names[type])
    return box;
  if (!lua_getmetatable(L, index))
    return NULL;
  int same = lua_rawequal(L, -1, lua_upvalueindex((int)type));
  lua_pop(L, 1);
  return same ? box : NULL;
}

void *dlk_lua_box(lua_State *L, int index, enum dlk_lua_type type) {
  void *box = dlk_lua_find_box(L, index, type);
  return box ? box : luaL_checkudata(L, index, dlk_lua_type_names[type]);
}

void *dlk_lua_last_box(lua_State *L, enum dlk_lua_type type) {
  struct dlk_lua_tag *box = dlk_lua_box(L, 1, type);
  box->name = NULL;
  return box;
}

int dlk_lua_no_self(lua_State *L, const char *object, const char *call,
                    int level) {
  luaL_where(L, level);
  lua_pushfstring(L, "call it with a colon, as in %s:%s()", object, call);
  lua_concat(L, 2);
  return lua_error(L);
}

/* core.no_self(object, call, level) */
static int core_no_self(lua_State *L) {
  return dlk_lua_no_self(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2),
                         (int)luaL_checknumber(L, 3));
}

void *dlk_lua_new_box(lua_State *L, enum dlk_lua_type type) {
  struct dlk_lua_tag *box = lua_newuserdata(L, sizes[type]);
  memset(box, 0, sizes[type]);
  box->name = &dlk_lua_type_names[type];
  lua_pushvalue(L, lua_upvalueindex((int)type));
  lua_setmetatable(L, -2);
  return box;
}

void dlk_lua_setfuncs(lua_State *L, const luaL_Reg *list) {
  for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
    luaL_getmetatable(L, dlk_lua_type_names[type]);
  luaL_setfuncs(L, list, DLK_LUA_LEASE);
}

static int core_now(lua_State *L) {
  lua_pushnumber(L, (double)dlk_clock_now() / 1e9);
  return 1;
}

static int core_euid(lua_State *L) {
  dlk_compat_pushint(L, (int64_t)geteuid());
  return 1;
}

static int core_pid(lua_State *L) {
  dlk_compat_pushint(L, (int64_t)getpid());
  return 1;
}

/* core.mode(units, cap): the name of what asks for these. */
static int core_mode(lua_State *L) {
  lua_pushstring(L, dlk_mode_name(dlk_lua_count(L, 1), dlk_lua_count(L, 2)));
  return 1;
}

static const luaL_Reg functions[] = {
    {"mode", core_mode}, {"pid", core_pid},         {"now", core_now},
    {"euid", core_euid}, {"no_self", core_no_self}, {NULL, NULL},
};

static void push_codes(lua_State *L) {
  lua_createtable(L, DLK_CODES - 1, 0);
  for (int i = 1; i < DLK_CODES; i++) {
    lua_pushstring(L, dlk_code_name((enum dlk_code)i));
    lua_rawseti(L, -2, i);
  }
}

int luaopen_dlock_core(lua_State *L) {
  for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
    luaL_newmetatable(L, dlk_lua_type_names[type]);
  lua_settop(L, 0);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  push_codes(L);
  lua_setfield(L, -2, "codes");
  dlk_lua_open_engine(L);
  dlk_lua_open_ticket(L);
  dlk_lua_open_lease(L);
  dlk_lua_open_child(L);
  dlk_lua_open_events(L);
  return 1;
}
