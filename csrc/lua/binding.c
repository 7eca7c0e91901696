/* What the binding's files stand on; it calls none of them. */
#include "lua/binding.h"

#include <string.h>

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
  return dlk_from_seconds(s);
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

uint32_t dlk_lua_count(lua_State *L, int index) {
  double n = luaL_optnumber(L, index, 0);
  luaL_argcheck(L, n >= 0 && n <= 4294967295.0, index, "not a count");
  return (uint32_t)n;
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

void dlk_lua_add_methods(lua_State *L, const char *type, const luaL_Reg *list) {
  luaL_getmetatable(L, type);
  lua_getfield(L, -1, "__index");
  dlk_lua_setfuncs(L, list);
  lua_pop(L, 2);
}

struct dlk_engine *dlk_lua_engine(lua_State *L) {
  const struct engine_box *box = dlk_lua_box(L, 1, DLK_LUA_ENGINE);
  return box->engine;
}

bool dlk_lua_is_open(const struct engine_box *box, struct dlk_error *err) {
  const struct dlk_engine *e = box->engine;
  if (e && !box->left)
    return dlk_engine_is_open(e, err);
  dlk_error_set(err, DLK_CLOSED, "the store '%s' was closed",
                e ? dlk_engine_shown(e) : "");
  return false;
}

int dlk_lua_finalised(lua_State *L, int anchor) {
  struct dlk_error err;
  lua_rawgeti(L, anchor, DLK_ANCHOR_SHOWN);
  dlk_error_set(&err, DLK_CLOSED, "the store '%s' was closed",
                lua_tostring(L, -1));
  return dlk_lua_failure(L, &err);
}

int dlk_lua_given_back(lua_State *L) {
  static const struct dlk_error err = {
      DLK_CANCELLED, "cancelled: the request ended that asked for this lease,"
                     " so it was given back"};
  return dlk_lua_failure(L, &err);
}

int dlk_lua_push_lease(lua_State *L, const struct ticket_box *from, int index) {
  struct lease_box *box = dlk_lua_new_box(L, DLK_LUA_LEASE);
  struct dlk_ticket *t = from->ticket;
  lua_getuservalue(L, index);
  lua_setuservalue(L, -2);
  box->owned = dlk_ticket_owned(t);
  box->hold = dlk_ticket_take(t);
  if (!box->hold)
    return dlk_lua_given_back(L);
  box->handle = (struct dlk_handle){.hold = box->hold};
  /* Callbacks may have closed the store since the grant. */
  struct dlk_error closed;
  if (!dlk_lua_is_open(from->home, &closed))
    return dlk_lua_failure(L, &closed);
  return 1;
}

/* A table with weak keys can still give a finalised handle. */
struct lease_box *dlk_lua_check_lease(lua_State *L, int index) {
  struct lease_box *box = dlk_lua_box(L, index, DLK_LUA_LEASE);
  luaL_argcheck(L, box->hold != NULL, index, "the lease was collected");
  return box;
}
