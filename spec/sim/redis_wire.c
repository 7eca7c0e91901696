/* The network of a process that is a Lua module (redis_client.c), as methods:
 *
 *   requests()             ids of what is submitted and not written
 *   write(id) -> bytes     from now on it is under way
 *   answer(id, replies)    the replies to one request
 *   lose(id, code)         the connection is gone, or cannot be made
 *   retreats()             it wants the connection anew
 *   returned(moved)        it has it; moved: to another server, it seems
 *   wanted()               it wants to hear messages
 *   heard()                its subscription is confirmed
 *   deafen()               the subscription is gone, and it does not know yet
 *   deny(code)             the subscription is gone, or refused, and it is told
 *   message(text)          one for its channel
 *   channel()              which that is */
#include "redis_client.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/names.h"

static int l_requests(lua_State *L) {
  struct client *c = sim_client_check(L);
  int n = 0;
  lua_newtable(L);
  for (size_t i = 0; i < c->request_count; i++) {
    if (c->requests[i].written)
      continue;
    lua_pushinteger(L, c->requests[i].id);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static size_t request_at(lua_State *L, struct client *c) {
  int id = (int)luaL_checkinteger(L, 2);
  for (size_t i = 0; i < c->request_count; i++)
    if (c->requests[i].id == id)
      return i;
  return (size_t)luaL_error(L, "no request %d", id);
}

static bool is_in_slot(const redisReply *key, int slot) {
  return (int)dlk_redis_slot(key->str, key->len) == slot;
}

/* All keys of a command are in the slot that its request names. */
static bool keys_are_in_slot(const redisReply *command, int slot) {
  const char *verb = command->element[0]->str;
  size_t first = 1, count = 1;
  if (strncmp(verb, "EVAL", 4) == 0) {
    first = 3;
    count = (size_t)strtoul(command->element[2]->str, NULL, 10);
  } else if (command->elements == 1) { /* MULTI, EXEC, PING */
    count = 0;
  }
  for (size_t i = 0; i < count; i++)
    if (!is_in_slot(command->element[first + i], slot))
      return false;
  return true;
}

static void check_slot(struct client *c, const struct dlk_buf *out, int slot) {
  redisReader *reader = redisReaderCreate();
  void *command;
  redisReaderFeed(reader, out->data, out->len);
  while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
    if (!keys_are_in_slot(command, slot))
      c->complaint = "a request names keys of another slot than its own";
    freeReplyObject(command);
  }
  redisReaderFree(reader);
}

static int l_write(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct request *r = &c->requests[request_at(L, c)];
  struct dlk_buf out = {0};
  r->written = true;
  r->req->sent = sim_time;
  r->req->encode(r->req, &out);
  if (out.failed)
    sim_die("out of memory");
  check_slot(c, &out, r->req->slot);
  lua_pushlstring(L, out.data, out.len);
  dlk_buf_free(&out);
  return 1;
}

/* While the network has faults, some replicas do not answer in time. */
static bool lacks_replicas(struct client *c) {
  const struct dlk_redis *s = c->arg;
  return s->replicas > 0 && sim_time < FAULTY && ++c->confirmed % 4 == 0;
}

static int l_answer(lua_State *L) {
  struct client *c = sim_client_check(L);
  size_t at = request_at(L, c);
  struct dlk_redis_req *req = c->requests[at].req;
  sim_request_forget(c, at);
  lua_settop(L, 3);
  redisReply *all = sim_reply_new(L);
  if (all->elements != req->replies)
    sim_die("wrong number of replies");
  struct dlk_redis_answer a = {.outcome = DLK_REDIS_ANSWERED};
  sim_enter(c);
  for (size_t i = 0; i < all->elements; i++) {
    redisReply *r = all->element[i];
    if (req->each)
      req->each(req, (unsigned)i, r);
    if (r->type == REDIS_REPLY_ERROR && !a.refusal)
      a.refusal = r->str;
    a.reply = r->type == REDIS_REPLY_ERROR ? NULL : r;
  }
  a.scarce = req->durable && !a.refusal && lacks_replicas(c);
  req->done(req, &a);
  sim_leave(c);
  sim_reply_free(all);
  return 0;
}

static enum dlk_code code_at(lua_State *L, int at) {
  static const char *const names[] = {"unavailable", "denied", NULL};
  return luaL_checkoption(L, at, "unavailable", names) == 0 ? DLK_UNAVAILABLE
                                                            : DLK_DENIED;
}

static int l_lose(lua_State *L) {
  struct client *c = sim_client_check(L);
  size_t at = request_at(L, c);
  sim_enter(c);
  sim_request_lose(c, at, code_at(L, 3));
  sim_leave(c);
  return 0;
}

static int l_retreats(lua_State *L) {
  lua_pushboolean(L, sim_client_check(L)->retreating);
  return 1;
}

static int l_returned(lua_State *L) {
  struct client *c = sim_client_check(L);
  c->retreating = false;
  c->link.connections++;
  sim_enter(c);
  if (lua_toboolean(L, 2)) {
    c->link.moves++;
    c->events->moved(c->arg);
  }
  sim_leave(c);
  return 0;
}

static int l_wanted(lua_State *L) {
  lua_pushboolean(L, sim_client_check(L)->wanted);
  return 1;
}

static int l_heard(lua_State *L) {
  struct client *c = sim_client_check(L);
  c->subscribed = true;
  sim_enter(c);
  c->events->subscribed(c->arg, DLK_REDIS_ANY_SLOT);
  sim_leave(c);
  return 0;
}

static int l_deafen(lua_State *L) {
  sim_client_check(L)->subscribed = false;
  return 0;
}

static int l_deny(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct dlk_error err;
  dlk_error_set(&err, code_at(L, 2), "no messages");
  sim_enter(c);
  c->events->unsubscribed(c->arg, DLK_REDIS_ANY_SLOT, &err);
  sim_leave(c);
  return 0;
}

static int l_message(lua_State *L) {
  struct client *c = sim_client_check(L);
  size_t len;
  const char *text = luaL_checklstring(L, 2, &len);
  sim_enter(c);
  sim_client_hear(c, text, len);
  sim_leave(c);
  return 0;
}

static int l_channel(lua_State *L) {
  lua_pushstring(L, sim_client_check(L)->channel);
  return 1;
}

const luaL_Reg sim_wire_methods[] = {{"requests", l_requests},
                                     {"write", l_write},
                                     {"answer", l_answer},
                                     {"lose", l_lose},
                                     {"retreats", l_retreats},
                                     {"returned", l_returned},
                                     {"wanted", l_wanted},
                                     {"heard", l_heard},
                                     {"deafen", l_deafen},
                                     {"deny", l_deny},
                                     {"message", l_message},
                                     {"channel", l_channel},
                                     {NULL, NULL}};
