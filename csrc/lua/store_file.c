/* dlock.store.file for Lua. */
#include "lua/binding.h"
#include "store/file/file.h"

__attribute__((visibility("default"))) int
luaopen_dlock_store_file(lua_State *L);

int luaopen_dlock_store_file(lua_State *L) {
  return dlk_lua_push_store(L, &dlk_file_store);
}
