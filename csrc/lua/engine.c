/* core.engine and its methods: each queues one request and gives its ticket.
 * Stores that share an engine have a userdata each, whose number (`user`) is in
 * its requests. Tickets and leases refer to the anchor, the table in the
 * uservalue, so an engine is collected after them. */
#include <stdlib.h>

#include "lua/binding.h"

static struct engine_box *box_of(lua_State *L) {
  return dlk_lua_box(L, 1, DLK_LUA_ENGINE);
}

static const char *field(lua_State *L, int t, const char *name) {
  lua_getfield(L, t, name);
  const char *s = lua_isnil(L, -1) ? NULL : luaL_checkstring(L, -1);
  lua_pop(L, 1); /* stays alive in the table */
  return s;
}

/* lua/dlock/options.lua has the defaults. */
static int64_t seconds(lua_State *L, int t, const char *name) {
  lua_getfield(L, t, name);
  int64_t ns = dlk_lua_ns(L, lua_gettop(L));
  lua_pop(L, 1);
  return ns >= 0 ? ns : luaL_error(L, "the store has no %s", name);
}

/* In a userdata left on the stack. */
static const struct dlk_addr *hosts(lua_State *L, int t, size_t *count) {
  lua_getfield(L, t, "hosts");
  size_t n = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
  struct dlk_addr *list = lua_newuserdata(L, (n + 1) * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, -2, (int)i + 1);
    lua_getfield(L, -1, "port");
    list[i].port = (uint16_t)lua_tonumber(L, -1);
    list[i].host = field(L, lua_gettop(L) - 1, "host");
    lua_pop(L, 2);
  }
  *count = n;
  return list;
}

/* Of the table on top; a table in it counts by its entries. */
static size_t count_options(lua_State *L) {
  size_t n = 0;
  int t = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1))
    n += lua_istable(L, -1) ? count_options(L) : 1;
  return n;
}

/* name: the option whose value is the table on top, or NULL. The table keeps
 * names and texts. */
static struct dlk_option *put_options(lua_State *L, const char *name,
                                      struct dlk_option *to) {
  int t = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) {
    luaL_checktype(L, -2, LUA_TSTRING);
    const char *key = lua_tostring(L, -2);
    if (lua_istable(L, -1)) {
      to = put_options(L, key, to);
      continue;
    }
    *to = (struct dlk_option){.name = name ? name : key};
    to->key = name ? key : NULL;
    if (lua_type(L, -1) == LUA_TNUMBER)
      to->number = lua_tonumber(L, -1);
    else if (lua_isboolean(L, -1))
      to->number = lua_toboolean(L, -1);
    else
      to->text = luaL_checkstring(L, -1);
    to++;
  }
  return to;
}

/* In a userdata left on the stack. */
static struct dlk_options own_options(lua_State *L, int t) {
  lua_getfield(L, t, "options");
  if (!lua_istable(L, -1))
    return (struct dlk_options){.count = 0};
  luaL_checkstack(L, 8, NULL);
  size_t n = count_options(L);
  struct dlk_option *list = lua_newuserdata(L, (n + 1) * sizeof *list);
  lua_insert(L, -2);
  (void)put_options(L, NULL, list);
  lua_pop(L, 1);
  return (struct dlk_options){.list = list, .count = n};
}

static const char *or_empty(const char *s) {
  return s ? s : "";
}

/* False: out of memory. */
static bool secret_of(lua_State *L, struct dlk_conf *conf) {
  const char *path = field(L, 2, "password_file");
  lua_getfield(L, 2, "asks");
  bool asks = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (!path && !asks)
    return true;
  conf->secret = dlk_secret_new(conf->password, path, asks);
  return conf->secret;
}

static struct engine_box *new_box(lua_State *L, const char *shown) {
  struct engine_box *box = dlk_lua_new_box(L, DLK_LUA_ENGINE);
  dlk_list_init(&box->link);
  lua_createtable(L, DLK_ANCHOR_SHOWN, 0);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, DLK_ANCHOR_ENGINE);
  lua_pushstring(L, shown);
  lua_rawseti(L, -2, DLK_ANCHOR_SHOWN);
  lua_setuservalue(L, -2);
  return box;
}

/* core.engine(store_type, conf): an engine, or nil, message, code. */
static int core_engine(lua_State *L) {
  struct store_box *store = luaL_checkudata(L, 1, DLK_STORE_TYPE);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, store->type->abi == DLK_STORE_ABI, 1,
                "the store was built for another version of dlock");
  struct dlk_error err;
  if (dlk_lua_closing(L)) {
    dlk_error_set(&err, DLK_CLOSED,
                  "this Lua state is being closed, so no store can be opened "
                  "in it any more");
    return dlk_lua_failure(L, &err);
  }
  struct dlk_conf conf = {.shown = or_empty(field(L, 2, "shown")),
                          .scheme = or_empty(field(L, 2, "scheme")),
                          .path = or_empty(field(L, 2, "path")),
                          .username = field(L, 2, "username"),
                          .password = field(L, 2, "password"),
                          .prefix = field(L, 2, "prefix")};
  conf.connect_timeout = seconds(L, 2, "connect_timeout");
  conf.io_timeout = seconds(L, 2, "io_timeout");
  lua_getfield(L, 2, "quiet");
  conf.quiet = lua_toboolean(L, -1);
  lua_pop(L, 1);
  const char *name = field(L, 2, "name");
  conf.hosts = hosts(L, 2, &conf.host_count);
  conf.options = own_options(L, 2);
  struct engine_box *box = new_box(L, conf.shown);
  if (!secret_of(L, &conf)) {
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
    return dlk_lua_failure(L, &err);
  }
  box->engine = dlk_engine_new(store->type, &conf, name, &err);
  if (!box->engine)
    return dlk_lua_failure(L, &err);
  box->user = dlk_engine_join_in(box->engine);
  dlk_lua_enlist(L, box);
  return 1;
}

static int engine_usable(lua_State *L) {
  const struct dlk_engine *e = box_of(L)->engine;
  struct dlk_error err;
  lua_pushboolean(L, e && dlk_engine_is_ours(e, &err) &&
                         dlk_engine_is_open(e, &err));
  return 1;
}

/* engine:share(): another store on the same client, or nothing. */
static int engine_share(lua_State *L) {
  const struct engine_box *from = box_of(L);
  struct dlk_error err;
  struct dlk_engine *e = from->engine;
  if (!e || !dlk_engine_is_ours(e, &err) || !dlk_engine_is_open(e, &err))
    return 0;
  struct engine_box *box = new_box(L, dlk_engine_shown(e));
  dlk_engine_ref(e);
  box->engine = e;
  box->user = dlk_engine_join_in(e);
  dlk_lua_enlist(L, box);
  return 1;
}

static int submit(lua_State *L, struct dlk_request *r) {
  struct dlk_engine *e = dlk_lua_engine(L);
  r->user = box_of(L)->user;
  lua_getuservalue(L, 1);
  return dlk_lua_submit(L, e, r, lua_gettop(L));
}

static int64_t ns_or(lua_State *L, int index, int64_t otherwise) {
  int64_t ns = dlk_lua_ns(L, index);
  return ns < 0 ? otherwise : ns;
}

static int key_request(lua_State *L, enum dlk_op_kind kind) {
  struct dlk_request r = {.kind = kind, .timeout = -1};
  r.key = luaL_checklstring(L, 2, &r.key_len);
  return submit(L, &r);
}

static int engine_locked(lua_State *L) {
  return key_request(L, DLK_OP_LOCKED);
}

static int engine_inspect(lua_State *L) {
  return key_request(L, DLK_OP_INSPECT);
}

static int engine_break_lock(lua_State *L) {
  return key_request(L, DLK_OP_BREAK);
}

static int engine_revoke(lua_State *L) {
  return key_request(L, DLK_OP_REVOKE);
}

/* engine:list(prefix, cursor, limit) */
static int engine_list(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_LIST, .timeout = -1};
  r.key = luaL_optlstring(L, 2, "", &r.key_len);
  r.text = luaL_optlstring(L, 3, NULL, &r.text_len);
  r.limit = dlk_lua_count(L, 4);
  return submit(L, &r);
}

/* engine:change(key, fence, timeout) */
static int engine_change(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_CHANGE};
  r.key = luaL_checklstring(L, 2, &r.key_len);
  r.fence = (int64_t)luaL_optnumber(L, 3, 0);
  r.timeout = ns_or(L, 4, DLK_FOREVER);
  return submit(L, &r);
}

static int engine_ping(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_PING, .timeout = dlk_lua_ns(L, 2)};
  return submit(L, &r);
}

/* engine:attach(text, max_hold) */
static int engine_attach(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  struct dlk_request r = {.kind = DLK_OP_ATTACH, .timeout = -1, .ttl = DLK_SEC};
  struct dlk_error err;
  r.text = luaL_checklstring(L, 2, &r.text_len);
  dlk_lua_read_detached(&r);
  r.max_hold = ns_or(L, 3, DLK_FOREVER);
  r.key = r.text; /* the store finds the key in the text */
  r.key_len = r.text_len;
  if (e && dlk_engine_is_ours(e, &err) && dlk_engine_is_open(e, &err) &&
      !dlk_engine_is_portable(e, &err))
    return dlk_lua_failure(L, &err);
  return submit(L, &r);
}

/* engine:prolong(detached, ttl): the seconds left, at least. ttl false: no
 * change; true: its own. */
static int engine_prolong(lua_State *L) {
  struct dlk_request r = {.kind = DLK_OP_PROLONG, .timeout = -1, .key = ""};
  r.text = luaL_checklstring(L, 2, &r.text_len);
  r.ttl = lua_isnumber(L, 3) ? dlk_lua_ns(L, 3) : lua_toboolean(L, 3) ? -1 : 0;
  dlk_lua_read_detached(&r);
  return submit(L, &r);
}

/* engine:portable(): another process can attach its leases; else a failure. */
static int engine_portable(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  struct dlk_error err;
  if (e && !dlk_engine_is_portable(e, &err))
    return dlk_lua_failure(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* engine:tag(key): a string, nothing, or a failure. */
static int engine_tag(lua_State *L) {
  size_t len;
  char tag[DLK_TAG_MAX];
  struct dlk_engine *e = dlk_lua_engine(L);
  const char *key = luaL_checklstring(L, 2, &len);
  lua_getuservalue(L, 1);
  if (!e)
    return dlk_lua_finalised(L, lua_gettop(L));
  if (!dlk_engine_tag(e, key, len, tag))
    return 0;
  lua_pushstring(L, tag);
  return 1;
}

static int engine_prefix(lua_State *L) {
  const struct dlk_engine *e = dlk_lua_engine(L);
  lua_pushstring(L, e ? dlk_engine_prefix(e) : "");
  return 1;
}

/* engine:close(timeout) */
static int engine_close(lua_State *L) {
  struct engine_box *box = box_of(L);
  struct dlk_engine *e = box->engine;
  struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = dlk_lua_ns(L, 2)};
  if (box->left || !e)
    return dlk_lua_push_done(L);
  if (dlk_engine_is_shared(e) && !dlk_engine_forked(e)) {
    box->left = true;
    dlk_engine_leave(e);
    r.task = DLK_TASK_LEAVE;
    bool works = dlk_engine_used(e) && !dlk_engine_joined(e);
    return works ? submit(L, &r) : dlk_lua_push_done(L);
  }
  if (!dlk_engine_used(e))
    dlk_engine_join(e);
  if (dlk_engine_joined(e))
    return dlk_lua_push_done(L);
  return submit(L, &r);
}

static void push_event(lua_State *L, const struct dlk_event *n) {
  lua_createtable(L, 0, 4);
  lua_pushstring(L, n->kind);
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, n->text);
  lua_setfield(L, -2, "message");
  if (n->lease) {
    dlk_compat_pushint(L, (int64_t)n->lease);
    lua_setfield(L, -2, "lease");
    lua_pushlstring(L, n->key, n->key_len);
    lua_setfield(L, -2, "key");
  }
}

/* For the collector, in case a push raises. */
static int free_events(lua_State *L) {
  struct dlk_event **list = lua_touserdata(L, 1);
  while (*list) {
    struct dlk_event *next = (*list)->next;
    free(*list);
    *list = next;
  }
  return 0;
}

/* engine:events(): nil, or an array of {kind=, message=, lease=, key=}. */
static int engine_events(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  if (!e || dlk_engine_forked(e) || !dlk_engine_has_events(e))
    return 0;
  struct dlk_event **list = lua_newuserdata(L, sizeof *list);
  *list = NULL;
  if (luaL_newmetatable(L, "dlock.events")) {
    lua_pushcfunction(L, free_events);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_newtable(L);
  *list = dlk_engine_events(e);
  int i = 0;
  while (*list) {
    struct dlk_event *n = *list;
    push_event(L, n);
    lua_rawseti(L, -2, ++i);
    *list = n->next;
    free(n);
  }
  return 1;
}

/* engine:set_client(client): what core.client gives for its leases. */
static int engine_set_client(lua_State *L) {
  box_of(L);
  lua_getuservalue(L, 1);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, DLK_ANCHOR_CLIENT);
  return 0;
}

/* engine:asks(): true once a refused password; engine:password answers. */
static int engine_asks(lua_State *L) {
  struct dlk_engine *e = dlk_lua_engine(L);
  lua_pushboolean(L, e && !dlk_engine_forked(e) && dlk_engine_asks(e));
  return 1;
}

/* engine:password(text or nil): nil: there is no other. */
static int engine_password(lua_State *L) {
  const struct engine_box *box = box_of(L);
  const char *text = luaL_optstring(L, 2, NULL);
  if (box->engine && !dlk_engine_password(box->engine, text))
    return luaL_error(L, "out of memory");
  return 0;
}

static int engine_client(lua_State *L) {
  box_of(L);
  lua_getuservalue(L, 1);
  lua_rawgeti(L, -1, DLK_ANCHOR_CLIENT);
  return 1;
}

/* A forked child leaves all as it is. */
static int engine_gc(lua_State *L) {
  struct engine_box *box = dlk_lua_last_box(L, DLK_LUA_ENGINE);
  struct dlk_engine *e = box->engine;
  box->engine = NULL;
  if (!e)
    return 0;
  dlk_list_remove(&box->link);
  if (dlk_engine_forked(e))
    return 0;
  if (!box->left && dlk_lua_orphan_engine(L, e))
    return 0;
  bool last = !box->left && dlk_engine_leave(e);
  if (last) {
    dlk_lua_end_engine(e);
    dlk_engine_forget_completed(e);
  }
  dlk_engine_unref(e);
  return 0;
}

static const luaL_Reg methods[] = {
    {"locked", engine_locked},
    {"inspect", engine_inspect},
    {"break_lock", engine_break_lock},
    {"revoke", engine_revoke},
    {"list", engine_list},
    {"change", engine_change},
    {"ping", engine_ping},
    {"attach", engine_attach},
    {"close", engine_close},
    {"share", engine_share},
    {"usable", engine_usable},
    {"tag", engine_tag},
    {"prolong", engine_prolong},
    {"portable", engine_portable},
    {"prefix", engine_prefix},
    {"prepare", dlk_lua_prepare},
    {"set_client", engine_set_client},
    {"asks", engine_asks},
    {"password", engine_password},
    {"client", engine_client},
    {"events", engine_events},
    {NULL, NULL},
};

/* core.schema(store_type): the SQL that makes its tables, or nil. */
static int core_schema(lua_State *L) {
  const struct store_box *store = luaL_checkudata(L, 1, DLK_STORE_TYPE);
  luaL_argcheck(L, store->type->abi == DLK_STORE_ABI, 1,
                "the store was built for another version of dlock");
  lua_pushstring(L, store->type->schema);
  return 1;
}

static const luaL_Reg functions[] = {
    {"engine", core_engine}, {"schema", core_schema}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__gc", engine_gc}, {NULL, NULL}};

void dlk_lua_open_engine(lua_State *L) {
  dlk_lua_setfuncs(L, functions);
  luaL_getmetatable(L, DLK_ENGINE_TYPE);
  dlk_lua_setfuncs(L, metamethods);
  lua_newtable(L);
  dlk_lua_setfuncs(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
