/* dlock.store.zookeeper for Lua. */
#include "lua/binding.h"
#include "store/zookeeper/zookeeper.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_zookeeper(lua_State *L);

int luaopen_dlock_store_zookeeper(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_zookeeper_store);
}
