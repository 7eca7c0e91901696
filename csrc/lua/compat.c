/* Functions of newer Luas for older ones. */
#include "lua/compat.h"

#include <string.h>

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
#endif

/* LuaJIT has this one; 5.1 and 5.2 do not. */
#if LUA_VERSION_NUM < 503
int lua_isyieldable(lua_State *L) __attribute__((weak));
#endif

#if LUA_VERSION_NUM == 501
/* 5.1 cannot yield across C, and a generic for calls its iterator from C. (So
 * with a metamethod, whose frame looks like any other.) */
static bool is_below_c(lua_State *co) {
  lua_Debug frame;
  for (int level = 1; lua_getstack(co, level, &frame); level++)
    if (lua_getinfo(co, "S", &frame) && strcmp(frame.what, "C") == 0)
      return true;
  for (int level = 0; lua_getstack(co, level, &frame); level++)
    if (lua_getinfo(co, "n", &frame) && frame.name &&
        strcmp(frame.name, "(for generator)") == 0)
      return true;
  return false;
}
#endif

bool dlk_compat_can_yield(lua_State *co) {
#if LUA_VERSION_NUM < 503
  if (!lua_isyieldable) {
    bool is_main = lua_pushthread(co);
    lua_pop(co, 1);
#if LUA_VERSION_NUM == 501
    return !is_main && !is_below_c(co);
#else
    return !is_main;
#endif
  }
#endif
  return lua_isyieldable(co);
}
