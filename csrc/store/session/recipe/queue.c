/* Contenders stand in the order of their numbers. One holds when it fits beside
 * everything ahead (kit/admission.h): grants follow the queue.
 *
 * What to watch, so that no release is missed or wakes a herd:
 * - exclusive: the nearest node ahead.
 * - shared behind an exclusive one: the nearest exclusive one ahead.
 * - semaphore: the nearest nodes ahead whose units reach limit - mine + 1.
 *   While all stand it cannot hold. The node ahead alone would not do (limit 2:
 *   A and B hold, C watches B, A leaves). */
#include "store/session/recipe/queue.h"

#include <stdlib.h>
#include <string.h>

#include "store/kit/admission.h"

static int by_seq(const void *a, const void *b) {
  const struct dlk_ss_entry *x = a, *y = b;
  if (x->seq == y->seq) {
    int order = strcmp(x->guid, y->guid);
    return order != 0 ? order : (x->until_ms > 0) - (y->until_ms > 0);
  }
  return dlk_ss_seq_before(x->seq, y->seq) ? -1 : 1;
}

/* A stand-in counts only without its contender. */
static void drop_doubles(struct dlk_ss_queue *q) {
  size_t to = 0;
  for (size_t i = 0; i < q->count; i++) {
    const struct dlk_ss_entry *e = &q->at[i];
    bool stands = to > 0 && e->until_ms > 0 && q->at[to - 1].until_ms == 0 &&
                  memcmp(q->at[to - 1].guid, e->guid, DLK_SS_GUID) == 0;
    if (!stands)
      q->at[to++] = *e;
  }
  q->count = to;
}

bool dlk_ss_queue_read(struct dlk_ss_queue *q, char *const *names,
                       size_t count) {
  q->count = 0;
  q->at = malloc((count ? count : 1) * sizeof *q->at);
  if (!q->at)
    return false;
  for (size_t i = 0; i < count; i++)
    if (dlk_ss_name_parse(names[i], &q->at[q->count]))
      q->count++;
  if (q->count > 1)
    qsort(q->at, q->count, sizeof *q->at, by_seq);
  drop_doubles(q);
  return true;
}

void dlk_ss_queue_free(struct dlk_ss_queue *q) {
  free(q->at);
  q->at = NULL;
  q->count = 0;
}

void dlk_ss_queue_take_out(struct dlk_ss_queue *q, size_t place) {
  memmove(q->at + place, q->at + place + 1,
          (--q->count - place) * sizeof *q->at);
}

int64_t dlk_ss_queue_first_end(const struct dlk_ss_queue *q,
                               const struct dlk_ss_judgement *j) {
  bool all = j->verdict == DLK_SS_WATCH_LIST;
  int64_t first = 0;
  for (size_t i = 0; i < (all ? j->me : j->watch_count); i++) {
    int64_t end = q->at[all ? i : j->watch[i]].until_ms;
    if (end > 0 && (first == 0 || end < first))
      first = end;
  }
  return first;
}

void dlk_ss_queue_downgrade(struct dlk_ss_queue *q, size_t place) {
  q->at[place].units = 1;
  q->at[place].cap = 0;
}

/* Nearest first, until they alone keep it out. */
static void watch_units(const struct dlk_ss_queue *q,
                        const struct dlk_ss_entry *me, size_t place,
                        struct dlk_ss_judgement *out) {
  uint64_t spare = me->units > me->cap ? 0 : me->cap - me->units;
  uint64_t sum = 0;
  out->verdict = DLK_SS_WATCH_NODES;
  for (size_t i = place; i-- > 0 && sum <= spare;) {
    if (out->watch_count == DLK_SS_WATCH_MAX) {
      out->verdict = DLK_SS_WATCH_LIST;
      out->watch_count = 0;
      return;
    }
    out->watch[out->watch_count++] = i;
    sum += q->at[i].units;
  }
}

static void judge(const struct dlk_ss_queue *q, const struct dlk_ss_entry *me,
                  size_t place, struct dlk_ss_judgement *out) {
  out->me = place;
  out->watch_count = 0;
  const struct dlk_want want = {me->units, me->cap};
  uint64_t ahead = 0;
  out->verdict = DLK_SS_HOLDS;
  for (size_t i = place; i-- > 0;) {
    const struct dlk_ss_entry *other = &q->at[i];
    switch (dlk_beside(want, (struct dlk_want){other->units, other->cap})) {
    case DLK_BESIDE_EXCLUDES:
      out->verdict = DLK_SS_WATCH_NODES;
      out->watch[0] = i;
      out->watch_count = 1;
      return;
    case DLK_BESIDE_OTHER_LIMIT:
      out->verdict = DLK_SS_OTHER_LIMIT;
      return;
    case DLK_BESIDE_FITS:
      ahead += other->units;
    }
  }
  if (!dlk_within(want, ahead))
    watch_units(q, me, place, out);
}

void dlk_ss_queue_judge(const struct dlk_ss_queue *q, size_t place,
                        struct dlk_ss_judgement *out) {
  *out = (struct dlk_ss_judgement){.verdict = DLK_SS_ABSENT, .me = place};
  if (place < q->count)
    judge(q, &q->at[place], place, out);
}

void dlk_ss_queue_judge_newcomer(const struct dlk_ss_queue *q, uint32_t units,
                                 uint32_t cap, struct dlk_ss_judgement *out) {
  const struct dlk_ss_entry me = {.units = units, .cap = cap};
  judge(q, &me, q->count, out);
}
