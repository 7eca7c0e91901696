/* core.direct: the addresses of C functions for LuaJIT's FFI, so that compiled
 * code stays in its trace. They get the addresses of boxes, whose types the
 * caller guarantees. None raises, calls Lua or waits. */
#include "lua/direct.h"

void dlk_lua_watch(struct ticket_box *box, bool drains,
                   struct dlk_lua_watched *w) {
  struct dlk_ticket *t = box->ticket;
  *w = (struct dlk_lua_watched){0};
  if (!t || dlk_engine_forked(dlk_ticket_engine(t)))
    return;
  w->number = (double)dlk_ticket_watch(t, drains ? &w->others : NULL);
  w->leaves = dlk_scope_wants(t);
}

bool dlk_lua_done(const struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  return !t || dlk_ticket_done(t) || dlk_engine_forked(dlk_ticket_engine(t));
}

bool dlk_lua_closed(struct dlk_engine *e) {
  return !e || dlk_engine_forked(e) || dlk_engine_joined(e);
}

void dlk_lua_completed(struct dlk_engine *e, struct dlk_lua_completed *found) {
  uint64_t ids[sizeof found->numbers / sizeof *found->numbers];
  size_t max = sizeof ids / sizeof *ids, n = 0;
  if (e && !dlk_engine_forked(e))
    n = dlk_engine_completed(e, ids, max);
  for (size_t i = 0; i < n; i++)
    found->numbers[i] = (double)ids[i];
  found->count = (int)n;
  found->more = n == max;
  found->events = e && dlk_engine_has_events(e);
  found->closed = dlk_lua_closed(e);
}

struct scopes_box {
  struct dlk_scopes *scopes;
};

/* How an ngx_http_cleanup_t begins. */
struct cleanup {
  void (*handler)(void *);
  void *data;
};

static void end(void *scope) {
  dlk_scope_end(scope);
}

/* At the end of the Lua state a finalised box finds none. */
static struct dlk_scope *find(const struct scopes_box *box, const void *of) {
  return box->scopes ? dlk_scopes_find(box->scopes, of) : NULL;
}

static struct dlk_scope *begin(const struct scopes_box *box, const void *of,
                               struct cleanup *at_end) {
  struct dlk_scope *s = box->scopes ? dlk_scopes_begin(box->scopes, of) : NULL;
  at_end->handler = s ? end : NULL;
  at_end->data = s;
  return s;
}

static double number(const struct dlk_scope *s) {
  return (double)dlk_scope_number(s);
}

/* The ticket and its result end with the scope. */
static void own(struct dlk_scope *s, const struct ticket_box *box) {
  struct dlk_ticket *t = box->ticket;
  if (t && !dlk_engine_forked(dlk_ticket_engine(t)))
    dlk_scope_add(s, t);
}

static void own_lease(struct dlk_scope *s, struct lease_box *box) {
  if (box->hold && !dlk_engine_forked(dlk_hold_engine(box->hold)) &&
      !box->owned && !dlk_handle_given_up(&box->handle))
    box->owned = dlk_scope_add_handle(s, &box->handle);
}

static void watch(struct ticket_box *box, struct dlk_lua_watched *w) {
  dlk_lua_watch(box, true, w);
}

/* An int: LuaJIT does not compile every call that gives a bool. */
static int done(const struct ticket_box *box) {
  return dlk_lua_done(box);
}

static void completed(const struct engine_box *box,
                      struct dlk_lua_completed *found) {
  dlk_lua_completed(box->engine, found);
}

static int core_scopes(lua_State *L) {
  struct scopes_box *box = lua_newuserdata(L, sizeof *box);
  box->scopes = NULL;
  luaL_getmetatable(L, DLK_SCOPES_TYPE);
  lua_setmetatable(L, -2);
  box->scopes = dlk_scopes_new();
  return box->scopes ? 1 : luaL_error(L, "out of memory");
}

static int scopes_gc(lua_State *L) {
  struct scopes_box *box = luaL_checkudata(L, 1, DLK_SCOPES_TYPE);
  dlk_scopes_drop(box->scopes);
  box->scopes = NULL;
  return 0;
}

static void set_address(lua_State *L, const char *name, void (*fn)(void)) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)fn);
  lua_setfield(L, -2, name);
}

#define SET(fn) set_address(L, #fn, (void (*)(void))(fn))
/* The macro's expansion as text. */
#define SET_TEXT(name, macro) (TEXT(macro), lua_setfield(L, -2, #name))
#define TEXT(...) lua_pushliteral(L, #__VA_ARGS__)

void dlk_lua_open_direct(lua_State *L) {
  lua_pushcfunction(L, core_scopes);
  lua_setfield(L, -2, "scopes");
  luaL_newmetatable(L, DLK_SCOPES_TYPE);
  lua_pushcfunction(L, scopes_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  SET(find);
  SET(begin);
  SET(number);
  SET(own);
  SET(own_lease);
  SET(watch);
  SET(done);
  SET(completed);
  SET_TEXT(watched_fields, DLK_LUA_WATCHED);
  SET_TEXT(completed_fields, DLK_LUA_COMPLETED);
  lua_setfield(L, -2, "direct");
}
