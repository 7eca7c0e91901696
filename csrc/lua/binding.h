/* Shared by the binding's files. A userdata gets its metatable before its
 * resource, so that a throw in between is safe. */
#ifndef DLK_LUA_BINDING_H
#define DLK_LUA_BINDING_H

#include "core/list.h"
#include "engine/engine.h"
#include "lua/compat.h"

#define DLK_ENGINE_TYPE "dlock.engine"
#define DLK_TICKET_TYPE "dlock.ticket"
#define DLK_LEASE_TYPE "dlock.lease"
#define DLK_STORE_TYPE "dlock.store_type"
#define DLK_SCOPES_TYPE "dlock.scopes"

/* The first word of each, until it is finalised. */
struct dlk_lua_tag {
  const char *const *name;
};

struct engine_box {
  struct dlk_lua_tag tag;
  struct dlk_engine *engine;
  struct dlk_list link; /* among the engines of the Lua state */
  int spares;           /* how many are in the anchor */
  uint32_t user;        /* several boxes may share an engine */
  bool left;            /* closed, but others share the engine */
};

/* ticket NULL: done, with the result true. home: the engine whose spares the
 * box joins, alive by the uservalue; or NULL. */
struct ticket_box {
  struct dlk_lua_tag tag;
  struct dlk_ticket *ticket;
  struct engine_box *home;
};

struct lease_box {
  struct dlk_lua_tag tag;
  struct dlk_hold *hold;
  struct dlk_handle handle;
  struct dlk_ticket *release; /* of the last handle */
  bool released;
  bool detached;    /* a detach gave the hold up */
  bool parted;      /* and its string was taken */
  bool lost;        /* before it was released */
  bool owned;       /* the handle is a scope's to give up */
  uint64_t dropped; /* the hold's id, if it was held when collected */
};

struct store_box {
  const struct dlk_store_type *type;
};

/* Every function here has the three metatables as upvalues, so one comparison
 * tells a userdata's type. Size and tag tell a living one, which is cheaper
 * still: the finaliser clears the tag, and no other memory has one. */
enum dlk_lua_type { DLK_LUA_ENGINE = 1, DLK_LUA_TICKET, DLK_LUA_LEASE };
extern const char *const dlk_lua_type_names[];

/* NULL, or an error, for another type. */
void *dlk_lua_find_box(lua_State *L, int index, enum dlk_lua_type type);
void *dlk_lua_box(lua_State *L, int index, enum dlk_lua_type type);
/* level: as for Lua's error, from the running C function. */
int dlk_lua_no_self(lua_State *L, const char *object, const char *call,
                    int level);
/* Pushes a zeroed one. */
void *dlk_lua_new_box(lua_State *L, enum dlk_lua_type type);
/* For the finaliser. */
void *dlk_lua_last_box(lua_State *L, enum dlk_lua_type type);
/* luaL_setfuncs with these upvalues. */
void dlk_lua_setfuncs(lua_State *L, const luaL_Reg *list);
void dlk_lua_add_methods(lua_State *L, const char *type, const luaL_Reg *list);

/* No engine may be made any more (closing.c). */
bool dlk_lua_closing(lua_State *L);
/* In a finaliser: the program's code runs, so the state is not closing. */
bool dlk_lua_runs(lua_State *L);
void dlk_lua_enlist(lua_State *L, struct engine_box *box);
/* Closes a used engine in bounded time. */
void dlk_lua_end_engine(struct dlk_engine *e);
/* A lease on h was collected while it is held. */
void dlk_lua_drop_hold(lua_State *L, struct dlk_hold *h);
/* Releases such a hold. */
void dlk_lua_release_dropped(lua_State *L, uint64_t id);
/* The engine was collected. True: it has such holds, and keeps the caller's
 * reference and user. */
bool dlk_lua_orphan_engine(lua_State *L, struct dlk_engine *e);

/* Each adds functions to the module table on the stack's top, and to
 * metatables. */
void dlk_lua_open_closing(lua_State *L); /* before the others */
void dlk_lua_open_engine(lua_State *L);
void dlk_lua_open_ticket(lua_State *L);
void dlk_lua_open_lease(lua_State *L);
void dlk_lua_open_child(lua_State *L);
void dlk_lua_open_signals(lua_State *L);
void dlk_lua_open_stats(lua_State *L);
void dlk_lua_open_hosts(lua_State *L);
void dlk_lua_open_direct(lua_State *L);

/* Returns nil, message, code. */
int dlk_lua_failure(lua_State *L, const struct dlk_error *err);
/* Returns the number of values (a tuple: several). */
int dlk_lua_push_value(lua_State *L, const struct dlk_value *v);
/* Pushes the string of a done detach; returns 1. */
int dlk_lua_push_detached(lua_State *L, struct dlk_ticket *t);
/* r->text becomes the store's own part of such a string; empty: it is none. */
void dlk_lua_read_detached(struct dlk_request *r);
/* nil or none: -1 (the default); infinity: DLK_FOREVER; negative or NaN:
 * raises. */
int64_t dlk_lua_ns(lua_State *L, int index);
/* None: 0; raises beyond 32 bits. */
uint32_t dlk_lua_count(lua_State *L, int index);
int dlk_lua_prepare(lua_State *L);
/* Queues r and pushes its ticket, whose uservalue is the table at `anchor` (an
 * absolute index); or a failure. e: may be NULL (dlk_lua_engine). */
int dlk_lua_submit(lua_State *L, struct dlk_engine *e,
                   const struct dlk_request *r, int anchor);
/* A ticket that is done already. */
int dlk_lua_push_done(lua_State *L);
/* Another userdata for the ticket. */
int dlk_lua_push_ticket(lua_State *L, struct dlk_ticket *t, int anchor);
/* The engine took the lease back before the take. */
int dlk_lua_given_back(lua_State *L);
/* Wraps the hold of the ticket at index. */
int dlk_lua_push_lease(lua_State *L, const struct ticket_box *from, int index);
struct lease_box *dlk_lua_check_lease(lua_State *L, int index);
/* NULL once its userdata was finalised (another finaliser may see it), which
 * counts as closed. */
struct dlk_engine *dlk_lua_engine(lua_State *L);
/* False and err: it, or its engine, was closed. */
bool dlk_lua_is_open(const struct engine_box *box, struct dlk_error *err);
/* The failure of a call on a finalised engine. */
int dlk_lua_finalised(lua_State *L, int anchor);
enum {
  DLK_ANCHOR_ENGINE = 1,
  DLK_ANCHOR_OF_SLOT, /* in a lease's slot: the anchor; in an anchor: nil */
  DLK_ANCHOR_CLIENT,  /* Lua's */
  DLK_ANCHOR_SHOWN,   /* the store's name in messages */
  DLK_ANCHOR_SPARES   /* from here on: ticket userdata without a ticket */
};
#define DLK_LUA_SPARES 256

static inline int dlk_lua_push_store(lua_State *L,
                                     const struct dlk_store_type *type) {
  struct store_box *box = lua_newuserdata(L, sizeof *box);
  box->type = type;
  luaL_newmetatable(L, DLK_STORE_TYPE);
  lua_setmetatable(L, -2);
  return 1;
}

#endif
