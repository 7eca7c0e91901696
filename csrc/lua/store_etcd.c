/* dlock.store.etcd for Lua. */
#include "lua/binding.h"
#include "store/session/etcd/etcd.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_etcd(lua_State *L);

int luaopen_dlock_store_etcd(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_etcd_store);
}
