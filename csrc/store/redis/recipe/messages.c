/* What the link tells goes to the wait, hold or watch that it concerns. */
#include "store/redis/recipe/messages.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/op/subscription.h"
#include "store/redis/op/try.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/recipe/leader.h"
#include "store/redis/recipe/wait.h"

static void subscribed(void *arg, int slot) {
  struct dlk_redis *s = arg;
  dlk_redis_change_subscribed(s, slot);
  dlk_redis_listen_subscribed(s, slot);
  struct dlk_list *l = s->waits.next;
  while (l != &s->waits) {
    struct dlk_redis_try *t = DLK_CONTAINER(l, struct dlk_redis_try, entry);
    l = l->next;
    if (dlk_redis_call_is_in(&t->call, slot) &&
        s->link->subscribed(s->link, t->call.req.slot))
      dlk_redis_queue_refresh(t);
  }
  /* All may have ended before it could be had. */
  dlk_redis_subscription_rest(s);
}

static void unsubscribed(void *arg, int slot, const struct dlk_error *why) {
  struct dlk_redis *s = arg;
  dlk_redis_listen_subscribed(s, slot); /* it asks without */
  struct dlk_list left; /* who ends takes others along, from either list */
  dlk_list_take(&s->waits, &left);
  while (!dlk_list_empty(&left)) {
    struct dlk_redis_try *t =
        DLK_CONTAINER(left.next, struct dlk_redis_try, entry);
    dlk_list_remove(&t->entry);
    dlk_list_append(&s->waits, &t->entry);
    if (dlk_redis_call_is_in(&t->call, slot) &&
        !s->link->subscribed(s->link, t->call.req.slot))
      dlk_redis_queue_unsubscribed(t, why);
  }
}

/* The wait or hold that a message names, or NULL. */
static struct dlk_redis_hold *named(struct dlk_redis *s, const char *token,
                                    size_t len) {
  struct dlk_redis_token *found = dlk_redis_token_find(&s->tokens, token, len);
  return found ? dlk_redis_hold_by(found) : NULL;
}

static void trace_message(struct dlk_redis *s, const struct dlk_redis_hold *h,
                          const char *what) {
  DLK_TRACE(dlk_redis_now(s), "redis", "message", h->call.key, h->call.key_len,
            "%s, token ..%s", what, dlk_redis_token_end(&h->token).text);
}

/* `g fence token`: the lock was handed to the token, for a claim. Only a wait
 * needs it; leave or orphan.c settles other tokens. */
static void handed(struct dlk_redis *s, const char *p, size_t len) {
  const char *token = memchr(p, ' ', len);
  if (!token)
    return;
  token++;
  struct dlk_redis_hold *h = named(s, token, len - (size_t)(token - p));
  if (h && h->waiting) {
    trace_message(s, h, "handed over");
    dlk_redis_queue_handed(dlk_redis_try_of(h->waiting), strtoll(p, NULL, 10));
  }
}

static void message(void *arg, const char *p, size_t len) {
  struct dlk_redis *s = arg;
  if (len < 3 || p[1] != ' ' || s->stopping)
    return;
  if (p[0] == 'g') {
    handed(s, p + 2, len - 2);
    return;
  }
  if (p[0] == 'c') {
    dlk_redis_changed(s, p + 2, len - 2);
    return;
  }
  struct dlk_redis_hold *h = named(s, p + 2, len - 2);
  if (!h || h->waiting)
    return;
  trace_message(s, h, p[0] == 'b' ? "broken" : "asked for");
  if (p[0] == 'b')
    dlk_redis_broken(s, h);
  if (p[0] != 'r')
    return;
  h->noted = true; /* the server wrote down that it was asked */
  s->host->revoked(s->host, h->lease);
}

/* What is held is held there as well, or lost: its renewal tells. */
static void moved(void *arg) {
  struct dlk_redis *s = arg;
  s->host->hurry(s->host);
}

static void link_stopped(void *arg) {
  struct dlk_redis *s = arg;
  s->host->stopped(s->host);
}

static bool needed(void *arg) {
  return dlk_redis_subscription_needed(arg);
}

static void add_slot(const struct dlk_redis_call *call,
                     struct dlk_redis_slots *slots) {
  if (call->req.slot >= 0)
    dlk_redis_slots_put(slots, call->req.slot, true);
}

static void add_slots(void *arg, struct dlk_redis_slots *slots) {
  struct dlk_redis *s = arg;
  const struct dlk_list *const lists[] = {&s->waits, &s->watches,
                                          &s->listeners};
  for (size_t i = 0; i < s->tokens.map.size; i++)
    for (struct dlk_map_node *n = s->tokens.map.buckets[i]; n; n = n->next)
      add_slot(
          &dlk_redis_hold_by(DLK_CONTAINER(n, struct dlk_redis_token, node))
               ->call,
          slots);
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
    for (const struct dlk_list *l = lists[i]->next; l != lists[i]; l = l->next)
      add_slot(&DLK_CONTAINER(l, struct dlk_redis_try, entry)->call, slots);
}

const struct dlk_redis_link_events dlk_redis_messages = {
    subscribed, unsubscribed, message, moved, needed, add_slots, link_stopped};
