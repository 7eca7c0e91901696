/* Tickets. Most live for one call, so core.finish, a ticket's last use, keeps
 * the userdata as a spare in the anchor: that saves the collector a finaliser a
 * request. */
#include "lua/binding.h"
#include "lua/direct.h"

int dlk_lua_push_done(lua_State *L) {
  dlk_lua_new_box(L, DLK_LUA_TICKET);
  return 1;
}

int dlk_lua_push_ticket(lua_State *L, struct dlk_ticket *t, int anchor) {
  struct ticket_box *box = dlk_lua_new_box(L, DLK_LUA_TICKET);
  lua_pushvalue(L, anchor);
  lua_setuservalue(L, -2);
  dlk_ticket_ref(t);
  box->ticket = t;
  return 1;
}

static struct ticket_box *take_box(lua_State *L, struct engine_box *engine,
                                   int anchor) {
  if (engine->spares > 0) {
    int place = DLK_ANCHOR_SPARES + --engine->spares;
    lua_rawgeti(L, anchor, place);
    lua_pushnil(L);
    lua_rawseti(L, anchor, place);
    return lua_touserdata(L, -1);
  }
  struct ticket_box *box = dlk_lua_new_box(L, DLK_LUA_TICKET);
  box->home = engine;
  lua_pushvalue(L, anchor);
  lua_setuservalue(L, -2);
  return box;
}

static void drop(struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  box->ticket = NULL;
  if (t && !dlk_engine_forked(dlk_ticket_engine(t)))
    dlk_ticket_unref(t);
}

int dlk_lua_submit(lua_State *L, struct dlk_engine *e,
                   const struct dlk_request *r, int anchor) {
  if (!e)
    return dlk_lua_finalised(L, anchor);
  lua_rawgeti(L, anchor, DLK_ANCHOR_ENGINE);
  struct engine_box *engine = lua_touserdata(L, -1);
  lua_pop(L, 1);
  struct ticket_box *box = take_box(L, engine, anchor);
  struct dlk_error err;
  if (engine->left && r->task != DLK_TASK_LEAVE)
    dlk_lua_is_open(engine, &err);
  else
    box->ticket = dlk_engine_submit(e, r, false, &err);
  return box->ticket ? 1 : dlk_lua_failure(L, &err);
}

static struct ticket_box *box_of(lua_State *L) {
  return dlk_lua_box(L, 1, DLK_LUA_TICKET);
}

static int ticket_poll(lua_State *L) {
  lua_pushboolean(L, dlk_lua_done(box_of(L)));
  return 1;
}

/* core.drive(ticket, seconds): is it done, and has its engine events? Runs the
 * loop here; not in a forked child, where the sockets are the parent's. */
static int core_drive(lua_State *L) {
  struct ticket_box *box = box_of(L);
  struct dlk_ticket *t = box->ticket;
  struct dlk_engine *e = t ? dlk_ticket_engine(t) : NULL;
  int64_t slice = dlk_lua_ns(L, 2);
  bool over = !e || dlk_engine_forked(e);
  lua_pushboolean(L, over || dlk_engine_drive(t, slice < 0 ? 0 : slice));
  lua_pushboolean(L, !over && dlk_engine_has_events(e));
  return 2;
}

static int ticket_cancel(lua_State *L) {
  struct ticket_box *box = box_of(L);
  if (box->ticket && !dlk_engine_forked(dlk_ticket_engine(box->ticket)))
    dlk_ticket_cancel(box->ticket, DLK_CANCELLED);
  return 0;
}

static int ticket_abandon(lua_State *L) {
  struct ticket_box *box = box_of(L);
  if (box->ticket && !dlk_engine_forked(dlk_ticket_engine(box->ticket)))
    dlk_ticket_abandon(box->ticket);
  return 0;
}

/* core.end_with(ticket, other): cancels ticket once other is done. */
static int core_end_with(lua_State *L) {
  struct ticket_box *box = box_of(L);
  struct ticket_box *other = dlk_lua_box(L, 2, DLK_LUA_TICKET);
  if (box->ticket && other->ticket)
    dlk_ticket_end_with(box->ticket, other->ticket);
  return 0;
}

static int push_result(lua_State *L, const struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  enum dlk_op_kind kind = dlk_ticket_kind(t);
  if (dlk_ticket_ends_engine(t))
    dlk_engine_join(dlk_ticket_engine(t));
  if (dlk_ticket_task(t) == DLK_TASK_OP) {
    if (kind == DLK_OP_ACQUIRE || kind == DLK_OP_ATTACH)
      return dlk_lua_push_lease(L, box, 1);
    if (kind == DLK_OP_DETACH)
      return dlk_lua_push_detached(L, t);
    if (kind == DLK_OP_EXTEND) {
      int64_t left = dlk_hold_remaining(dlk_ticket_hold(t));
      lua_pushnumber(L, (double)left / 1e9);
      return 1;
    }
    if (dlk_ticket_result(t))
      return dlk_lua_push_value(L, dlk_ticket_result(t));
  }
  lua_pushboolean(L, 1);
  return 1;
}

static int push_results(lua_State *L, const struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  if (!t) {
    lua_pushboolean(L, 1);
    return 1;
  }
  struct dlk_error forked;
  if (!dlk_engine_is_ours(dlk_ticket_engine(t), &forked))
    return dlk_lua_failure(L, &forked);
  if (!dlk_ticket_done(t))
    return luaL_error(L, "the ticket is not done");
  const struct dlk_error *err = dlk_ticket_error(t);
  return err ? dlk_lua_failure(L, err) : push_result(L, box);
}

/* After the last call that may raise. False: the lease was released. */
static bool took(const struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  return !t || !dlk_ticket_detaches(t) || dlk_ticket_take_text(t);
}

static int ticket_take(lua_State *L) {
  struct ticket_box *box = box_of(L);
  int n = push_results(L, box);
  return took(box) ? n : dlk_lua_given_back(L);
}

/* core.finish(ticket): the same by its only owner. Nothing raises behind
 * `keep`. */
static int core_finish(lua_State *L) {
  struct ticket_box *box = box_of(L);
  int n = push_results(L, box);
  if (!box->ticket)
    return n; /* it has no anchor */
  struct engine_box *home = box->home;
  bool kept = home && home->spares < DLK_LUA_SPARES;
  if (kept) {
    lua_getuservalue(L, 1);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, DLK_ANCHOR_SPARES + home->spares);
    lua_pop(L, 1);
  }
  bool good = took(box); /* nothing raises from here on */
  drop(box);
  if (kept)
    home->spares++;
  return good ? n : dlk_lua_given_back(L);
}

static int ticket_gc(lua_State *L) {
  drop(dlk_lua_last_box(L, DLK_LUA_TICKET));
  return 0;
}

static const luaL_Reg methods[] = {
    {"poll", ticket_poll},
    {"cancel", ticket_cancel},
    {"abandon", ticket_abandon},
    {"take", ticket_take},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"drive", core_drive},
    {"finish", core_finish},
    {"end_with", core_end_with},
    {NULL, NULL},
};

void dlk_lua_open_ticket(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", ticket_gc}, {NULL, NULL}};
  dlk_lua_setfuncs(L, functions);
  luaL_getmetatable(L, DLK_TICKET_TYPE);
  dlk_lua_setfuncs(L, meta);
  lua_newtable(L);
  dlk_lua_setfuncs(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
