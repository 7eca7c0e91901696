/* The network of a process that is a Lua module (redis_client.c), as methods. A
 * store has one link to each server, by a number from 1 on:
 *
 *   links() -> { host or false, ... }  which there are
 *   has(link)                    it is there
 *   waits(link)                  something is submitted and not written
 *   write(link) -> id, bytes     the first of it; from now on it is under way
 *   answer(link, id, replies)    the replies to one request
 *   lose(link, id, code)         the connection is gone
 *   refuse(link, code)           no connection can be made
 *   retreats(link)               it wants the connection anew
 *   down(link)                   the connection is gone
 *   returned(link, moved)        it is back; moved: to another server, it seems
 *   wanted(link)                 it wants to hear messages
 *   heard(link)                  its subscription is confirmed
 *   asked(link)                  the slot's messages are subscribed to
 *   subscribed(link)             that is confirmed
 *   unsubscribed(link)           that is refused, or the slot has gone
 *   deafen(link)                 the subscription is gone, and it does not know
 *   deny(link, code)             it is gone, or refused, and it is told
 *   message(link, text)          one for its channel
 *   channel()                    which that is
 *   told(host)                   which node has the lock's slot */
#include "redis_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/names.h"

/* The lock of all simulations. */
static int the_slot(const struct client *c) {
  return dlk_redis_names_slot(&sim_store(c)->names, "lock", 4);
}

static int l_links(lua_State *L) {
  struct client *c = sim_client_check(L);
  lua_newtable(L);
  for (int i = 0; i < c->link_count; i++) {
    if (c->links[i])
      lua_pushstring(L, c->links[i]->host);
    else
      lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static struct still_link *link_at(lua_State *L, struct client *c) {
  int i = (int)luaL_checkinteger(L, 2) - 1;
  if (i < 0 || i >= c->link_count || !c->links[i])
    luaL_error(L, "no link %d", i + 1);
  return &c->links[i]->still;
}

static int l_has(lua_State *L) {
  const struct client *c = sim_client_check(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  lua_pushboolean(L, i <= c->link_count && c->links[i - 1] != NULL);
  return 1;
}

static int l_waits(lua_State *L) {
  struct client *c = sim_client_check(L);
  lua_pushboolean(L, still_waiting(link_at(L, c)) > 0);
  return 1;
}

static size_t request_at(lua_State *L, const struct still_link *s) {
  int id = (int)luaL_checkinteger(L, 3);
  for (size_t i = 0; i < s->count; i++)
    if (s->written[i].id == id)
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
  } else if (command->elements == 1 || strcmp(verb, "CLUSTER") == 0) {
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
  struct still_link *s = link_at(L, c);
  struct dlk_buf out = {0};
  if (s->count == STILL_MOST)
    sim_die("too many requests");
  const struct dlk_redis_req *req =
      still_write(s, ++c->last_id, sim_time, &out);
  if (out.failed)
    sim_die("out of memory");
  check_slot(c, &out, req->slot);
  lua_pushinteger(L, c->last_id);
  lua_pushlstring(L, out.data, out.len);
  dlk_buf_free(&out);
  return 2;
}

/* While the network has faults, some replicas do not answer in time. */
static bool lacks_replicas(struct client *c) {
  return sim_store(c)->replicas > 0 && sim_time < FAULTY &&
         ++c->confirmed % 4 == 0;
}

static int l_answer(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct still_link *s = link_at(L, c);
  struct dlk_redis_req *req = still_take(s, request_at(L, s));
  lua_settop(L, 4);
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
  if (a.refusal)
    sim_redirected(c, req, a.refusal);
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
  struct still_link *s = link_at(L, c);
  size_t at = request_at(L, s);
  sim_enter(c);
  still_lose(s, at, code_at(L, 4));
  sim_leave(c);
  return 0;
}

static int l_refuse(lua_State *L) {
  struct client *c = sim_client_check(L);
  sim_enter(c);
  still_refuse(link_at(L, c), code_at(L, 3));
  sim_leave(c);
  return 0;
}

static int l_retreats(lua_State *L) {
  lua_pushboolean(L, link_at(L, sim_client_check(L))->retreating);
  return 1;
}

static int l_down(lua_State *L) {
  link_at(L, sim_client_check(L))->up = false;
  return 0;
}

static int l_returned(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct still_link *s = link_at(L, c);
  s->retreating = false;
  s->up = s->link.served = true;
  s->link.connections++;
  sim_enter(c);
  if (lua_toboolean(L, 3)) {
    s->link.moves++;
    s->events->moved(s->arg);
  }
  sim_leave(c);
  return 0;
}

static int l_wanted(lua_State *L) {
  struct still_link *s = link_at(L, sim_client_check(L));
  if (s->wanted && s->wanted_slot < 0)
    sim_complain("messages are wanted of no slot");
  lua_pushboolean(L, s->wanted);
  return 1;
}

static void subscription(lua_State *L, int slot, const struct dlk_error *why) {
  struct client *c = sim_client_check(L);
  struct still_link *s = link_at(L, c);
  sim_enter(c);
  if (why)
    s->events->unsubscribed(s->arg, slot, why);
  else
    s->events->subscribed(s->arg, slot);
  sim_leave(c);
}

static int l_heard(lua_State *L) {
  link_at(L, sim_client_check(L))->subscribed = true;
  subscription(L, DLK_REDIS_ANY_SLOT, NULL);
  return 0;
}

static int l_asked(lua_State *L) {
  struct client *c = sim_client_check(L);
  lua_pushboolean(L, dlk_redis_slots_has(&link_at(L, c)->asked, the_slot(c)));
  return 1;
}

static int l_subscribed(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct still_link *s = link_at(L, c);
  dlk_redis_slots_put(&s->asked, the_slot(c), true);
  dlk_redis_slots_put(&s->acknowledged, the_slot(c), true);
  subscription(L, the_slot(c), NULL);
  return 0;
}

static int l_unsubscribed(lua_State *L) {
  struct client *c = sim_client_check(L);
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNAVAILABLE, "the slot has moved");
  dlk_redis_net_quit(&link_at(L, c)->link, the_slot(c));
  subscription(L, the_slot(c), &err);
  return 0;
}

static int l_deafen(lua_State *L) {
  struct still_link *s = link_at(L, sim_client_check(L));
  s->subscribed = false;
  memset(&s->asked, 0, sizeof s->asked);
  memset(&s->acknowledged, 0, sizeof s->acknowledged);
  return 0;
}

static int l_deny(lua_State *L) {
  struct dlk_error err;
  dlk_error_set(&err, code_at(L, 3), "no messages");
  subscription(L, DLK_REDIS_ANY_SLOT, &err);
  return 0;
}

static int l_message(lua_State *L) {
  struct client *c = sim_client_check(L);
  size_t len;
  const char *text = luaL_checklstring(L, 3, &len);
  sim_enter(c);
  sim_client_hear(c, link_at(L, c), text, len);
  sim_leave(c);
  return 0;
}

static int l_channel(lua_State *L) {
  struct client *c = sim_client_check(L);
  char channel[DLK_REDIS_CHANNEL];
  dlk_redis_channel(channel, sim_store(c)->channel, (unsigned)the_slot(c));
  lua_pushstring(L, c->routed ? channel : sim_store(c)->channel);
  return 1;
}

static int l_told(lua_State *L) {
  struct client *c = sim_client_check(L);
  snprintf(c->told, sizeof c->told, "%s", luaL_checkstring(L, 2));
  return 0;
}

const luaL_Reg sim_wire_methods[] = {{"links", l_links},
                                     {"has", l_has},
                                     {"waits", l_waits},
                                     {"write", l_write},
                                     {"answer", l_answer},
                                     {"lose", l_lose},
                                     {"refuse", l_refuse},
                                     {"retreats", l_retreats},
                                     {"down", l_down},
                                     {"returned", l_returned},
                                     {"wanted", l_wanted},
                                     {"heard", l_heard},
                                     {"asked", l_asked},
                                     {"subscribed", l_subscribed},
                                     {"unsubscribed", l_unsubscribed},
                                     {"deafen", l_deafen},
                                     {"deny", l_deny},
                                     {"message", l_message},
                                     {"channel", l_channel},
                                     {"told", l_told},
                                     {NULL, NULL}};
