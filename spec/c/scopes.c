/* Scopes of requests on every Lua: calls the addresses of core.direct, as
 * LuaJIT's FFI does in OpenResty. */
#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

struct cleanup {
  void (*handler)(void *);
  void *data;
};

static void take(lua_State *L, int index, void *fn) {
  void *address = lua_touserdata(L, index);
  memcpy(fn, &address, sizeof address);
}

/* begin(direct.begin, scopes, n): the scope of a request at that address, and
 * what its clean-up calls. */
static int begin(lua_State *L) {
  void *(*fn)(void *, void *, void *);
  struct cleanup at_end;
  take(L, 1, (void *)&fn);
  lua_pushlightuserdata(L,
                        fn(lua_touserdata(L, 2),
                           (void *)(intptr_t)luaL_checkinteger(L, 3), &at_end));
  lua_pushlightuserdata(L, (void *)at_end.handler);
  return 2;
}

/* own(direct.own or own_lease, scope, ticket or lease) */
static int own(lua_State *L) {
  void (*fn)(void *, void *);
  take(L, 1, (void *)&fn);
  fn(lua_touserdata(L, 2), lua_touserdata(L, 3));
  return 0;
}

static int finish(lua_State *L) {
  void (*fn)(void *);
  take(L, 1, (void *)&fn);
  fn(lua_touserdata(L, 2));
  return 0;
}

__attribute__((visibility("default"))) int luaopen_spec_scopes(lua_State *L);

int luaopen_spec_scopes(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, begin);
  lua_setfield(L, -2, "begin");
  lua_pushcfunction(L, own);
  lua_setfield(L, -2, "own");
  lua_pushcfunction(L, finish);
  lua_setfield(L, -2, "finish");
  return 1;
}
