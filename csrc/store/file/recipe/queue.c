/* The queue, under the key's mutex, by the rule of kit/admission.h. A newcomer
 * passes no living waiter. A waiter under another cap than the one right ahead
 * (A2) is refused when it joins, or when the exclusive one between them leaves
 * or is downgraded.
 *
 * Q1  A store that makes room grants to the waiters at the head that fit, and
 *     wakes exactly them.
 * Q2  Every waiter watches the stores in its way: the first one those of all
 *     holders, each other one that of the waiter before it (wait.c). At a death
 *     it drops the dead and grants.
 * Q3  Its watches change only when the waiter before it leaves, or a grant
 *     makes it the first. Either wakes it, unless it watched the one new holder
 *     already.
 * Q4  Wake, commit, unlock. Before each of the several commits of a large
 *     grant, the first waiter left is woken.
 *
 * Killed before the commit we are dead in the old table, and our watcher
 * repeats the work (Q2). Killed after it, all concerned were woken (Q4). A full
 * pipe may lose a wake-up: each waiter has a timer for that.
 *
 * An entry of our own store without a claim counts as dead; only our store can
 * tell. A min_hold (`until`) outlives its holder. After the release it belongs
 * to instance 0 and ends by the clock; the first waiter is woken to set a
 * timer.
 *
 * After BATCH grants the next waiter is woken and goes on. Up to DLK_FILE_SCAN
 * dead at the head are dropped at once, or a try takes them for a queue. */
#include "store/file/recipe/queue.h"

#include <errno.h>
#include <string.h>

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"
#include "store/kit/admission.h"

#define BATCH 32 /* grants in one hold of the mutex */

static struct dlk_want want_of(const struct dlk_file_slot *slot) {
  return (struct dlk_want){slot->units, slot->cap};
}

bool dlk_file_fits(struct dlk_file_table *t, struct dlk_want want) {
  uint32_t holder = t->head.last[DLK_FILE_HELD];
  struct dlk_want one = {0, 0};
  if (holder != 0)
    one = want_of(dlk_file_table_at(t, holder));
  return dlk_fits(want, holder == 0 ? NULL : &one, t->head.used);
}

bool dlk_file_stands(struct dlk_file_dir *d, const struct dlk_file_entry *e) {
  if (e->slot == 0 || e->slot > d->table.head.slots)
    return false;
  return dlk_file_ours(e, dlk_file_table_at(&d->table, e->slot));
}

bool dlk_file_stays(struct dlk_file_dir *d, const struct dlk_file_slot *slot) {
  if (slot->instance == d->instance && slot->instance != 0)
    return d->user->claims(d, slot->token);
  return dlk_file_peer_alive(d, slot->instance);
}

bool dlk_file_counts(struct dlk_file_dir *d, const struct dlk_file_slot *slot,
                     int64_t now) {
  return (slot->list == DLK_FILE_HELD && slot->until > now) ||
         dlk_file_stays(d, slot);
}

bool dlk_file_other_limit(struct dlk_file_dir *d, struct dlk_want want,
                          uint32_t before) {
  struct dlk_file_table *t = &d->table;
  uint32_t index = before != 0 ? before : t->head.last[DLK_FILE_HELD];
  if (index == 0)
    return false;
  struct dlk_file_slot ahead = *dlk_file_table_at(t, index);
  return dlk_beside(want, want_of(&ahead)) == DLK_BESIDE_OTHER_LIMIT &&
         dlk_file_counts(d, &ahead, d->host->now(d->host));
}

uint32_t dlk_file_first_in(struct dlk_file_dir *d, enum dlk_file_list list) {
  int64_t now = d->host->now(d->host);
  uint32_t index = d->table.head.first[list];
  for (int i = 0; i < DLK_FILE_SCAN && index != 0; i++) {
    struct dlk_file_slot slot = *dlk_file_table_at(&d->table, index);
    if (dlk_file_counts(d, &slot, now))
      return index;
    index = slot.next;
  }
  return 0;
}

static void hold(struct dlk_file_dir *d, uint32_t index) {
  struct dlk_file_table *t = &d->table;
  struct dlk_file_slot *slot = dlk_file_table_edit(t, index);
  int64_t now = d->host->now(d->host), min_hold = slot->until;
  slot->fence = ++t->head.fence;
  slot->since = now;
  slot->until = min_hold > 0 ? dlk_time_add(now, min_hold) : 0;
  dlk_file_table_append(t, index, DLK_FILE_HELD);
  d->holders_changed = true;
}

int dlk_file_join(struct dlk_file_dir *d, struct dlk_file_entry *e,
                  const struct dlk_lease *lease, enum dlk_file_list list) {
  struct dlk_file_table *t = &d->table;
  int error = dlk_file_table_room(t);
  /* Each waiter has a fence in reserve, so that no grant lacks one. */
  if (error == 0 && lease != NULL &&
      t->head.fence + t->head.count[DLK_FILE_WAIT] >= DLK_FILE_FENCES)
    error = t->error = ERANGE;
  if (error == 0 && lease != NULL)
    error = t->error = dlk_file_ttl_keep(d, lease->ttl);
  uint32_t index = error == 0 ? dlk_file_table_take(t) : 0;
  if (index != 0 && lease != NULL && lease->value_len > 0)
    t->error =
        dlk_file_table_set_value(t->fd, index, lease->value, lease->value_len);
  if (t->error != 0)
    return t->error;
  struct dlk_file_slot *slot = dlk_file_table_edit(t, index);
  slot->instance = d->instance;
  slot->token = e->token;
  slot->since = d->host->now(d->host);
  if (lease != NULL) {
    slot->units = lease->want.units;
    slot->cap = lease->want.cap;
    slot->until = lease->min_hold;
    slot->ttl = lease->ttl;
    slot->value_len = (uint16_t)lease->value_len;
    size_t n = lease->owner == NULL ? 0 : strlen(lease->owner);
    if (n >= sizeof slot->owner)
      n = sizeof slot->owner - 1;
    memcpy(slot->owner, lease->owner == NULL ? "" : lease->owner, n);
  }
  e->slot = index;
  e->instance = d->instance;
  if (list == DLK_FILE_HELD)
    hold(d, index);
  else
    dlk_file_table_append(t, index, list);
  return t->error;
}

static void wake_first(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  uint32_t index = t->head.first[DLK_FILE_WAIT];
  if (index == 0)
    return;
  struct dlk_file_slot w = *dlk_file_table_at(t, index);
  dlk_file_peer_wake(d, w.instance, w.token);
}

void dlk_file_grant(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  uint32_t index;
  int n = 0, granted = 0;
  for (; n < DLK_FILE_SCAN && granted < BATCH; n++) {
    if (dlk_file_table_full(t))
      wake_first(d);
    index = t->head.first[DLK_FILE_WAIT];
    if (index == 0 || dlk_file_table_room(t) != 0)
      return;
    struct dlk_file_slot w = *dlk_file_table_at(t, index);
    struct dlk_want want = want_of(&w);
    bool alive = dlk_file_stays(d, &w);
    if (alive && !dlk_file_fits(t, want)) {
      if (dlk_file_other_limit(d, want, 0))
        wake_first(d); /* it refuses itself */
      break;
    }
    if (!alive || !dlk_file_peer_wake(d, w.instance, w.token)) {
      dlk_file_table_drop(t, index);
      continue;
    }
    dlk_file_table_unlink(t, index);
    hold(d, index);
    if (t->error != 0)
      return;
    granted++;
  }
  bool more = granted == BATCH || n == DLK_FILE_SCAN;
  if (more || (n > 0 && t->head.count[DLK_FILE_HELD] > 1))
    wake_first(d);
}

void dlk_file_settle(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  if (d->read_only)
    return;
  uint32_t index = t->head.first[DLK_FILE_HELD];
  uint64_t alive = 0;
  int64_t now = d->host->now(d->host);
  for (int i = 0; i < DLK_FILE_SCAN && index != 0; i++) {
    if (dlk_file_table_room(t) != 0)
      return;
    struct dlk_file_slot h = *dlk_file_table_at(t, index);
    bool known = h.instance != 0 && h.instance == alive;
    if (!known && !dlk_file_counts(d, &h, now)) {
      dlk_file_table_drop(t, index);
      d->holders_changed = true;
    } else if (h.until <= now && h.instance != d->instance) {
      alive = h.instance;
    }
    index = h.next;
  }
  dlk_file_grant(d);
}

void dlk_file_let_go(struct dlk_file_dir *d, uint32_t index, bool unused) {
  struct dlk_file_table *t = &d->table;
  if (dlk_file_table_room(t) != 0)
    return;
  if (!unused && dlk_file_table_at(t, index)->until > d->host->now(d->host)) {
    dlk_file_table_edit(t, index)->instance = 0;
    wake_first(d);
    d->holders_changed = true;
    return;
  }
  dlk_file_table_drop(t, index);
  d->holders_changed = true;
  dlk_file_grant(d);
}

void dlk_file_withdraw(struct dlk_file_dir *d, uint32_t index) {
  struct dlk_file_table *t = &d->table;
  if (dlk_file_table_room(t) != 0)
    return;
  struct dlk_file_slot w = *dlk_file_table_at(t, index);
  bool waits = w.list == DLK_FILE_WAIT;
  if (waits && w.next != 0) {
    struct dlk_file_slot behind = *dlk_file_table_at(t, w.next);
    dlk_file_peer_wake(d, behind.instance, behind.token);
  }
  dlk_file_table_drop(t, index);
  if (waits && w.prev == 0 && t->error == 0)
    dlk_file_grant(d);
}

void dlk_file_tell(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  uint32_t index = t->head.first[DLK_FILE_WATCH];
  if (!d->holders_changed || t->error != 0)
    return;
  d->holders_changed = false;
  for (uint32_t i = 0; i < t->head.slots && index != 0; i++) {
    struct dlk_file_slot w = *dlk_file_table_at(t, index);
    if (dlk_file_table_room(t) != 0)
      return;
    bool ours = w.instance == d->instance;
    if ((ours && !dlk_file_stays(d, &w)) ||
        !dlk_file_peer_wake(d, w.instance, w.token))
      dlk_file_table_drop(t, index);
    index = w.next;
  }
}
