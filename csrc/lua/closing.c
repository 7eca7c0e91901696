/* What a Lua state leaves behind while it runs, and when it closes:
 * I1 No engine outlives its state. Only LuaJIT finalises an engine that a
 *   finaliser made while the state closes. So one userdata (`last`) is older
 *   than all engines. Finalisers run latest first: its own runs behind theirs,
 *   closes the engines that are left, and then none is made. The boxes are
 *   still there: a state frees memory last.
 * I2 A lease that is collected while held goes on to its deadline, because its
 *   program may count on it. Its hold is in `dropped`, and a later finaliser
 *   can still release it.
 * I3 An engine collected with such a lease is in `orphans`, until the lease is
 *   over. Both lists are swept when `dropped` has doubled, and when an engine
 *   is made or collected. */
#include <stdlib.h>

#include "lua/binding.h"

#define FIRST_LIMIT 64
#define LAST "dlock.last"
#define CLOSE_ON_GC (200 * DLK_MS)

struct last {
  struct dlk_list engines; /* engine_box.link */
  struct dlk_list dropped; /* struct dropped */
  size_t count, limit;     /* of dropped: its length, and when to sweep */
  struct dlk_list orphans; /* struct orphan */
  lua_CFunction exit;      /* os.exit */
  bool over;
};

struct dropped {
  struct dlk_list link;
  struct dlk_hold *hold; /* with a reference */
};

struct orphan {
  struct dlk_list link;
  struct dlk_engine *engine; /* with a reference */
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

/* os.exit closes the state under its own frame before Lua 5.4. */
bool dlk_lua_runs(lua_State *L) {
  lua_Debug caller;
  if (!lua_getstack(L, 1, &caller) || !lua_getinfo(L, "f", &caller))
    return false;
  lua_CFunction calls = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return !calls || calls != last_of(L)->exit;
}

static int core_engines(lua_State *L) {
  struct last *last = last_of(L);
  lua_Integer n = 0;
  for (struct dlk_list *l = last->engines.next; l != &last->engines;
       l = l->next)
    n++;
  lua_pushinteger(L, n);
  return 1;
}

void dlk_lua_end_engine(struct dlk_engine *e) {
  if (!dlk_engine_used(e) || dlk_engine_joined(e))
    return;
  struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = CLOSE_ON_GC};
  struct dlk_ticket *t = dlk_engine_submit(e, &r, false, NULL);
  if (t) {
    dlk_engine_drive(t, DLK_SEC); /* it ends sooner by itself */
    dlk_ticket_unref(t);
  }
  dlk_engine_join(e);
}

static struct dropped *dropped_at(struct dlk_list *l) {
  return DLK_CONTAINER(l, struct dropped, link);
}

static bool has_dropped(const struct last *last, const struct dlk_engine *e) {
  for (struct dlk_list *l = last->dropped.next; l != &last->dropped;
       l = l->next)
    if (dlk_hold_engine(dropped_at(l)->hold) == e)
      return true;
  return false;
}

/* A forked child leaves the parent's holds alone. */
static void sweep_dropped(struct last *last) {
  for (struct dlk_list *l = last->dropped.next, *next; l != &last->dropped;
       l = next) {
    struct dropped *one = dropped_at(l);
    bool forked = dlk_engine_forked(dlk_hold_engine(one->hold));
    next = l->next;
    if (!forked && dlk_hold_remaining(one->hold) > 0)
      continue;
    dlk_list_remove(l);
    last->count--;
    if (!forked)
      dlk_hold_unref(one->hold);
    free(one);
  }
}

static void end_orphans(struct last *last) {
  for (struct dlk_list *l = last->orphans.next, *next; l != &last->orphans;
       l = next) {
    struct orphan *one = DLK_CONTAINER(l, struct orphan, link);
    next = l->next;
    if (!last->over && has_dropped(last, one->engine))
      continue;
    dlk_list_remove(l);
    bool ours = !dlk_engine_forked(one->engine);
    if (ours && dlk_engine_leave(one->engine)) {
      dlk_lua_end_engine(one->engine);
      dlk_engine_forget_completed(one->engine);
    }
    if (ours)
      dlk_engine_unref(one->engine);
    free(one);
  }
}

static void sweep(struct last *last) {
  sweep_dropped(last);
  end_orphans(last);
}

void dlk_lua_enlist(lua_State *L, struct engine_box *box) {
  struct last *last = last_of(L);
  sweep(last);
  dlk_list_append(&last->engines, &box->link);
}

void dlk_lua_drop_hold(lua_State *L, struct dlk_hold *h) {
  struct last *last = last_of(L);
  if (last->count >= last->limit) {
    sweep(last);
    last->limit = 2 * last->count + FIRST_LIMIT;
  }
  struct dropped *one = malloc(sizeof *one);
  if (!one)
    return;
  dlk_hold_ref(h);
  one->hold = h;
  dlk_list_append(&last->dropped, &one->link);
  last->count++;
}

void dlk_lua_release_dropped(lua_State *L, uint64_t id) {
  struct dlk_list *list = &last_of(L)->dropped;
  for (struct dlk_list *l = list->next; l != list; l = l->next) {
    struct dlk_hold *h = dropped_at(l)->hold;
    if (dlk_hold_id(h) == id && !dlk_engine_forked(dlk_hold_engine(h)))
      dlk_hold_release_later(h);
  }
}

bool dlk_lua_orphan_engine(lua_State *L, struct dlk_engine *e) {
  struct last *last = last_of(L);
  sweep(last);
  struct orphan *one = has_dropped(last, e) ? malloc(sizeof *one) : NULL;
  if (!one)
    return false;
  one->engine = e;
  dlk_list_append(&last->orphans, &one->link);
  return true;
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
  end_orphans(last);
  sweep_dropped(last);
  return 0;
}

/* Once a state, even if loaded again. */
void dlk_lua_open_closing(lua_State *L) {
  lua_pushcfunction(L, core_engines);
  lua_setfield(L, -2, "engines");
  if (last_of(L))
    return;
  struct last *last = lua_newuserdata(L, sizeof *last);
  dlk_list_init(&last->engines);
  dlk_list_init(&last->dropped);
  last->count = last->limit = 0;
  dlk_list_init(&last->orphans);
  lua_getglobal(L, "os");
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "exit");
    last->exit = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  } else
    last->exit = NULL;
  lua_pop(L, 1);
  last->over = false;
  lua_newtable(L);
  lua_pushcfunction(L, last_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, LAST);
}
