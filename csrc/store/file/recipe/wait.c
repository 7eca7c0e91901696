/* A waiter joins the queue, looks when woken, leaves.
 *
 * W1  A message, a watched store's death, the end of a min_hold or the timer
 *     makes it look. The look depends on the table alone, so a message may come
 *     late, twice, or for nothing.
 * W2  It reads its slot without the mutex first: HELD is so, for only we and
 *     break_lock take it away. Else it takes the mutex, which its waker has
 *     until the commit.
 * W3  An entry that is gone (directory emptied, file damaged) joins anew under
 *     a new token. */
#include "store/file/recipe/steps.h"

#include <errno.h>

#include "core/trace.h"
#include "store/file/recipe/queue.h"

#define NET_FIRST (DLK_SEC / 2)
#define NET_BEHIND (4 * DLK_SEC)
#define NET_BLIND (DLK_SEC / 20) /* we could not watch: look often */

/* Looks again at `wake`, or after half to all of `net`: a wake-up may be
 * lost. */
static void sleep_for(struct dlk_file_op *f, int64_t wake, int64_t net) {
  struct dlk_host *h = f->store->dir.host;
  uint16_t r;
  h->random(h, &r, sizeof r);
  int64_t at = h->now(h) + net / 2 + net / 2 * r / 65536;
  h->timer_set(h, &f->timer, wake < at ? wake : at);
}

static void got(struct dlk_file_op *f, int64_t fence, int64_t now) {
  struct dlk_lease *lease = f->op->lease;
  dlk_file_entry_of(f)->op = NULL;
  lease->fence = fence;
  lease->sent = now;
  DLK_TRACE(now, "file", "grant", lease->key, lease->key_len,
            "fence %lld, token ..%04x", (long long)fence,
            (unsigned)(dlk_file_entry_of(f)->token & 0xffff));
  dlk_file_end(f, NULL);
}

static void name_holder(struct dlk_file_op *f) {
  struct dlk_file_table *t = &f->store->dir.table;
  uint32_t index = t->head.first[DLK_FILE_HELD];
  if (index == 0)
    index = t->head.first[DLK_FILE_WAIT];
  if (index == 0)
    return;
  const struct dlk_file_slot *slot = dlk_file_table_at(t, index);
  if (dlk_file_ours(dlk_file_entry_of(f), slot))
    return;
  dlk_file_keep_owner(f->op, slot);
}

/* Watches the stores of all holders. ESRCH: one has just died. */
static int watch_holders(struct dlk_file_op *f, int64_t *wake) {
  struct dlk_file_table *t = &f->store->dir.table;
  uint32_t index = t->head.first[DLK_FILE_HELD];
  int64_t now = f->store->dir.host->now(f->store->dir.host);
  int blind = 0;
  for (int i = 0; i < DLK_FILE_SCAN && index != 0; i++) {
    struct dlk_file_slot h = *dlk_file_table_at(t, index);
    if (h.until > now && h.until < *wake)
      *wake = h.until;
    int error = h.instance == 0 ? 0
                                : dlk_file_peer_watch(&f->store->dir,
                                                      &f->watcher, h.instance);
    if (error == ESRCH && h.until <= now)
      return ESRCH;
    if (error != 0 && error != ESRCH)
      blind = error;
    index = h.next;
  }
  return index != 0 ? EMFILE : blind;
}

/* Watches or drops the waiter before. True: look again. */
static bool watch_before(struct dlk_file_op *f, uint32_t before, int *error) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_slot slot = *dlk_file_table_at(&d->table, before);
  *error = slot.instance == d->instance && !dlk_file_stays(d, &slot)
               ? ESRCH
               : dlk_file_peer_watch(d, &f->watcher, slot.instance);
  if (*error != ESRCH || dlk_file_table_room(&d->table) != 0)
    return false;
  dlk_file_table_drop(&d->table, before);
  return d->table.error == 0;
}

/* Under the mutex, for an entry that waits: drops the dead ahead, watches the
 * others, or finds itself HELD. False: another limit ahead refused it, and it
 * is gone. */
static bool arrange(struct dlk_file_op *f, struct dlk_file_entry *e) {
  struct dlk_file_table *t = &f->store->dir.table;
  int64_t wake = DLK_FOREVER;
  int error = 0;
  bool again = true;
  uint32_t before = 0;
  dlk_file_unwatch(f);
  for (int i = 0; again && i < DLK_FILE_SCAN; i++) {
    struct dlk_file_slot slot = *dlk_file_table_at(t, e->slot);
    if (t->error != 0 || slot.list != DLK_FILE_WAIT)
      return true;
    before = slot.prev;
    if (before != 0) {
      again = watch_before(f, before, &error);
      continue;
    }
    dlk_file_settle(&f->store->dir);
    if (dlk_file_table_at(t, e->slot)->list != DLK_FILE_WAIT)
      return true;
    error = watch_holders(f, &wake);
    again = error == ESRCH;
  }
  if (dlk_file_other_limit(&f->store->dir, f->op->lease->want, before)) {
    dlk_file_unwatch(f);
    dlk_file_withdraw(&f->store->dir, e->slot);
    return false;
  }
  sleep_for(f, wake,
            error != 0    ? NET_BLIND
            : before == 0 ? NET_FIRST
                          : NET_BEHIND);
  return true;
}

/* The table has no entry of the op. */
static void refuse_limit(struct dlk_file_op *f) {
  struct dlk_error err;
  dlk_error_other_limit(&err, f->op->key, f->op->key_len);
  dlk_file_end(f, &err);
}

/* Joins, or answers `busy`. */
static void join(struct dlk_file_op *f, struct dlk_file_entry *e) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_table *t = &d->table;
  struct dlk_lease *lease = f->op->lease;
  struct dlk_file_key *k;
  if (dlk_file_visit(f, true, &k) != 0)
    return;
  int64_t now = d->host->now(d->host);
  bool queue = t->head.count[DLK_FILE_WAIT] > 0;
  if (t->head.count[DLK_FILE_HELD] > 0 || (queue && !f->op->wait)) {
    if (!queue || !f->op->wait)
      dlk_file_settle(d);
    queue = t->head.count[DLK_FILE_WAIT] > 0;
  } else if (queue) {
    dlk_file_grant(d);
    queue = t->head.count[DLK_FILE_WAIT] > 0;
  }
  if (dlk_file_other_limit(d, lease->want, t->head.last[DLK_FILE_WAIT])) {
    if (dlk_file_finish(f, k))
      refuse_limit(f);
    return;
  }
  bool fits = !queue && dlk_file_fits(t, lease->want);
  if (!fits && !f->op->wait) {
    name_holder(f);
    if (dlk_file_finish(f, k))
      dlk_file_end_code(f, DLK_BUSY);
    return;
  }
  uint64_t before = t->head.seq;
  if (!dlk_file_enlist(f->store, e, f->op))
    t->error = ENOMEM;
  else
    dlk_file_join(d, e, lease, fits ? DLK_FILE_HELD : DLK_FILE_WAIT);
  bool refused = !fits && !arrange(f, e);
  struct dlk_file_slot slot = *dlk_file_table_at(t, e->slot);
  if (!dlk_file_finish_entry(f, k, before))
    return;
  if (refused) {
    refuse_limit(f);
  } else if (slot.list == DLK_FILE_HELD) {
    got(f, slot.fence, now);
  } else {
    name_holder(f);
    DLK_TRACE(now, "file", "queue", lease->key, lease->key_len, "token ..%04x",
              (unsigned)(e->token & 0xffff));
    f->phase = DLK_FILE_QUEUED;
    f->tries = 0;
  }
}

static void look(struct dlk_file_op *f, struct dlk_file_entry *e) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_lease *lease = f->op->lease;
  struct dlk_file_slot slot;
  struct dlk_file_key *k = NULL;
  int64_t now = d->host->now(d->host);
  int error = ENOENT;
  if (!dlk_file_wake_lost(d))
    error = dlk_file_key_peek(d, lease->key, lease->key_len, e, &slot);
  if (error == 0 && slot.list == DLK_FILE_HELD) {
    got(f, slot.fence, now);
    return;
  }
  if (error == 0 || error == EAGAIN)
    error = dlk_file_key_enter_own(d, lease->key, lease->key_len, e, &k);
  if (error == 0) {
    bool ours = dlk_file_stands(d, e);
    bool refused = ours && !arrange(f, e);
    if (ours)
      slot = *dlk_file_table_at(&d->table, e->slot);
    if (!dlk_file_finish(f, k))
      return;
    if (refused)
      refuse_limit(f);
    else if (ours && slot.list == DLK_FILE_HELD)
      got(f, slot.fence, now);
    if (ours)
      return;
    error = ENOENT;
  }
  if (error == ENOENT) {
    dlk_file_unwatch(f);
    f->phase = DLK_FILE_START;
    join(f, e);
  } else {
    dlk_file_retry(f);
  }
}

void dlk_file_acquire(struct dlk_file_op *f) {
  struct dlk_file_entry *e = dlk_file_entry_of(f);
  if (f->phase == DLK_FILE_START)
    join(f, e);
  else
    look(f, e);
}

/* Without a pipe we poll. */
static void change_unseen(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_key *k;
  int64_t fence = 0;
  int error = dlk_file_visit(f, false, &k);
  if (error == ECANCELED)
    return;
  if (error == 0) {
    uint32_t holder = dlk_file_first_in(d, DLK_FILE_HELD);
    if (holder != 0)
      fence = dlk_file_table_at(&d->table, holder)->fence;
    if (!dlk_file_finish(f, k))
      return;
  }
  if (fence != f->op->fence)
    dlk_file_end(f, NULL);
  else
    sleep_for(f, DLK_FOREVER, NET_FIRST);
}

/* A watcher has an entry in a list of its own (dlk_file_tell), and watches the
 * holders' stores. */
void dlk_file_change(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_table *t = &d->table;
  struct dlk_file_entry *e = dlk_file_entry_of(f);
  struct dlk_file_key *k;
  int64_t wake = DLK_FOREVER;
  if (dlk_file_ready(f) != 0)
    return;
  if (d->wake < 0) {
    change_unseen(f);
    return;
  }
  int error = dlk_file_visit(f, true, &k);
  if (error != 0)
    return;
  uint64_t before = t->head.seq;
  bool in = dlk_file_stands(d, e);
  dlk_file_settle(d);
  uint32_t holder = t->head.first[DLK_FILE_HELD];
  int64_t fence = holder == 0 ? 0 : dlk_file_table_at(t, holder)->fence;
  bool changed = fence != f->op->fence;
  if (changed && in)
    dlk_file_withdraw(d, e->slot);
  if (!changed) {
    if (!in && !dlk_file_enlist(f->store, e, f->op))
      t->error = ENOMEM;
    else if (!in)
      dlk_file_join(d, e, NULL, DLK_FILE_WATCH);
    dlk_file_unwatch(f);
    error = watch_holders(f, &wake);
  }
  if (!dlk_file_finish_entry(f, k, before))
    return;
  f->phase = DLK_FILE_QUEUED;
  f->tries = 0;
  if (changed) {
    dlk_file_end(f, NULL);
    return;
  }
  sleep_for(f, wake, error != 0 ? NET_BLIND : NET_FIRST);
}

/* Takes the entry out of the table; a grant that crossed it goes to the engine.
 * It goes on until it has the mutex: an entry left behind would block all. */
void dlk_file_leave(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_entry *e = dlk_file_entry_of(f);
  struct dlk_file_key *k;
  int64_t now = d->host->now(d->host);
  int error = dlk_file_key_enter_own(d, f->op->key, f->op->key_len, e, &k);
  struct dlk_file_slot slot = {0};
  if (error == 0) {
    if (dlk_file_stands(d, e))
      slot = *dlk_file_table_at(&d->table, e->slot);
    if (slot.list == DLK_FILE_WAIT || slot.list == DLK_FILE_WATCH) {
      name_holder(f);
      dlk_file_withdraw(d, e->slot);
    }
    error = dlk_file_commit(d, k);
  }
  if (error == 0 && slot.list == DLK_FILE_HELD) {
    got(f, slot.fence, now);
  } else if (error == 0 || error == ENOENT || f->op->ending == DLK_CLOSED) {
    /* The entry dies with our pipe. */
    dlk_file_end_code(f, f->op->ending);
  } else {
    dlk_file_retry(f);
  }
}
