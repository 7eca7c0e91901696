/* The ZooKeeper store's admission and watch rule (queue.c) in random
 * histories: contenders come, leave, die and are downgraded on a modelled
 * server that hands out numbers (across the wrap), lists children in any
 * order and fires each watch once; a contender that was woken lists again
 * some time later. Checked against a plain queue:
 *
 * - nobody holds whom the plain queue does not let in, at any moment;
 * - when every woken one has listed again, whoever the plain queue lets in
 *   holds: nobody sleeps on a free lock;
 * - of exclusive contenders at most one is woken by one leaving;
 * - those are refused, and only those, ahead of whom others share under another
 *   limit with no exclusive one between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"
#include "store/session/recipe/queue.h"

#define NODES 40
#define STEPS 100
#define NAME (DLK_SS_NAME_MAX + 16)

struct node {
  bool there, holds, stale, downgraded;
  bool watch_list, watches[NODES]; /* set by this one */
  unsigned id;
  uint32_t units, cap;
  char name[NAME];
};

static struct node nodes[NODES];
static struct plain plain;
static int32_t next_seq;
static unsigned next_id;
static uint64_t kind;

static void guid_of(char out[DLK_SS_GUID + 1], unsigned id) {
  snprintf(out, DLK_SS_GUID + 1, "%032x", id * 2654435761u);
}

static void want(uint32_t *units, uint32_t *cap) {
  uint32_t k = (uint32_t)(kind % 4);
  *units = *cap = 0;
  if (k == 1 || (k == 3 && sim_roll(2)))
    *units = sim_roll(3) != 0;
  if (k == 2) {
    *cap = kind % 3 ? 2 + (uint32_t)(kind % 7) : 20;
    *units =
        1 + (kind % 3 ? sim_roll(sim_roll(2) ? 2 : *cap) : sim_roll(12) == 0);
  }
  if (kind % 8 == 6) { /* two limits and writers in between */
    *units = sim_roll(3) != 0;
    *cap = *units ? 3 + sim_roll(2) : 0;
  }
}

/* ---- the server ---- */

static size_t children(char *out[NODES + 1]) {
  static char nobody[] = "lock-0000000007";
  size_t n = 0;
  for (size_t i = 0; i < NODES; i++)
    if (nodes[i].there)
      out[n++] = nodes[i].name;
  if (sim_roll(3) == 0)
    out[n++] = nobody;
  for (size_t i = n; i > 1; i--) {
    size_t k = sim_roll((uint32_t)i);
    char *swap = out[i - 1];
    out[i - 1] = out[k];
    out[k] = swap;
  }
  return n;
}

static struct node *by_name(const char *name) {
  for (size_t i = 0; i < NODES; i++)
    if (nodes[i].there && strcmp(nodes[i].name, name) == 0)
      return &nodes[i];
  return NULL;
}

/* Fires what watches the node (gone: and the list); how many were woken. */
static int fire(size_t which, bool list_too, bool node_too) {
  int woken = 0;
  for (size_t i = 0; i < NODES; i++) {
    struct node *n = &nodes[i];
    if (!n->there ||
        !((node_too && n->watches[which]) || (list_too && n->watch_list)))
      continue;
    n->watches[which] = false;
    if (list_too)
      n->watch_list = false;
    if (!n->holds && !n->stale)
      woken++;
    n->stale = true;
  }
  return woken;
}

/* ---- contenders ---- */

static void go(size_t i);

static void judge(struct node *me, struct dlk_ss_queue *q,
                  struct dlk_ss_judgement *j) {
  char guid[DLK_SS_GUID + 1];
  guid_of(guid, me->id);
  size_t place = 0;
  while (place < q->count && memcmp(q->at[place].guid, guid, DLK_SS_GUID) != 0)
    place++;
  for (;;) { /* as place.c: who shares looks past downgraded holds */
    dlk_ss_queue_judge(q, place, j);
    if (j->verdict != DLK_SS_WATCH_NODES || me->units == 0 ||
        j->watch_count == 0 || q->at[j->watch[0]].units != 0)
      return;
    if (!by_name(q->at[j->watch[0]].name)->downgraded)
      return;
    dlk_ss_queue_downgrade(q, j->watch[0]);
  }
}

static void list(struct node *me) {
  char *names[NODES + 1];
  struct dlk_ss_queue q;
  struct dlk_ss_judgement j;
  size_t n = children(names);
  if (!dlk_ss_queue_read(&q, names, n))
    abort();
  judge(me, &q, &j);
  me->stale = false;
  bool refused = plain_refuses(&plain, me->id, me->units, me->cap);
  if (refused != (j.verdict == DLK_SS_OTHER_LIMIT)) {
    sim_wrong("#%u: verdict %d, due to be refused: %d", me->id, (int)j.verdict,
              refused);
  } else if (j.verdict == DLK_SS_OTHER_LIMIT) {
    go((size_t)(me - nodes));
  } else if (j.verdict == DLK_SS_HOLDS) {
    if (!plain_holds(&plain, me->id))
      sim_wrong("#%u believes to hold, out of turn", me->id);
    me->holds = true;
    sim_say("  #%u holds", me->id);
  } else if (j.verdict == DLK_SS_WATCH_LIST) {
    me->watch_list = true;
  } else if (j.verdict == DLK_SS_WATCH_NODES) {
    if (j.watch_count == 0)
      sim_wrong("#%u watches nothing", me->id);
    for (size_t i = 0; i < j.watch_count; i++) {
      struct node *w = by_name(q.at[j.watch[i]].name);
      me->watches[w - nodes] = true;
      sim_say("  #%u watches #%u", me->id, w->id);
    }
  } else {
    sim_wrong("#%u: verdict %d", me->id, (int)j.verdict);
  }
  dlk_ss_queue_free(&q);
}

static void come(void) {
  size_t i = 0;
  while (i < NODES && nodes[i].there)
    i++;
  if (i == NODES)
    return;
  struct node *n = &nodes[i];
  char guid[DLK_SS_GUID + 1], base[DLK_SS_NAME_MAX];
  *n = (struct node){.there = true, .stale = true, .id = ++next_id};
  want(&n->units, &n->cap);
  guid_of(guid, n->id);
  dlk_ss_name_format(base, n->units, n->cap, false, guid, "0123456789abcdef");
  snprintf(n->name, sizeof n->name, "%s%010d", base, (int)next_seq);
  next_seq = (int32_t)((uint32_t)next_seq + 1);
  plain_join(&plain, n->id, n->units, n->cap);
  sim_say("#%u comes: %s", n->id, n->name);
  fire(NODES - 1, true, false);
}

static void go(size_t i) {
  struct node *n = &nodes[i];
  sim_say("#%u goes", n->id);
  n->there = false;
  plain_leave(&plain, n->id);
  int woken = fire(i, true, true);
  if (kind % 4 == 0 && woken > 1)
    sim_wrong("%d were woken when #%u left", woken, n->id);
  memset(n, 0, sizeof *n);
}

/* An exclusive holder becomes a reader. */
static void downgrade(size_t i) {
  struct node *n = &nodes[i];
  if (!n->holds || n->units != 0 || n->downgraded)
    return;
  sim_say("#%u is downgraded", n->id);
  n->downgraded = true;
  for (size_t k = 0; k < plain.held; k++)
    if (plain.holders[k].id == n->id)
      plain.holders[k].units = 1;
  plain_admit(&plain);
  fire(i, false, true);
}

static void settle(void) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < NODES; i++)
      if (nodes[i].there && nodes[i].stale && !nodes[i].holds) {
        list(&nodes[i]);
        again = true;
      }
  }
  for (size_t i = 0; i < NODES; i++)
    if (nodes[i].there && !nodes[i].holds && plain_holds(&plain, nodes[i].id))
      sim_wrong("#%u sleeps though it may hold", nodes[i].id);
}

static void history(uint64_t seed) {
  memset(nodes, 0, sizeof nodes);
  memset(&plain, 0, sizeof plain);
  kind = seed;
  next_id = 0;
  next_seq = (int32_t)((uint32_t)(sim_roll(2) ? INT32_MAX : 0) - sim_roll(30));
  for (int step = 0; step < STEPS; step++) {
    size_t i = sim_roll(NODES);
    uint32_t what = sim_roll(10);
    if (what < 5)
      come();
    else if (what < 7 && nodes[i].there)
      go(i);
    else if (what == 7 && nodes[i].there)
      downgrade(i);
    else if (nodes[i].there && nodes[i].stale && !nodes[i].holds)
      list(&nodes[i]);
    if (sim_roll(4) == 0)
      settle();
  }
  settle();
}

int main(int argc, char **argv) {
  return sim_main(argc, argv, history);
}
