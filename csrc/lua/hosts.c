/* For the hosts of event loops; none waits. */
#include "lua/direct.h"

static int engine_resident(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  if (e && !dlk_engine_forked(e))
    dlk_engine_resident(e);
  return 0;
}

/* engine:wakeup(): a descriptor, readable when tickets got done. */
static int engine_wakeup(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  int fd = !e || dlk_engine_forked(e) ? -1 : dlk_engine_wakeup(e);
  if (fd < 0)
    return 0;
  lua_pushinteger(L, fd);
  return 1;
}

/* engine:keep_wakeup(polled): it stays open when the engine ends. */
static int engine_keep_wakeup(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  if (e && !dlk_engine_forked(e))
    dlk_engine_keep_wakeup(e, lua_toboolean(L, 2));
  return 0;
}

/* engine:closed(): it takes no request; so in a forked child. */
static int engine_closed(lua_State *L) {
  lua_pushboolean(L, dlk_lua_closed(dlk_lua_engine(L)));
  return 1;
}

static int engine_has_events(lua_State *L) {
  const struct dlk_engine *e = dlk_lua_engine(L);
  lua_pushboolean(L, e && dlk_engine_has_events(e));
  return 1;
}

/* engine:completed(t): puts the numbers of watched tickets that got done into
 * t; returns how many, and whether there are more, events, and an end. */
static int engine_completed(lua_State *L) {
  struct dlk_lua_completed found;
  luaL_checktype(L, 2, LUA_TTABLE);
  dlk_lua_completed(dlk_lua_engine(L), &found);
  for (int i = 0; i < found.count; i++) {
    dlk_compat_pushint(L, (int64_t)found.numbers[i]);
    lua_rawseti(L, 2, i + 1);
  }
  lua_pushinteger(L, found.count);
  lua_pushboolean(L, found.more);
  lua_pushboolean(L, found.events);
  lua_pushboolean(L, found.closed);
  return 4;
}

/* engine:serve(): the path of a Unix socket to connect to. */
static int engine_serve(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  struct dlk_error err;
  lua_getuservalue(L, 1);
  if (!e)
    return dlk_lua_finalised(L, lua_gettop(L));
  const char *path = dlk_engine_serve(e, &err);
  if (!path)
    return dlk_lua_failure(L, &err);
  lua_pushstring(L, path);
  return 1;
}

/* engine:accept(): true: this process connected. */
static int engine_accept(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  lua_pushboolean(L, e && dlk_engine_accept(e));
  return 1;
}

static int engine_hang_up(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  if (e && !dlk_engine_forked(e))
    dlk_engine_hang_up(e);
  return 0;
}

/* ticket:watch([drains]): its number for engine:completed, or nil: it is done.
 * drains: tickets that the request ended at once are not signalled; the second
 * result tells of such. */
static int ticket_watch(lua_State *L) {
  struct ticket_box *box = dlk_lua_box(L, 1, DLK_LUA_TICKET);
  struct dlk_lua_watched w;
  dlk_lua_watch(box, lua_toboolean(L, 2), &w);
  if (w.number > 0)
    dlk_compat_pushint(L, (int64_t)w.number);
  else
    lua_pushnil(L);
  lua_pushboolean(L, w.others);
  return 2;
}

/* ticket:closes(): its take joins the engine. */
static int ticket_closes(lua_State *L) {
  struct ticket_box *box = dlk_lua_box(L, 1, DLK_LUA_TICKET);
  lua_pushboolean(L, box->ticket && dlk_ticket_ends_engine(box->ticket));
  return 1;
}

static const luaL_Reg of_engine[] = {
    {"resident", engine_resident},       {"wakeup", engine_wakeup},
    {"closed", engine_closed},           {"has_events", engine_has_events},
    {"completed", engine_completed},     {"serve", engine_serve},
    {"accept", engine_accept},           {"hang_up", engine_hang_up},
    {"keep_wakeup", engine_keep_wakeup}, {NULL, NULL},
};

static const luaL_Reg of_ticket[] = {
    {"watch", ticket_watch},
    {"closes", ticket_closes},
    {NULL, NULL},
};

void dlk_lua_open_hosts(lua_State *L) {
  dlk_lua_add_methods(L, DLK_ENGINE_TYPE, of_engine);
  dlk_lua_add_methods(L, DLK_TICKET_TYPE, of_ticket);
  dlk_lua_open_direct(L);
}
