/* What happens to a hold: release, extend, renew, and news about it.
 *
 * Nothing has to be done to keep a hold: the kernel does. So renewing is only
 * a look at our slot, without the mutex where that tells. A hold that is not
 * in the table any more was broken, or its file was deleted; it is reported
 * as lost, and its lease is not named to the engine after that. A lease leaves
 * the store's map of entries before the engine may free it: with its release,
 * or with its loss. */
#include <errno.h>

#include "store/file/internal.h"

void dlk_file_release(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_file_entry *e = f->op->lease->data;
  struct dlk_file_key *k;
  dlk_file_forget(s, e);
  int error = ENOENT;
  if (s->dir >= 0 && e->instance == s->instance)
    error = dlk_file_visit(f, false, &k);
  if (error == ECANCELED)
    return;
  bool ours = false;
  if (error == 0) {
    ours = e->instance == s->instance && dlk_file_stands(s, e);
    if (ours)
      dlk_file_let_go(s, e->slot);
    error = dlk_file_key_leave(s, k);
    if (error != 0) {
      dlk_file_fail(f, error);
      return;
    }
  }
  if (ours)
    dlk_file_end(f, NULL);
  else
    dlk_file_end_code(f, DLK_LOST);
}

/* Under the mutex: whether the hold is ours. Its ttl, which is there to be
 * shown, becomes the present one. */
static int enter_hold(struct dlk_file_store *s, const struct dlk_lease *lease,
                      int64_t ttl, struct dlk_file_slot *slot) {
  struct dlk_file_key *k;
  const struct dlk_file_entry *e = lease->data;
  int error = dlk_file_key_enter(s, lease->key, lease->key_len, false, &k);
  if (error != 0)
    return dlk_file_key_gone(error) ? ENOENT : error;
  bool ours = dlk_file_stands(s, e);
  if (ours)
    *slot = *dlk_file_table_at(&s->table, e->slot);
  if (ours && slot->ttl != ttl)
    dlk_file_table_edit(&s->table, e->slot)->ttl = ttl;
  error = dlk_file_key_leave(s, k);
  return error == 0 && !ours ? ENOENT : error;
}

/* 0 while the hold is ours, ENOENT when it is not. Where a look without the
 * mutex does not tell, under the mutex. */
static int check_hold(struct dlk_file_store *s, struct dlk_lease *lease,
                      int64_t ttl) {
  struct dlk_file_slot slot;
  int error =
      dlk_file_key_peek(s, lease->key, lease->key_len, lease->data, &slot);
  if (error == EAGAIN)
    error = enter_hold(s, lease, ttl, &slot);
  else if (error == 0 && slot.ttl != ttl &&
           enter_hold(s, lease, ttl, &slot) == ENOENT)
    error = ENOENT; /* any other failure leaves only the old ttl there */
  return error == 0 && slot.list != DLK_FILE_HELD ? ENOENT : error;
}

void dlk_file_extend(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_lease *lease = f->op->lease;
  int64_t now = s->host->now(s->host);
  int error = dlk_file_wake_lost(s) ? ENOENT : 0;
  if (error == 0)
    error = dlk_file_ttl_keep(s, f->op->ttl);
  if (error == 0)
    error = check_hold(s, lease, f->op->ttl);
  if (error == ENOENT) {
    dlk_file_forget(s, lease->data);
    dlk_file_end_code(f, DLK_LOST);
  } else if (error != 0) {
    dlk_file_fail(f, error);
  } else {
    lease->sent = now;
    dlk_file_end(f, NULL);
  }
}

void dlk_file_renew(void *store, struct dlk_lease *const *leases,
                    size_t count) {
  struct dlk_file_store *s = store;
  struct dlk_host *h = s->host;
  bool all_lost = s->wake < 0 || dlk_file_wake_lost(s);
  for (size_t i = 0; i < count; i++) {
    int64_t now = h->now(h);
    int error = all_lost ? ENOENT : check_hold(s, leases[i], leases[i]->ttl);
    if (error == 0) {
      h->renewed(h, leases[i], now);
    } else if (error == ENOENT) {
      dlk_file_forget(s, leases[i]->data);
      h->lost(h, leases[i], "it was broken, or its lock file was deleted");
    } else {
      h->renew_failed(h, leases[i]);
    }
  }
}

/* A hold with news: it is gone, or somebody asked for it. */
static void look_at_hold(struct dlk_file_store *s, struct dlk_file_entry *e) {
  struct dlk_file_slot slot;
  struct dlk_lease *lease = e->lease;
  int error = dlk_file_key_peek(s, lease->key, lease->key_len, e, &slot);
  if (error == ENOENT) {
    dlk_file_forget(s, e);
    s->host->lost(s->host, lease, "it was broken");
  } else if (error == 0 && slot.asked && !e->told) {
    e->told = true;
    s->host->revoked(s->host, lease);
  }
}

void dlk_file_look(struct dlk_file_store *s, uint64_t token) {
  if (token == DLK_FILE_ALL && !s->stopping) {
    dlk_file_look_all(s);
    return;
  }
  struct dlk_map_node *node =
      dlk_map_get(&s->entries, (const char *)&token, sizeof token);
  if (node == NULL || s->stopping)
    return;
  struct dlk_file_entry *e = DLK_CONTAINER(node, struct dlk_file_entry, node);
  if (e->op != NULL)
    dlk_file_step(e->op->data);
  else
    look_at_hold(s, e);
}
