/* The local queue: of an engine's waiters for a key the first stands in the
 * store's queue, the others wait here, in order. So 500 waiting handlers cost
 * the server one entry. Only for exclusive waits in resident mode: elsewhere a
 * thread waits for one thing.
 *
 * Head: the ticket that the store has. Holder: a hold that may be handed over
 * (handoff.c). A queue exists while it has any of these, or waiters.
 *
 * I1  Order is kept: between a head's end and its successor's start a newcomer
 *     waits at the end. The successor starts in its own turn, or a store that
 *     fails at once would recurse.
 * I2  No waiter is forgotten: there is a head, or the first waiter expects the
 *     holder's lock. Each end of that looks at the queue.
 * I3  A cancel ends a waiter without the store. Close ends waiters before
 *     heads.
 * I4  A time-out asks the store first: the key may be free. So does a head that
 *     the store let go before it knew the holder. Every answer except
 *     `unavailable` means `timeout`, and names the holder. One question serves
 *     all whose time ends before its answer. It takes io_timeout at most; a
 *     waiter waits for it as for a withdrawal (grace_of). */
#include "engine/local/local_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* of spare fences */
#define FAIR_MAX 256u

void dlk_local_clear(struct dlk_local_queues *q) {
  while (!dlk_list_empty(&q->all)) {
    struct dlk_local_queue *g =
        DLK_CONTAINER(q->all.next, struct dlk_local_queue, all);
    dlk_list_remove(&g->all);
    free(g);
  }
  dlk_map_clear(&q->map);
}

struct dlk_ticket *dlk_local_first(const struct dlk_local_queue *g) {
  return dlk_list_empty(&g->waiting)
             ? NULL
             : DLK_CONTAINER(g->waiting.next, struct dlk_ticket, link);
}

bool dlk_local_came_along(const struct dlk_hold *from,
                          const struct dlk_ticket *t) {
  return t->op.started < from->lease.handoffs.before;
}

bool dlk_local_expects(const struct dlk_hold *from,
                       const struct dlk_ticket *t) {
  const struct dlk_hold *to = t->hold;
  if (!from || !to->asked.hands_on || from->lease.ttl != to->lease.ttl ||
      strcmp(from->lease.owner, to->lease.owner) != 0)
    return false;
  return (from->asked.unfair && to->asked.unfair) ||
         (from->lease.handoffs.spare > 0 && dlk_local_came_along(from, t));
}

static void ask_for_fences(struct dlk_local_queue *g) {
  struct dlk_hold *h = g->head->hold;
  if (h->asked.hands_on && !h->asked.unfair)
    h->lease.handoffs.most = g->count < FAIR_MAX ? g->count : FAIR_MAX;
}

/* The store has one of ours, or the first waiter expects the lock. */
static bool at_rest(const struct dlk_local_queue *g) {
  const struct dlk_ticket *first = dlk_local_first(g);
  if (g->head)
    return true;
  return first ? dlk_local_expects(g->holder, first) : g->holder || g->asker;
}

/* Only here a ticket enters or leaves a queue. The link of one in the store is
 * not ours. */
static void stand(struct dlk_local_queue *g, struct dlk_ticket *t,
                  enum dlk_place place) {
  enum dlk_place was = t->place;
  if (was == DLK_PLACE_WAITS)
    g->count--;
  if (was == DLK_PLACE_WAITS || was == DLK_PLACE_LATE)
    dlk_list_remove(&t->link);
  if (was == DLK_PLACE_HEAD)
    g->head = NULL;
  if (was == DLK_PLACE_ASKS)
    g->asker = NULL;
  t->queue = place == DLK_PLACE_NONE ? NULL : g;
  t->place = place;
  if (place == DLK_PLACE_WAITS)
    g->count++;
  if (place == DLK_PLACE_WAITS || place == DLK_PLACE_LATE)
    dlk_list_append(place == DLK_PLACE_WAITS ? &g->waiting : &g->late,
                    &t->link);
  if (place == DLK_PLACE_HEAD)
    g->head = t;
  if (place == DLK_PLACE_ASKS)
    g->asker = t;
}

struct dlk_ticket *dlk_local_advance(struct dlk_local_queue *g) {
  struct dlk_ticket *t = dlk_local_first(g);
  stand(g, t, DLK_PLACE_HEAD);
  return t;
}

static void next_posted(struct dlk_post *post) {
  struct dlk_local_queue *g = DLK_CONTAINER(post, struct dlk_local_queue, next);
  if (at_rest(g))
    return;
  if (!dlk_local_first(g)) {
    dlk_map_remove(&g->engine->local->map, &g->node);
    dlk_list_remove(&g->all);
    free(g);
    return;
  }
  struct dlk_ticket *t = dlk_local_advance(g);
  t->op.queued = true;
  t->hold->lease.handoffs.before = dlk_clock_now();
  ask_for_fences(g);
  g->engine->calls->submit(t);
}

void dlk_local_look(struct dlk_local_queue *g) {
  if (!at_rest(g))
    dlk_inbox_put(&g->engine->loop.inbox, &g->next);
}

struct dlk_local_queue *dlk_local_find(struct dlk_engine *e, const char *key,
                                       size_t key_len, bool make) {
  if (!atomic_load_explicit(&e->loop.resident, memory_order_relaxed))
    return NULL;
  struct dlk_map *map = &e->local->map;
  struct dlk_map_node *n = dlk_map_get(map, key, key_len);
  if (n)
    return DLK_CONTAINER(n, struct dlk_local_queue, node);
  struct dlk_local_queue *g = make ? calloc(1, sizeof *g + key_len) : NULL;
  if (!g)
    return NULL;
  if (map->size == 0) {
    uint32_t seed;
    e->host.random(&e->host, &seed, sizeof seed);
    dlk_map_init(map, seed);
  }
  memcpy(g->key, key, key_len);
  g->engine = e;
  g->next.run = next_posted;
  dlk_list_init(&g->waiting);
  dlk_list_init(&g->late);
  if (!dlk_map_put(map, &g->node, g->key, key_len)) {
    free(g);
    return NULL;
  }
  dlk_list_append(&e->local->all, &g->all);
  return g;
}

bool dlk_local_join(struct dlk_ticket *t, bool behind) {
  struct dlk_engine *e = t->engine;
  if (t->queue || t->op.kind != DLK_OP_ACQUIRE || !t->op.wait ||
      t->hold->lease.want.units != 0)
    return false;
  struct dlk_local_queue *g =
      dlk_local_find(e, t->op.key, t->op.key_len, false);
  if (!g && behind)
    return false;
  if (!g) {
    g = dlk_local_find(e, t->op.key, t->op.key_len, true);
    if (g) /* without memory it waits in the store's queue */
      stand(g, t, DLK_PLACE_HEAD);
    return false;
  }
  stand(g, t, DLK_PLACE_WAITS);
  DLK_TRACE(dlk_clock_now(), "engine", "queue", t->op.key, t->op.key_len,
            "place %u in this process", (unsigned)g->count);
  if (g->head)
    ask_for_fences(g);
  dlk_timers_set_end(&e->loop.timers, &t->timer, t->op.deadline);
  dlk_local_look(g);
  return true;
}

void dlk_local_done(struct dlk_ticket *t) {
  struct dlk_local_queue *g = t->queue;
  if (t->place != DLK_PLACE_HEAD)
    return;
  stand(g, t, DLK_PLACE_NONE);
  dlk_local_look(g);
}

/* ---- tickets whose time is over ---- */

static void end_late(struct dlk_local_queue *g, const struct dlk_error *err) {
  while (!dlk_list_empty(&g->late))
    g->engine->calls->finish(
        DLK_CONTAINER(g->late.next, struct dlk_ticket, link), err);
}

static void end_asker(struct dlk_local_queue *g) {
  static const struct dlk_error timeout = {.code = DLK_TIMEOUT};
  struct dlk_ticket *asker = g->asker;
  const struct dlk_error *err = asker->error;
  bool silent = err && err->code == DLK_UNAVAILABLE;
  for (struct dlk_list *l = g->late.next; l != &g->late; l = l->next) {
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    snprintf(t->op.holder, sizeof t->op.holder, "%s", asker->op.holder);
  }
  stand(g, asker, DLK_PLACE_NONE);
  end_late(g, silent ? err : &timeout);
}

static void ask_store(struct dlk_local_queue *g) {
  const struct dlk_request r = {.kind = DLK_OP_LOCKED,
                                .key = g->key,
                                .key_len = g->node.len,
                                .timeout = -1};
  const struct dlk_request_calls *calls = g->engine->calls;
  struct dlk_ticket *t = calls->make(g->engine, &r);
  if (!t) {
    struct dlk_error err;
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
    end_late(g, &err);
    return;
  }
  dlk_ticket_drop_ref(t);
  t->op.names = true;
  stand(g, t, DLK_PLACE_ASKS);
  calls->submit(t);
}

void dlk_local_late(struct dlk_ticket *t) {
  struct dlk_local_queue *g = t->queue;
  stand(g, t, DLK_PLACE_LATE);
  dlk_local_look(g);
  if (!g->asker)
    ask_store(g);
}

bool dlk_local_late_head(struct dlk_ticket *t) {
  if (t->place != DLK_PLACE_HEAD || t->op.holder[0])
    return false;
  dlk_local_late(t);
  return true;
}

void dlk_local_gone(struct dlk_ticket *t) {
  struct dlk_local_queue *g = t->queue;
  enum dlk_place place = t->place;
  if (place == DLK_PLACE_NONE || place == DLK_PLACE_HEAD)
    return;
  if (place == DLK_PLACE_ASKS)
    end_asker(g);
  else
    stand(g, t, DLK_PLACE_NONE);
  if (place != DLK_PLACE_LATE)
    dlk_local_look(g);
}

static void end_of(struct dlk_list *list, uint32_t user,
                   const struct dlk_request_calls *calls) {
  static const struct dlk_error cancelled = {.code = DLK_CANCELLED};
  for (struct dlk_list *l = list->next, *next; l != list; l = next) {
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    next = l->next;
    if (user == 0 || t->user == user)
      calls->finish(t, &cancelled);
  }
}

void dlk_local_end_all(struct dlk_engine *e, uint32_t user) {
  for (struct dlk_list *l = e->local->all.next; l != &e->local->all;
       l = l->next) {
    struct dlk_local_queue *g = DLK_CONTAINER(l, struct dlk_local_queue, all);
    end_of(&g->waiting, user, e->calls);
    end_of(&g->late, user, e->calls);
  }
}
