/* dlock.store.consul for Lua. */
#include "lua/binding.h"
#include "store/session/consul/consul.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_consul(lua_State *L);

int luaopen_dlock_store_consul(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_consul_store);
}
