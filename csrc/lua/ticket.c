/* Tickets as Lua sees them: poll, take, cancel. */
#include "lua/binding.h"

static struct ticket_box *new_box(lua_State *L) {
  struct ticket_box *box = lua_newuserdata(L, sizeof *box);
  box->ticket = NULL;
  luaL_getmetatable(L, DLK_TICKET_TYPE);
  lua_setmetatable(L, -2);
  return box;
}

int dlk_lua_push_done(lua_State *L) {
  new_box(L);
  return 1;
}

int dlk_lua_push_ticket(lua_State *L, struct dlk_ticket *t) {
  struct ticket_box *box = new_box(L);
  dlk_ticket_ref(t);
  box->ticket = t;
  return 1;
}

int dlk_lua_submit(lua_State *L, struct dlk_engine *e,
                   const struct dlk_request *r, int anchor) {
  struct ticket_box *box = new_box(L);
  lua_pushvalue(L, anchor);
  lua_setuservalue(L, -2);
  struct dlk_error err;
  box->ticket = dlk_engine_submit(e, r, false, &err);
  return box->ticket ? 1 : dlk_lua_failure(L, &err);
}

static struct ticket_box *box_of(lua_State *L) {
  return luaL_checkudata(L, 1, DLK_TICKET_TYPE);
}

/* ticket:poll(): is it done? */
static int ticket_poll(lua_State *L) {
  struct ticket_box *box = box_of(L);
  lua_pushboolean(L, !box->ticket || dlk_ticket_done(box->ticket));
  return 1;
}

/* ticket:cancel() */
static int ticket_cancel(lua_State *L) {
  struct ticket_box *box = box_of(L);
  if (box->ticket && !dlk_engine_forked(dlk_ticket_engine(box->ticket)))
    dlk_ticket_cancel(box->ticket, DLK_CANCELLED);
  return 0;
}

static int push_text(lua_State *L, struct dlk_ticket *t) {
  struct dlk_hold *h = dlk_ticket_request(t)->hold;
  lua_pushstring(L, dlk_hold_renews(h) ? "r" : "n");
  dlk_lua_push_value(L, dlk_ticket_result(t));
  lua_concat(L, 2);
  return 1;
}

static int push_remaining(lua_State *L, struct dlk_ticket *t) {
  struct dlk_hold *h = dlk_ticket_request(t)->hold;
  lua_pushnumber(L, (double)dlk_hold_remaining(h) / 1e9);
  return 1;
}

static int push_result(lua_State *L, struct dlk_ticket *t) {
  const struct dlk_request *r = dlk_ticket_request(t);
  if (r->task == DLK_TASK_CLOSE)
    dlk_engine_join(dlk_ticket_engine(t));
  if (r->task == DLK_TASK_REATTACH)
    return dlk_lua_push_lease(L, t, 1);
  if (r->task == DLK_TASK_OP) {
    if (r->kind == DLK_OP_ACQUIRE || r->kind == DLK_OP_ATTACH)
      return dlk_lua_push_lease(L, t, 1);
    if (r->kind == DLK_OP_DETACH)
      return push_text(L, t);
    if (r->kind == DLK_OP_EXTEND)
      return push_remaining(L, t);
    if (dlk_ticket_result(t))
      return dlk_lua_push_value(L, dlk_ticket_result(t));
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* ticket:take(): the results, as the user gets them. */
static int ticket_take(lua_State *L) {
  struct ticket_box *box = box_of(L);
  struct dlk_ticket *t = box->ticket;
  if (!t) {
    lua_pushboolean(L, 1);
    return 1;
  }
  if (!dlk_ticket_done(t))
    return luaL_error(L, "the ticket is not done");
  const struct dlk_error *err = dlk_ticket_error(t);
  if (!err)
    return push_result(L, t);
  const struct dlk_request *r = dlk_ticket_request(t);
  if (r->task == DLK_TASK_OP && r->kind == DLK_OP_DETACH)
    dlk_hold_release_later(r->hold); /* its handle has given it up */
  return dlk_lua_failure(L, err);
}

static int ticket_gc(lua_State *L) {
  struct ticket_box *box = box_of(L);
  struct dlk_ticket *t = box->ticket;
  box->ticket = NULL;
  if (t && !dlk_engine_forked(dlk_ticket_engine(t)))
    dlk_ticket_unref(t);
  return 0;
}

static const luaL_Reg methods[] = {
    {"poll", ticket_poll},
    {"cancel", ticket_cancel},
    {"take", ticket_take},
    {NULL, NULL},
};

void dlk_lua_open_ticket(lua_State *L) {
  luaL_newmetatable(L, DLK_TICKET_TYPE);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, ticket_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
