/* The module dlock.core. Only core.drive and core.password_file block, in
 * bounded time. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/digits.h"
#include "core/mode.h"
#include "core/password.h"
#include "core/quiet.h"
#include "core/status.h"
#include "engine/random.h"
#include "lua/binding.h"

__attribute__((visibility("default"))) int luaopen_dlock_core(lua_State *L);

static int core_no_self(lua_State *L) {
  return dlk_lua_no_self(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2),
                         (int)luaL_checknumber(L, 3));
}

static int core_now(lua_State *L) {
  lua_pushnumber(L, (double)dlk_clock_now() / 1e9);
  return 1;
}

static int core_euid(lua_State *L) {
  dlk_compat_pushint(L, (int64_t)geteuid());
  return 1;
}

static int core_pid(lua_State *L) {
  dlk_compat_pushint(L, (int64_t)getpid());
  return 1;
}

/* core.token(): 32 digits that nobody else draws. */
static int core_token(lua_State *L) {
  struct dlk_random random = {.left = 0};
  unsigned char bytes[16];
  char text[2 * sizeof bytes];
  dlk_random_take(&random, bytes, sizeof bytes);
  (void)dlk_hex(text, bytes, sizeof bytes);
  lua_pushlstring(L, text, sizeof text);
  return 1;
}

/* core.write(fn, ...): calls fn, which writes a file of the program's; true: it
 * did not raise. No signal of the write ends the program. */
static int core_write(lua_State *L) {
  struct dlk_quiet quiet;
  luaL_checkany(L, 1);
  dlk_quiet_begin(&quiet);
  int failed = lua_pcall(L, lua_gettop(L) - 1, 0, 0);
  dlk_quiet_end(&quiet, true);
  lua_pushboolean(L, !failed);
  return 1;
}

static int core_mode(lua_State *L) {
  lua_pushstring(L, dlk_mode_name(dlk_lua_count(L, 1), dlk_lua_count(L, 2)));
  return 1;
}

/* core.password_file(path, seconds): the password, or nil and why not. */
static int core_password_file(lua_State *L) {
  char text[DLK_PASSWORD_READ], reason[DLK_REASON_MAX];
  const char *path = luaL_checkstring(L, 1), *why = "nothing came in time";
  int64_t patience = dlk_lua_ns(L, 2);
  size_t len = 0, line = 0;
  int problem = dlk_password_read(path, patience, text, &len);
  if (problem == 0)
    why = dlk_password_line(text, len, &line);
  else if (problem != ETIMEDOUT)
    why = dlk_reason(reason, problem);
  if (why)
    lua_pushnil(L);
  lua_pushlstring(L, why ? why : text, why ? strlen(why) : line);
  explicit_bzero(text, sizeof text);
  return why ? 2 : 1;
}

/* core.can_yield([co]): this coroutine, or one that resumed another. */
static int core_can_yield(lua_State *L) {
  lua_State *co = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  lua_pushboolean(L, dlk_compat_can_yield(co));
  return 1;
}

static const luaL_Reg functions[] = {
    {"mode", core_mode},
    {"pid", core_pid},
    {"now", core_now},
    {"token", core_token},
    {"euid", core_euid},
    {"no_self", core_no_self},
    {"write", core_write},
    {"password_file", core_password_file},
    {"can_yield", core_can_yield},
    {NULL, NULL},
};

int luaopen_dlock_core(lua_State *L) {
  for (int type = DLK_LUA_ENGINE; type <= DLK_LUA_LEASE; type++)
    luaL_newmetatable(L, dlk_lua_type_names[type]);
  lua_settop(L, 0);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  dlk_engines_close_at_exit();
  dlk_lua_open_closing(L);
  dlk_lua_open_engine(L);
  dlk_lua_open_ticket(L);
  dlk_lua_open_lease(L);
  dlk_lua_open_child(L);
  dlk_lua_open_signals(L);
  dlk_lua_open_stats(L);
  dlk_lua_open_hosts(L);
  return 1;
}
