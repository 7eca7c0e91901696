/* What the files of the binding share: the three userdata and the ways to
 * push results. A userdata is made empty and gets its metatable before its
 * resource, so that any throw in between is safe to collect. */
#ifndef DLK_LUA_BINDING_H
#define DLK_LUA_BINDING_H

#include "core/list.h"
#include "engine/engine.h"
#include "lua/compat.h"

#define DLK_ENGINE_TYPE "dlock.engine"
#define DLK_TICKET_TYPE "dlock.ticket"
#define DLK_LEASE_TYPE "dlock.lease"
#define DLK_STORE_TYPE "dlock.store_type"
#define DLK_SCOPE_TYPE "dlock.scope"
#define DLK_SCOPES_TYPE "dlock.scopes"

/* The first word of each, while it is not finalised: what it is. */
struct dlk_lua_tag {
  const char *const *name; /* in dlk_lua_type_names */
};

struct engine_box {
  struct dlk_lua_tag tag;
  struct dlk_engine *engine;
  struct dlk_list link; /* among the engines of the Lua state */
  int spares;           /* so many are in the anchor */
  uint32_t user;        /* several boxes may share an engine */
  bool left;            /* it was closed, while others have the engine */
};

/* ticket NULL: done, and the result is true. home: whose request it is, and
 * whose spares it will be among (NULL: neither); what it refers to keeps that
 * alive. */
struct ticket_box {
  struct dlk_lua_tag tag;
  struct dlk_ticket *ticket;
  struct engine_box *home;
};

struct lease_box {
  struct dlk_lua_tag tag;
  struct dlk_hold *hold; /* of the handle, for short */
  struct dlk_handle handle;
  struct dlk_ticket *release; /* of the last handle, once asked for */
  bool released;
  bool detached; /* it asked for that, and so gave the hold up */
  bool parted;   /* and the string was taken */
  bool lost;     /* it was, before it was released later */
  bool owned;    /* the handle is a scope's to give up, not the collector's */
  uint64_t dropped; /* the id of its hold, which it had when it was collected */
};

/* What a store's module returns. */
struct store_box {
  const struct dlk_store_type *type;
};

/* The metatables of the three are upvalues of every function here, so that a
 * userdata is known by one comparison instead of a look into the registry; and
 * one that is alive by its size and its tag, which is cheaper still. No memory
 * but theirs has a tag in it, since the finaliser takes it away. */
enum dlk_lua_type { DLK_LUA_ENGINE = 1, DLK_LUA_TICKET, DLK_LUA_LEASE };
extern const char *const dlk_lua_type_names[];

/* The userdata at index; NULL, or an error, when it is of another type. */
void *dlk_lua_find_box(lua_State *L, int index, enum dlk_lua_type type);
void *dlk_lua_box(lua_State *L, int index, enum dlk_lua_type type);
/* Raises that the method `call` was not called on an `object`; level 1 is the
 * caller of the C function that is running, as for Lua's error. */
int dlk_lua_no_self(lua_State *L, const char *object, const char *call,
                    int level);
/* An empty one, on the stack. */
void *dlk_lua_new_box(lua_State *L, enum dlk_lua_type type);
/* The same as dlk_lua_box, for the finaliser. */
void *dlk_lua_last_box(lua_State *L, enum dlk_lua_type type);
/* luaL_setfuncs with these upvalues, into the table on top of the stack. */
void dlk_lua_setfuncs(lua_State *L, const luaL_Reg *list);
/* Puts them among the methods of a type that has some. */
void dlk_lua_add_methods(lua_State *L, const char *type, const luaL_Reg *list);

/* closing.c: whether no engine may be made any more. */
bool dlk_lua_closing(lua_State *L);
/* One that has an engine. */
void dlk_lua_enlist(lua_State *L, struct engine_box *box);
/* Closes it in bounded time, if it is used and not closed yet. */
void dlk_lua_end_engine(struct dlk_engine *e);
/* A lease on it was collected while it is held. */
void dlk_lua_drop_hold(lua_State *L, struct dlk_hold *h);
/* Releases that hold, if it is one of those. */
void dlk_lua_release_dropped(lua_State *L, uint64_t id);
/* The engine was collected. True: it has such holds, so it lives on with the
 * caller's reference and his place among its users. */
bool dlk_lua_orphan_engine(lua_State *L, struct dlk_engine *e);

/* Each file that opens something puts functions into the module table
 * on top of the stack, and into the metatables. */
void dlk_lua_open_closing(lua_State *L); /* before the others */
void dlk_lua_open_engine(lua_State *L);
void dlk_lua_open_ticket(lua_State *L);
void dlk_lua_open_lease(lua_State *L);
void dlk_lua_open_child(lua_State *L); /* child.c */
void dlk_lua_open_orphans(lua_State *L);
void dlk_lua_open_signals(lua_State *L);
void dlk_lua_open_stats(lua_State *L);
void dlk_lua_open_hosts(lua_State *L);
void dlk_lua_open_direct(lua_State *L); /* direct.c */

/* Returns nil, message, code. */
int dlk_lua_failure(lua_State *L, const struct dlk_error *err);
/* Pushes v and returns how many values that made (a tuple: several). */
int dlk_lua_push_value(lua_State *L, const struct dlk_value *v);
/* Pushes what lease:detach() gives, once the detach is done; returns 1. */
int dlk_lua_push_detached(lua_State *L, struct dlk_ticket *t);
/* Takes such a text apart: r->text, which is a Lua string, becomes the store's
 * own, which is empty when that is not what came. */
void dlk_lua_read_detached(struct dlk_request *r);
/* Seconds at index as ns: nil or none is -1 (the default), infinity is
 * DLK_FOREVER; NaN and negatives raise. */
int64_t dlk_lua_ns(lua_State *L, int index);
/* A count at index that fits into 32 bits, 0 if there is none; else raises. */
uint32_t dlk_lua_count(lua_State *L, int index);
int dlk_lua_prepare(lua_State *L); /* prepared.c */
/* Queues r on e and pushes its ticket, whose uservalue is the table at
 * `anchor` (an absolute index); or returns a failure. e: NULL as
 * dlk_lua_engine gives it. */
int dlk_lua_submit(lua_State *L, struct dlk_engine *e,
                   const struct dlk_request *r, int anchor);
/* A ticket that is done already. */
int dlk_lua_push_done(lua_State *L);
/* Another userdata for the same ticket. */
int dlk_lua_push_ticket(lua_State *L, struct dlk_ticket *t, int anchor);
/* The failure of a take after which there is nothing to be taken: the engine
 * has given it back. */
int dlk_lua_given_back(lua_State *L);
/* Wraps the hold of a ticket that dlk_lua_submit made, and that is at index. */
int dlk_lua_push_lease(lua_State *L, const struct ticket_box *from, int index);
struct lease_box *dlk_lua_check_lease(lua_State *L, int index);
/* The engine at 1; NULL when its userdata was finalised, which another
 * finaliser can come to see: to it that store is closed. */
struct dlk_engine *dlk_lua_engine(lua_State *L);
/* False: it was closed, or its engine was, and its leases are given back; err
 * says so. */
bool dlk_lua_is_open(const struct engine_box *box, struct dlk_error *err);
/* The failure of a call on it; the engine's anchor is at `anchor`. */
int dlk_lua_finalised(lua_State *L, int anchor);
/* What an engine's anchor has in its array. */
enum {
  DLK_ANCHOR_ENGINE = 1,
  DLK_ANCHOR_OF_SLOT, /* in a lease's slot: the anchor; in an anchor: nil */
  DLK_ANCHOR_CLIENT,  /* Lua's */
  DLK_ANCHOR_SHOWN,   /* the store's name in messages */
  DLK_ANCHOR_SPARES   /* from here on: ticket userdata without a ticket */
};
#define DLK_LUA_SPARES 256

/* Puts a store type into a fresh userdata: the whole of a store's
 * luaopen_. */
static inline int dlk_lua_push_store(lua_State *L,
                                     const struct dlk_store_type *type) {
  struct store_box *box = lua_newuserdata(L, sizeof *box);
  box->type = type;
  luaL_newmetatable(L, DLK_STORE_TYPE);
  lua_setmetatable(L, -2);
  return 1;
}

#endif
