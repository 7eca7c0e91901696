/* Replies of a modelled server, as hiredis would have read them. */
#include <lauxlib.h>
#include <stdlib.h>

#include "redis_host.h"

void sim_reply_free(redisReply *r) {
  for (size_t i = 0; i < r->elements; i++)
    sim_reply_free(r->element[i]);
  free(r->element);
  free(r->str);
  free(r);
}

static char *text_at(lua_State *L, redisReply *r) {
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  char *copy = malloc(len + 1);
  if (!copy)
    sim_die("out of memory");
  r->len = len;
  return memcpy(copy, text, len + 1);
}

/* Of the value on the stack's top. */
redisReply *sim_reply_new(lua_State *L) {
  redisReply *r = calloc(1, sizeof *r);
  if (!r)
    sim_die("out of memory");
  luaL_checkstack(L, 4, NULL);
  switch (lua_type(L, -1)) {
  case LUA_TNUMBER:
    r->type = REDIS_REPLY_INTEGER;
    r->integer = (long long)lua_tonumber(L, -1);
    return r;
  case LUA_TSTRING:
    r->type = REDIS_REPLY_STRING;
    r->str = text_at(L, r);
    return r;
  case LUA_TTABLE:
    break;
  default:
    r->type = REDIS_REPLY_NIL;
    return r;
  }
  static const char *const kinds[] = {"ok", "err"};
  for (int i = 0; i < 2; i++) {
    lua_getfield(L, -1, kinds[i]);
    if (lua_isstring(L, -1)) {
      r->type = i == 0 ? REDIS_REPLY_STATUS : REDIS_REPLY_ERROR;
      r->str = text_at(L, r);
    }
    lua_pop(L, 1);
    if (r->str)
      return r;
  }
  r->type = REDIS_REPLY_ARRAY;
  r->elements = sim_length(L, -1);
  r->element = calloc(r->elements + 1, sizeof *r->element);
  if (!r->element)
    sim_die("out of memory");
  for (size_t i = 0; i < r->elements; i++) {
    lua_rawgeti(L, -1, (int)i + 1);
    r->element[i] = sim_reply_new(L);
    lua_pop(L, 1);
  }
  return r;
}
