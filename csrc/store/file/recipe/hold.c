/* Release, extend, renew.
 *
 * The kernel keeps a hold, so a renewal only looks at our slot, if possible
 * without the mutex. A hold without a slot is lost: it was broken, or its file
 * deleted. The engine hears of its lease no more (entry.c). An entry is claimed
 * until its release is through; without a claim it is dead to its store. */
#include "store/file/recipe/steps.h"

#include <errno.h>

#include "store/file/dir/meta.h"
#include "store/file/recipe/queue.h"

#define WHY_LOST "it was broken, or its lock file was deleted"

void dlk_file_release(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_entry *e = f->op->lease->data;
  struct dlk_file_key *k;
  int error = ENOENT;
  e->op = e->node.queued ? f->op : NULL;
  if (d->fd >= 0 && e->instance == d->instance)
    error = dlk_file_visit(f, false, &k);
  if (error == ECANCELED)
    return;
  bool ours = false;
  if (error == 0) {
    uint64_t seq = d->table.head.seq;
    ours = e->instance == d->instance && dlk_file_stands(d, e);
    if (ours)
      dlk_file_let_go(d, e->slot, f->op->unused);
    if (!dlk_file_finish_first(f, k, seq))
      return;
  }
  dlk_file_end_held(f, ours);
}

/* Under the mutex. ENOENT: not ours. Inspect shows the slot's ttl. */
static int enter_hold(struct dlk_file_dir *d, const struct dlk_lease *lease,
                      int64_t ttl, struct dlk_file_slot *slot) {
  struct dlk_file_key *k;
  struct dlk_file_entry *e = lease->data;
  int error = dlk_file_key_enter_own(d, lease->key, lease->key_len, e, &k);
  if (error != 0)
    return error;
  bool ours = dlk_file_stands(d, e);
  if (ours)
    *slot = *dlk_file_table_at(&d->table, e->slot);
  if (ours && slot->ttl != ttl)
    dlk_file_table_edit(&d->table, e->slot)->ttl = ttl;
  error = dlk_file_commit(d, k);
  return error == 0 && !ours ? ENOENT : error;
}

/* 0, or ENOENT: not ours. Without the mutex, if that tells. */
static int check_hold(struct dlk_file_dir *d, struct dlk_lease *lease,
                      int64_t ttl) {
  struct dlk_file_slot slot;
  int error =
      dlk_file_key_peek(d, lease->key, lease->key_len, lease->data, &slot);
  if (error == EAGAIN)
    error = enter_hold(d, lease, ttl, &slot);
  else if (error == 0 && slot.ttl != ttl &&
           enter_hold(d, lease, ttl, &slot) == ENOENT)
    error = ENOENT; /* any other failure leaves only the old ttl there */
  return error == 0 && slot.list != DLK_FILE_HELD ? ENOENT : error;
}

/* Without its name newcomers take our pipe for dead. Stores that have it open
 * must see us die, or they wait for lost holds. Our waiters join anew. */
static void lose_all(struct dlk_file_store *s) {
  dlk_file_entries_lose(s, WHY_LOST);
  dlk_file_wake_close(&s->dir);
  dlk_file_look(&s->dir, DLK_FILE_ALL);
}

void dlk_file_extend(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_file_dir *d = &s->dir;
  struct dlk_lease *lease = f->op->lease;
  int64_t now = d->host->now(d->host);
  bool all_lost = dlk_file_wake_lost(d);
  int error = all_lost ? ENOENT : 0;
  if (error == 0)
    error = dlk_file_ttl_keep(d, f->op->ttl);
  if (error == 0)
    error = check_hold(d, lease, f->op->ttl);
  if (error == 0)
    lease->sent = now;
  if (error == 0 || error == ENOENT)
    dlk_file_end_held(f, error == 0);
  else
    dlk_file_fail(f, error);
  if (all_lost)
    lose_all(s);
}

void dlk_file_renew(void *store, struct dlk_lease *const *leases,
                    size_t count) {
  struct dlk_file_store *s = store;
  struct dlk_file_dir *d = &s->dir;
  struct dlk_host *h = d->host;
  bool all_lost = d->wake < 0 || dlk_file_wake_lost(d);
  for (size_t i = 0; i < count; i++) {
    int64_t now = h->now(h);
    int error = all_lost ? ENOENT : check_hold(d, leases[i], leases[i]->ttl);
    if (error == 0) {
      h->renewed(h, leases[i], now);
    } else if (error == ENOENT) {
      dlk_file_forget(s, leases[i]->data);
      h->lost(h, leases[i], WHY_LOST);
    } else {
      h->renew_failed(h, leases[i]);
    }
  }
  if (all_lost)
    lose_all(s);
}
