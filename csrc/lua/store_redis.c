/* dlock.store.redis for Lua. */
#include "lua/binding.h"
#include "store/redis/redis.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_redis(lua_State *L);

int luaopen_dlock_store_redis(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_redis_store);
}
