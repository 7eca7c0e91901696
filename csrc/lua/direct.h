/* Operations without a lua_State, which the functions for Lua and those for
 * LuaJIT's FFI share. The FFI gives a userdata as the address of its box. */
#ifndef DLK_LUA_DIRECT_H
#define DLK_LUA_DIRECT_H

#include "lua/binding.h"

/* lua/dlock/host/direct.lua declares these two structs in the same words. */

struct dlk_lua_watched {
  double number; /* 0: the ticket is done */
  bool others;   /* got done by it: ask for what is completed */
  bool leaves;   /* there may be something for a scope to end */
};

struct dlk_lua_told {
  double numbers[256];
  int count;
  bool more, news, closed;
};

/* drains: the caller will ask for what is completed if there are others. */
void dlk_lua_watch(struct ticket_box *box, bool drains,
                   struct dlk_lua_watched *w);
bool dlk_lua_done(const struct ticket_box *box);
/* The ticket, and what it gives, end with the scope. */
void dlk_lua_own(struct dlk_scope *scope, const struct ticket_box *box);
/* The handle ends with the scope. */
void dlk_lua_own_lease(struct dlk_scope *scope, struct lease_box *box);
void dlk_lua_completed(struct dlk_engine *e, struct dlk_lua_told *told);
bool dlk_lua_closed(struct dlk_engine *e);

#endif
