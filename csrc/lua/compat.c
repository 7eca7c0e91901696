/* What 5.1 and LuaJIT lack. */
#include "lua/compat.h"

void dlk_compat_pushint(lua_State *L, int64_t n) {
#if LUA_VERSION_NUM >= 503
  lua_pushinteger(L, (lua_Integer)n);
#else
  lua_pushnumber(L, (lua_Number)n);
#endif
}

#if LUA_VERSION_NUM < 502
void dlk_compat_setfuncs(lua_State *L, const luaL_Reg *l, int upvalues) {
  luaL_checkstack(L, upvalues + 1, "too many upvalues");
  for (; l->name; l++) {
    for (int i = 0; i < upvalues; i++)
      lua_pushvalue(L, -upvalues);
    lua_pushcclosure(L, l->func, upvalues);
    lua_setfield(L, -(upvalues + 2), l->name);
  }
  lua_pop(L, upvalues);
}

void *dlk_compat_testudata(lua_State *L, int index, const char *name) {
  void *p = lua_touserdata(L, index);
  if (!p || !lua_getmetatable(L, index))
    return NULL;
  luaL_getmetatable(L, name);
  int same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? p : NULL;
}
#endif
