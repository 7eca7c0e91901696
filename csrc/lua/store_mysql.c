/* dlock.store.mysql for Lua. */
#include "lua/binding.h"
#include "store/sql/mysql/mysql.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_mysql(lua_State *L);

int luaopen_dlock_store_mysql(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_mysql_store);
}
