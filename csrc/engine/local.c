/* The local queue: of the waiters for one key in one engine only the first
 * stands in the store's queue; the others are parked here, in order. A worker
 * of nginx with 500 handlers waiting for one lock thus costs the server one
 * entry, and each hand-over the same few requests whatever their number.
 *
 * A gate exists for a key while somebody waits for it: the head, which the
 * store has, and those parked behind. When the store is done with the head
 * (granted or not) the next one becomes the head, in a turn of its own: a
 * store that fails at once would otherwise be called ever deeper. So between
 * the head's end and its successor's start the gate stands without a head,
 * and whoever comes in that moment is parked at the end: order is kept.
 *
 * A parked ticket was not submitted, so its time-out and its cancel end it
 * without the store, by the ordinary way (dlk_ticket_finish takes it out of
 * the list). At close all of them are ended before the heads are.
 *
 * Only exclusive waits, and only in resident mode: elsewhere a thread waits
 * for one thing at a time, and a look here would be for nothing. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

struct dlk_gate {
  struct dlk_map_node node;
  struct dlk_list all;    /* in e->gates */
  struct dlk_list parked; /* tickets */
  struct dlk_ticket *head;
  struct dlk_post next;
  struct dlk_engine *engine;
  char key[];
};

void dlk_local_init(struct dlk_engine *e) {
  dlk_list_init(&e->gates);
}

void dlk_local_clear(struct dlk_engine *e) {
  while (!dlk_list_empty(&e->gates)) {
    struct dlk_gate *g = DLK_CONTAINER(e->gates.next, struct dlk_gate, all);
    dlk_list_remove(&g->all);
    free(g);
  }
  dlk_map_clear(&e->gate_map);
}

static void free_gate(struct dlk_gate *g) {
  dlk_map_remove(&g->engine->gate_map, &g->node);
  dlk_list_remove(&g->all);
  free(g);
}

static void next_posted(struct dlk_post *post) {
  struct dlk_gate *g = DLK_CONTAINER(post, struct dlk_gate, next);
  if (dlk_list_empty(&g->parked)) {
    free_gate(g);
    return;
  }
  struct dlk_ticket *t = DLK_CONTAINER(g->parked.next, struct dlk_ticket, link);
  dlk_list_remove(&t->link);
  g->head = t;
  dlk_ticket_submit(t);
}

static struct dlk_gate *new_gate(struct dlk_engine *e,
                                 const struct dlk_ticket *t) {
  struct dlk_gate *g = calloc(1, sizeof *g + t->op.key_len);
  if (!g)
    return NULL;
  if (e->gate_map.size == 0) {
    uint32_t seed;
    e->host.random(&e->host, &seed, sizeof seed);
    dlk_map_init(&e->gate_map, seed);
  }
  memcpy(g->key, t->op.key, t->op.key_len);
  g->engine = e;
  g->next.run = next_posted;
  dlk_list_init(&g->next.link);
  dlk_list_init(&g->parked);
  if (!dlk_map_put(&e->gate_map, &g->node, g->key, t->op.key_len)) {
    free(g);
    return NULL;
  }
  dlk_list_append(&e->gates, &g->all);
  return g;
}

bool dlk_local_park(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (!atomic_load_explicit(&e->resident, memory_order_relaxed) || t->gate ||
      t->op.kind != DLK_OP_ACQUIRE || !t->op.wait || t->request.want.units != 0)
    return false;
  struct dlk_map_node *n = dlk_map_get(&e->gate_map, t->op.key, t->op.key_len);
  if (!n) { /* out of memory: it waits in the store's queue, as ever */
    t->gate = new_gate(e, t);
    if (t->gate)
      t->gate->head = t;
    return false;
  }
  t->gate = DLK_CONTAINER(n, struct dlk_gate, node);
  dlk_list_append(&t->gate->parked, &t->link);
  if (t->op.deadline != DLK_FOREVER)
    dlk_heap_put(&e->timers, &t->timer.node, t->op.deadline);
  return true;
}

void dlk_local_done(struct dlk_ticket *t) {
  struct dlk_gate *g = t->gate;
  if (!g || g->head != t)
    return;
  t->gate = NULL;
  g->head = NULL;
  dlk_driver_post(g->engine, &g->next, true);
}

void dlk_local_end_all(struct dlk_engine *e) {
  for (struct dlk_list *l = e->gates.next; l != &e->gates; l = l->next) {
    struct dlk_gate *g = DLK_CONTAINER(l, struct dlk_gate, all);
    while (!dlk_list_empty(&g->parked))
      dlk_ticket_finish_code(
          DLK_CONTAINER(g->parked.next, struct dlk_ticket, link),
          DLK_CANCELLED);
  }
}
