/* One Lua API for 5.1, LuaJIT, 5.2, 5.3 and 5.4: ours have names of their own
 * and the usual names are defined to them, so that no other file asks which
 * Lua this is. */
#ifndef DLK_LUA_COMPAT_H
#define DLK_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#if LUA_VERSION_NUM < 502
void dlk_compat_setfuncs(lua_State *L, const luaL_Reg *l, int upvalues);
#define luaL_setfuncs dlk_compat_setfuncs
#define lua_rawlen lua_objlen
/* A table belongs to each userdata: its uservalue, on 5.1 its environment. */
#define lua_getuservalue(L, i) lua_getfenv((L), (i))
#define lua_setuservalue(L, i) ((void)lua_setfenv((L), (i)))
#endif

/* An integer below 2^53, in the type that prints without a decimal point. */
void dlk_compat_pushint(lua_State *L, int64_t n);

/* False where a yield would be an error: in the main thread, and below a C
 * function that cannot be yielded across. co has called C (on 5.1: a function
 * of ours, or coroutine.resume). Which C functions these are cannot be known on
 * 5.2: true below any of them. */
bool dlk_compat_can_yield(lua_State *co);

#endif
