/* engine:stats(): the engine's counters as a table. */
#include <math.h>

#include "lua/binding.h"

static void set_count(lua_State *L, const char *name,
                      const _Atomic uint64_t *n) {
  dlk_compat_pushint(L, (int64_t)atomic_load(n));
  lua_setfield(L, -2, name);
}

/* {count=, sum=, buckets={{le=, count=}, ...}}, counts up to each bound. */
static void set_histogram(lua_State *L, const char *name,
                          const struct dlk_histogram *h) {
  uint64_t total = 0;
  lua_newtable(L);
  lua_createtable(L, DLK_STATS_BUCKETS, 0);
  for (int i = 0; i < DLK_STATS_BUCKETS; i++) {
    double bound = dlk_stats_bound(i);
    total += atomic_load(&h->buckets[i]);
    lua_createtable(L, 0, 2);
    lua_pushnumber(L, bound < 0 ? HUGE_VAL : bound);
    lua_setfield(L, -2, "le");
    dlk_compat_pushint(L, (int64_t)total);
    lua_setfield(L, -2, "count");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "buckets");
  dlk_compat_pushint(L, (int64_t)total);
  lua_setfield(L, -2, "count");
  lua_pushnumber(L, (lua_Number)atomic_load(&h->sum_us) / 1e6);
  lua_setfield(L, -2, "sum");
  lua_setfield(L, -2, name);
}

static int engine_stats(lua_State *L) {
  const struct dlk_engine *e = dlk_lua_engine(L);
  lua_getuservalue(L, 1);
  if (!e)
    return dlk_lua_finalised(L, lua_gettop(L));
  const struct dlk_stats *s = dlk_engine_stats(e);
  lua_newtable(L);
  lua_newtable(L);
  set_count(L, "granted", &s->acquires[DLK_OK]);
  for (int i = 1; i < DLK_CODES; i++)
    set_count(L, dlk_code_name((enum dlk_code)i), &s->acquires[i]);
  lua_setfield(L, -2, "acquires");
  uint64_t ended = atomic_load(&s->ended), begun = atomic_load(&s->begun);
  dlk_compat_pushint(L, begun > ended ? (int64_t)(begun - ended) : 0);
  lua_setfield(L, -2, "held");
  set_count(L, "lost", &s->lost);
  set_count(L, "renewed", &s->renewed);
  set_count(L, "renew_failed", &s->renew_failed);
  set_count(L, "local_handoffs", &s->handed_over);
  set_histogram(L, "wait", &s->wait);
  set_histogram(L, "hold", &s->hold);
  return 1;
}

static const luaL_Reg methods[] = {
    {"stats", engine_stats},
    {NULL, NULL},
};

void dlk_lua_open_stats(lua_State *L) {
  dlk_lua_add_methods(L, DLK_ENGINE_TYPE, methods);
}
