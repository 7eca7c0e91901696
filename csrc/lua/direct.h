/* Operations without a lua_State, for Lua functions and for LuaJIT's FFI. */
#ifndef DLK_LUA_DIRECT_H
#define DLK_LUA_DIRECT_H

#include "lua/binding.h"

/* For the FFI too: direct.c gives it these macros as text. */

/* number: 0: the ticket is done. others: others got done with it. leaves: a
 * scope may have something to end. */
#define DLK_LUA_WATCHED                                                        \
  double number;                                                               \
  bool others, leaves;

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

/* drains: the caller asks for the completed ones if there are others. */
void dlk_lua_watch(struct ticket_box *box, bool drains,
                   struct dlk_lua_watched *w);
bool dlk_lua_done(const struct ticket_box *box);
/* e: may be NULL, here and below. */
void dlk_lua_completed(struct dlk_engine *e, struct dlk_lua_completed *found);
bool dlk_lua_closed(struct dlk_engine *e);

#endif
