/* A lease userdata is one handle on a hold, which ends with its last handle.
 * Methods that wait are Lua functions in core.lease_methods.
 *
 * The uservalue is the engine's anchor, until the slot is asked for: then a
 * table of its own, {[DLK_ANCHOR_OF_SLOT] = anchor}, for callbacks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mode.h"
#include "lua/binding.h"

static bool in_child(const struct lease_box *box) {
  return dlk_engine_forked(dlk_hold_engine(box->hold));
}

/* Also by the scope that owned it. */
static bool is_given_up(const struct lease_box *box) {
  return box->released || box->detached || !box->hold ||
         dlk_handle_given_up(&box->handle);
}

static bool over(const struct lease_box *box) {
  return is_given_up(box) || in_child(box);
}

/* For methods that users call directly. */
static struct lease_box *self_of(lua_State *L, const char *call) {
  struct lease_box *box = dlk_lua_find_box(L, 1, DLK_LUA_LEASE);
  if (!box)
    dlk_lua_no_self(L, "lease", call, 1);
  return box;
}

static int core_held(lua_State *L) {
  struct lease_box *box = self_of(L, "held");
  lua_pushboolean(L, !over(box) && dlk_hold_remaining(box->hold) > 0);
  return 1;
}

static int core_remaining(lua_State *L) {
  struct lease_box *box = self_of(L, "remaining");
  int64_t left = over(box) ? 0 : dlk_hold_remaining(box->hold);
  lua_pushnumber(L, left == DLK_FOREVER ? HUGE_VAL : (double)left / 1e9);
  return 1;
}

static int core_given_up(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  lua_pushboolean(L, is_given_up(box));
  return 1;
}

/* core.lost(lease): why its hold ended without being given up; nil. */
static int core_lost(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  lua_pushstring(L, !in_child(box) && dlk_hold_is_lost(box->hold)
                        ? dlk_hold_why(box->hold)
                        : NULL);
  return 1;
}

/* core.owned(lease): a scope ends it, not the collector. */
static int core_owned(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  lua_pushboolean(L, box->owned);
  return 1;
}

/* For a lease that is not held. */
static const char *ended_how(const struct lease_box *box) {
  if (box->parted)
    return "detached";
  bool lost = dlk_hold_is_lost(box->hold);
  if (box->lost || (box->release && lost))
    return "lost"; /* said its release */
  bool given =
      is_given_up(box) ? !(box->detached && lost) : !in_child(box) && !lost;
  return given ? "released" : "lost";
}

/* core.ended_how(lease): "released", "detached", "lost", or nil. */
static int core_ended_how(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  if (!over(box) && dlk_hold_remaining(box->hold) > 0)
    return 0;
  lua_pushstring(L, ended_how(box));
  return 1;
}

static int core_revoked(lua_State *L) {
  self_of(L, "revoked");
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  lua_pushboolean(L, dlk_hold_revoked(box->hold));
  return 1;
}

/* It names the hold in engine:events(). */
static int core_id(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  dlk_compat_pushint(L, (int64_t)dlk_hold_id(box->hold));
  return 1;
}

static void push_anchor(lua_State *L, int index) {
  lua_getuservalue(L, index);
  lua_rawgeti(L, -1, DLK_ANCHOR_OF_SLOT);
  if (lua_isnil(L, -1))
    lua_pop(L, 1);
  else
    lua_remove(L, -2);
}

static int core_share(lua_State *L) {
  struct lease_box *from = dlk_lua_check_lease(L, 1);
  luaL_argcheck(L, !over(from), 1, "the lease is not held");
  struct lease_box *box = dlk_lua_new_box(L, DLK_LUA_LEASE);
  push_anchor(L, 1); /* each handle has a slot of its own */
  lua_setuservalue(L, -2);
  if (!dlk_hold_share(from->hold, &box->handle))
    return luaL_error(L, "out of memory");
  box->hold = from->hold;
  return 1;
}

/* core.give(lease): a provisional lease gets its owner. */
static int core_give(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  dlk_hold_give(box->hold);
  return 0;
}

/* core.take_back(lease): gives up min_hold if no other handle holds it. */
static int core_take_back(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  if (!over(box) && dlk_hold_handles(box->hold) == 1)
    dlk_hold_take_back(box->hold);
  return 0;
}

/* Ends the handle without waiting. After the store's close only its release
 * tells its end. */
static void let_go(struct lease_box *box) {
  struct dlk_error closed;
  if (over(box) || !dlk_engine_is_open(dlk_hold_engine(box->hold), &closed))
    return;
  box->released = true;
  box->lost = dlk_hold_is_lost(box->hold);
  if (dlk_handle_give_up(&box->handle))
    dlk_hold_release_later(box->hold);
}

static int core_release_later(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  struct dlk_error forked;
  if (box->dropped)
    dlk_lua_release_dropped(L, box->dropped);
  if (box->hold && !dlk_engine_is_ours(dlk_hold_engine(box->hold), &forked))
    return dlk_lua_failure(L, &forked);
  let_go(box);
  lua_pushboolean(L, 1);
  return 1;
}

static int core_slot(lua_State *L) {
  dlk_lua_check_lease(L, 1);
  lua_getuservalue(L, 1);
  lua_rawgeti(L, -1, DLK_ANCHOR_OF_SLOT);
  if (!lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return 1;
  }
  lua_pop(L, 1);
  lua_createtable(L, 2, 2);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, DLK_ANCHOR_OF_SLOT);
  lua_pushvalue(L, -1);
  lua_setuservalue(L, 1);
  return 1;
}

/* core.client(lease); nil: the lease was finalised; false: it is none. */
static int core_client(lua_State *L) {
  struct lease_box *box = dlk_lua_find_box(L, 1, DLK_LUA_LEASE);
  if (!box)
    lua_pushboolean(L, 0);
  if (!box || !box->hold)
    return box ? 0 : 1;
  push_anchor(L, 1);
  lua_rawgeti(L, -1, DLK_ANCHOR_CLIENT);
  return 1;
}

/* A failed or interrupted detach gave the hold back, unless it was lost. */
static int given_up(lua_State *L, const struct lease_box *box) {
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  const struct dlk_lease *l = dlk_hold_lease(box->hold);
  const char *how = box->lost ? "lost before it was released" : "released";
  if (box->parted)
    how = "detached from this lease";
  else if (box->detached)
    how = dlk_hold_is_lost(box->hold)
              ? "lost before it was detached"
              : "given up by a detach that did not succeed";
  dlk_error_set(&err, DLK_LOST, "%s was %s", dlk_quote(key, l->key, l->key_len),
                how);
  return dlk_lua_failure(L, &err);
}

static int submit(lua_State *L, struct lease_box *box, struct dlk_request *r) {
  r->hold = box->hold;
  push_anchor(L, 1);
  return dlk_lua_submit(L, dlk_hold_engine(box->hold), r, lua_gettop(L));
}

/* core.release(lease, timeout [, drains]): the ticket of this handle's release,
 * at later calls the same or a done one. Without memory the renewal thread
 * releases it, because the caller expects no lease. drains: true in place of a
 * done ticket, and whether others got done with it. */
static int core_release(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  bool forked = in_child(box), drains = lua_toboolean(L, 3), others = false;
  int64_t timeout = dlk_lua_ns(L, 2);
  if ((box->detached || box->lost) && !forked)
    return given_up(L, box);
  if (!forked && box->release) {
    push_anchor(L, 1);
    return dlk_lua_push_ticket(L, box->release, lua_gettop(L));
  }
  if (!forked && is_given_up(box))
    return dlk_lua_push_done(L);
  bool shared = !forked && dlk_hold_handles(box->hold) > 1;
  if (shared && dlk_hold_remaining(box->hold) > 0) {
    let_go(box);
    return dlk_lua_push_done(L);
  }
  if (!forked && dlk_engine_hand_over(box->hold, drains ? &others : NULL)) {
    box->released = true;
    dlk_handle_give_up(&box->handle);
    if (!drains) /* handed over: nothing to wait for */
      return dlk_lua_push_done(L);
    lua_pushboolean(L, 1);
    lua_pushboolean(L, others);
    return 2;
  }
  struct dlk_request r = {.kind = DLK_OP_RELEASE, .timeout = timeout};
  int n = submit(L, box, &r);
  if (n == 1) {
    struct ticket_box *ticket = lua_touserdata(L, -1);
    box->released = true;
    dlk_handle_give_up(&box->handle);
    dlk_ticket_ref(ticket->ticket);
    box->release = ticket->ticket;
  } else if (!forked && dlk_hold_remaining(box->hold) > 0) {
    let_go(box);
  }
  return n;
}

static int on_held(lua_State *L, struct dlk_request *r) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  bool forked = in_child(box);
  if (is_given_up(box) && !forked)
    return given_up(L, box);
  return submit(L, box, r);
}

static int core_extend(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  int64_t ttl = dlk_lua_ns(L, 2);
  struct dlk_request r = {.kind = DLK_OP_EXTEND, .timeout = -1};
  r.ttl = ttl < 0 ? dlk_hold_ttl(box->hold) : ttl;
  return on_held(L, &r);
}

static int core_downgrade(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_DOWNGRADE, .timeout = -1};
  return on_held(L, &r);
}

/* core.publish(lease, value) */
static int core_publish(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_PUBLISH, .timeout = -1};
  r.text = luaL_checklstring(L, 2, &r.text_len);
  return on_held(L, &r);
}

static int core_wait_lost(lua_State *L) {
  struct dlk_request r = {.task = DLK_TASK_WAIT_LOST};
  int64_t timeout = dlk_lua_ns(L, 2);
  r.timeout = timeout < 0 ? DLK_FOREVER : timeout;
  return on_held(L, &r);
}

/* core.guard(lease, string or number...) */
static int core_guard(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_GUARD, .timeout = -1};
  int n = lua_gettop(L) - 1;
  luaL_argcheck(L, n > 0, 2, "a command is expected");
  const char **argv = lua_newuserdata(L, (size_t)n * sizeof *argv);
  size_t *lens = lua_newuserdata(L, (size_t)n * sizeof *lens);
  for (int i = 0; i < n; i++)
    argv[i] = luaL_checklstring(L, i + 2, &lens[i]);
  r.argc = (size_t)n;
  r.argv = argv;
  r.argv_len = lens;
  return on_held(L, &r);
}

/* Of a lease that is not held, or a closed store, the request tells. */
static bool can_part(const struct lease_box *box, struct dlk_error *err) {
  struct dlk_engine *e = dlk_hold_engine(box->hold);
  if (over(box) || !dlk_engine_is_open(e, err))
    return true;
  if (!dlk_engine_is_portable(e, err))
    return false;
  if (dlk_hold_handles(box->hold) <= 1)
    return true;
  dlk_error_set(err, DLK_UNSUPPORTED,
                "the lease is held more than once by its owner; release the "
                "inner ones first");
  return false;
}

/* The handle gives the hold up at once; the ticket's take gives it back if the
 * request fails. */
static int core_detach(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  struct dlk_request r = {.kind = DLK_OP_DETACH, .timeout = -1};
  struct dlk_error err;
  r.renew = dlk_hold_renews(box->hold);
  if (!can_part(box, &err)) {
    const struct dlk_lease *l = dlk_hold_lease(box->hold);
    dlk_error_name_key(&err, l->key, l->key_len);
    return dlk_lua_failure(L, &err);
  }
  int n = on_held(L, &r);
  if (n == 1) {
    box->detached = true;
    dlk_handle_give_up(&box->handle);
  }
  return n;
}

static int core_parted(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  box->parted = true;
  return 0;
}

static int core_has_parted(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  lua_pushboolean(L, box->parted);
  return 1;
}

/* core.released(lease): its release succeeded; drops the ticket. */
static int core_released(lua_State *L) {
  struct lease_box *box = dlk_lua_box(L, 1, DLK_LUA_LEASE);
  struct dlk_ticket *t = box->release;
  if (t && dlk_ticket_done(t) && !dlk_ticket_error(t) && !in_child(box)) {
    box->release = NULL;
    dlk_ticket_unref(t);
  }
  return 0;
}

/* Lua looks for methods first. */
static int lease_index(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  const struct dlk_lease *l = dlk_hold_lease(box->hold);
  struct dlk_want want = dlk_hold_want(box->hold);
  if (strcmp(name, "fence") == 0)
    dlk_compat_pushint(L, l->fence);
  else if (strcmp(name, "key") == 0)
    lua_pushlstring(L, l->key, l->key_len);
  else if (strcmp(name, "owner") == 0)
    lua_pushstring(L, l->owner);
  else if (strcmp(name, "mode") == 0)
    lua_pushstring(L, dlk_mode_name(want.units, want.cap));
  else if (strcmp(name, "permits") == 0 && want.cap != 0)
    dlk_compat_pushint(L, want.units);
  else if (strcmp(name, "ttl") == 0)
    lua_pushnumber(L, (double)dlk_hold_ttl(box->hold) / 1e9);
  else
    return 0;
  return 1;
}

static int lease_newindex(lua_State *L) {
  return luaL_error(L, "a lease is read-only");
}

static int lease_tostring(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  const struct dlk_lease *l = dlk_hold_lease(box->hold);
  int64_t left = over(box) ? 0 : dlk_hold_remaining(box->hold);
  char state[64];
  /* not with the locale's decimal comma */
  long long tenths = (left + DLK_MS * 50) / (DLK_MS * 100);
  if (left > 0)
    snprintf(state, sizeof state, "held %lld.%llds", tenths / 10, tenths % 10);
  else
    snprintf(state, sizeof state, "%s", ended_how(box));
  lua_pushliteral(L, "dlock.lease: ");
  char key[DLK_QUOTED_MAX]; /* without the quotes */
  size_t len = strlen(dlk_quote(key, l->key, l->key_len));
  lua_pushlstring(L, key + 1, len - 2);
  lua_pushliteral(L, " fence=");
  dlk_compat_pushint(L, l->fence);
  lua_pushfstring(L, " %s", state);
  lua_concat(L, 5);
  return 1;
}

static void tell_dropped(lua_State *L, const struct dlk_lease *l) {
  if (!lua_checkstack(L, 8))
    return;
  bool running = dlk_lua_runs(L);
  lua_pushliteral(L, "dropped");
  lua_rawget(L, lua_upvalueindex(DLK_LUA_LEASE));
  push_anchor(L, 1);
  lua_rawgeti(L, -1, DLK_ANCHOR_CLIENT);
  lua_remove(L, -2);
  lua_pushlstring(L, l->key, l->key_len);
  lua_pushboolean(L, running);
  if (lua_pcall(L, 3, 0, 0) != 0)
    lua_pop(L, 1);
}

/* The last handle of a hold that the program may count on does not release it
 * (closing.c). */
static void collect(lua_State *L, struct lease_box *box) {
  struct dlk_hold *h = box->hold;
  struct dlk_error closed;
  bool last = dlk_hold_handles(h) == 1;
  if (over(box) || !last || !dlk_engine_is_open(dlk_hold_engine(h), &closed) ||
      !dlk_hold_collected(h)) {
    let_go(box);
    return;
  }
  dlk_handle_give_up(&box->handle);
  box->dropped = dlk_hold_id(h);
  dlk_lua_drop_hold(L, h);
  tell_dropped(L, dlk_hold_lease(h));
}

/* A handle of a scope holds until the scope ends, also without a variable: a
 * reentrant handle must not release the whole. */
static int lease_gc(lua_State *L) {
  struct lease_box *box = dlk_lua_last_box(L, DLK_LUA_LEASE);
  struct dlk_hold *h = box->hold;
  if (!h || dlk_engine_forked(dlk_hold_engine(h)))
    return 0;
  if (!box->owned)
    collect(L, box);
  if (box->release)
    dlk_ticket_unref(box->release);
  box->release = NULL;
  box->hold = NULL;
  dlk_handle_unref(&box->handle);
  return 0;
}

static const luaL_Reg metamethods[] = {
    {"__index", lease_index},
    {"__newindex", lease_newindex},
    {"__tostring", lease_tostring},
    {"__gc", lease_gc},
    {NULL, NULL},
};

/* core.listen(lease): an event tells when another asks for it. */
static int core_listen(lua_State *L) {
  struct lease_box *box = dlk_lua_check_lease(L, 1);
  if (!over(box))
    dlk_engine_listen(box->hold);
  return 0;
}

static const luaL_Reg functions[] = {
    {"listen", core_listen},
    {"held", core_held},
    {"remaining", core_remaining},
    {"given_up", core_given_up},
    {"ended_how", core_ended_how},
    {"revoked", core_revoked},
    {"lost", core_lost},
    {"owned", core_owned},
    {"id", core_id},
    {"share", core_share},
    {"give", core_give},
    {"take_back", core_take_back},
    {"release_later", core_release_later},
    {"slot", core_slot},
    {"client", core_client},
    {"release", core_release},
    {"extend", core_extend},
    {"downgrade", core_downgrade},
    {"publish", core_publish},
    {"wait_lost", core_wait_lost},
    {"guard", core_guard},
    {"detach", core_detach},
    {"released", core_released},
    {"parted", core_parted},
    {"has_parted", core_has_parted},
    {NULL, NULL},
};

void dlk_lua_open_lease(lua_State *L) {
  dlk_lua_setfuncs(L, functions);
  lua_newtable(L);
  lua_setfield(L, -2, "lease_methods");
  luaL_getmetatable(L, DLK_LEASE_TYPE);
  dlk_lua_setfuncs(L, metamethods);
  lua_setfield(L, -2, "lease_meta");
}
