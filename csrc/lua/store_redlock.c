#include "lua/binding.h"
#include "store/redlock/redlock.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_redlock(lua_State *L);

int luaopen_dlock_store_redlock(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_redlock_store);
}
