/* dlock.store.postgres for Lua. */
#include "lua/binding.h"
#include "store/sql/postgres/postgres.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_postgres(lua_State *L);

int luaopen_dlock_store_postgres(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_postgres_store);
}
