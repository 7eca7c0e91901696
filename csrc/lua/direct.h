/* Operations without a lua_State, which the functions for Lua and those for
 * LuaJIT's FFI share. The FFI gives a userdata as the address of its box. */
#ifndef DLK_LUA_DIRECT_H
#define DLK_LUA_DIRECT_H

#include "lua/binding.h"

/* Two structs that the FFI reads. Their fields are macros, because direct.c
 * gives the same words to the FFI as text, so that neither can differ. */

/* number: 0 when the ticket is done. others: some got done by it, so ask for
 * what is completed. leaves: there may be something for a scope to end. */
#define DLK_LUA_WATCHED                                                        \
  double number;                                                               \
  bool others, leaves;

/* events: the engine has some for Lua. */
#define DLK_LUA_COMPLETED                                                      \
  double numbers[256];                                                         \
  int count;                                                                   \
  bool more, events, closed;

struct dlk_lua_watched {
  DLK_LUA_WATCHED
};
struct dlk_lua_completed {
  DLK_LUA_COMPLETED
};

/* drains: the caller will ask for what is completed if there are others. */
void dlk_lua_watch(struct ticket_box *box, bool drains,
                   struct dlk_lua_watched *w);
bool dlk_lua_done(const struct ticket_box *box);
/* The ticket, and what it gives, end with the scope. */
void dlk_lua_own(struct dlk_scope *scope, const struct ticket_box *box);
/* The handle ends with the scope. */
void dlk_lua_own_lease(struct dlk_scope *scope, struct lease_box *box);
/* e: NULL as dlk_lua_engine gives it; so for dlk_lua_closed. */
void dlk_lua_completed(struct dlk_engine *e, struct dlk_lua_completed *found);
bool dlk_lua_closed(struct dlk_engine *e);

#endif
