/* A Lua state that closes: no engine outlives it.
 *
 * An engine is closed by its finaliser. But what a finaliser of the program's
 * makes while the state closes is itself finalised by LuaJIT only, so a store
 * that is opened there would keep its renewal thread, and its leases, until the
 * process ends. Therefore a state has one userdata that is older than all of
 * its engines. Finalisers run in the order in which objects were made, the
 * latest first; so this one's is behind theirs, and behind those of all
 * objects that the program made since it loaded us. It closes the engines that
 * are left, and from then on none is made. The engines' own userdata are all
 * there still: a state frees what it has when the last finaliser has run. */
#include "lua/binding.h"

#define LAST "dlock.last"
#define CLOSE_ON_GC (200 * DLK_MS)

struct last {
  struct dlk_list engines; /* engine_box.link */
  bool over;
};

static struct last *last_of(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LAST);
  struct last *last = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return last;
}

bool dlk_lua_closing(lua_State *L) {
  return last_of(L)->over;
}

void dlk_lua_enlist(lua_State *L, struct engine_box *box) {
  dlk_list_append(&last_of(L)->engines, &box->link);
}

void dlk_lua_end_engine(struct dlk_engine *e) {
  if (!dlk_engine_used(e) || dlk_engine_joined(e))
    return;
  struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = CLOSE_ON_GC};
  struct dlk_ticket *t = dlk_engine_submit(e, &r, false, NULL);
  if (t) {
    dlk_engine_drive(t, DLK_SEC); /* it ends by itself sooner */
    dlk_ticket_unref(t);
  }
  dlk_engine_join(e);
}

static int last_gc(lua_State *L) {
  struct last *last = lua_touserdata(L, 1);
  last->over = true;
  while (!dlk_list_empty(&last->engines)) {
    struct engine_box *box =
        DLK_CONTAINER(last->engines.next, struct engine_box, link);
    dlk_list_remove(&box->link);
    if (!dlk_engine_forked(box->engine))
      dlk_lua_end_engine(box->engine);
  }
  return 0;
}

/* Once for a state, whoever loads the library again. */
void dlk_lua_open_closing(lua_State *L) {
  if (last_of(L))
    return;
  struct last *last = lua_newuserdata(L, sizeof *last);
  dlk_list_init(&last->engines);
  last->over = false;
  lua_newtable(L);
  lua_pushcfunction(L, last_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, LAST);
}
