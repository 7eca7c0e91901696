/* Looks and administration.
 *
 * Break takes the holds out of the table; the next waiter does not wait until
 * the holders know. Holders look without the mutex, so here the commit comes
 * before the wake-up. A wake-up lost in between costs a holder the time to its
 * next renewal.
 *
 * list goes by the directory's order, which is stable for files that stay. A
 * page is bounded by the names looked at, so it may be short before the end. */
#include "store/file/recipe/steps.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/file/dir/meta.h"
#include "store/file/dir/process.h"
#include "store/file/recipe/queue.h"
#include "store/kit/shown.h"

static double seconds(int64_t ns) {
  return (double)ns / (double)DLK_SEC;
}

static struct dlk_value *show_one(struct dlk_file_dir *d, uint32_t index,
                                  const struct dlk_file_slot *slot,
                                  int64_t now) {
  struct dlk_want want = {slot->units, slot->cap};
  struct dlk_value *owner =
      dlk_value_string(slot->owner, strnlen(slot->owner, sizeof slot->owner));
  if (slot->list != DLK_FILE_HELD)
    return dlk_shown_waiter(owner, want, seconds(now - slot->since));
  /* Time left: ttl from now while the process lives, at least the min_hold. */
  int64_t left = slot->until - now;
  if (left <= slot->ttl && dlk_file_stays(d, slot))
    left = slot->ttl;
  struct dlk_value *v = dlk_shown_holder(
      owner, want, slot->fence, seconds(left), seconds(now - slot->since));
  if (slot->value_len > 0) {
    char value[DLK_FILE_VALUE];
    long n =
        dlk_file_table_get_value(d->table.fd, index, slot->value_len, value);
    v = dlk_value_set(v, "value",
                      dlk_value_string(value, n < 0 ? 0 : (size_t)n));
  }
  return v;
}

static struct dlk_value *show_list(struct dlk_file_dir *d,
                                   enum dlk_file_list list, int64_t now) {
  struct dlk_file_table *t = &d->table;
  struct dlk_value *v = dlk_value_list();
  uint32_t index = t->head.first[list];
  for (int i = 0; i < DLK_SHOWN_MAX && index != 0; i++) {
    struct dlk_file_slot slot = *dlk_file_table_at(t, index);
    if (dlk_file_counts(d, &slot, now))
      v = dlk_value_add(v, show_one(d, index, &slot, now));
    index = slot.next;
  }
  return v;
}

/* Ends the op. result NULL: out of memory. */
static void conclude(struct dlk_file_op *f, struct dlk_file_key *k,
                     struct dlk_value *result) {
  int error = k == NULL ? 0 : dlk_file_commit(&f->store->dir, k);
  if (error == 0 && result == NULL)
    error = ENOMEM;
  if (error == 0) {
    f->op->result = result;
    dlk_file_end(f, NULL);
  } else {
    dlk_value_free(result);
    dlk_file_fail(f, error);
  }
}

/* *k is NULL when there is no file. False: the op has ended or will be stepped
 * again. */
static bool visit(struct dlk_file_op *f, struct dlk_file_key **k) {
  int error = dlk_file_visit(f, false, k);
  if (error != 0)
    *k = NULL;
  return error != ECANCELED;
}

void dlk_file_ping(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  if (dlk_file_ready(f) != 0)
    return;
  int64_t sent = d->host->now(d->host);
  int error = dlk_file_meta_lock(d);
  if (error != 0) {
    dlk_file_fail(f, error);
    return;
  }
  dlk_file_unlock(d->meta);
  conclude(f, NULL, dlk_value_number(seconds(d->host->now(d->host) - sent)));
}

void dlk_file_locked(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_key *k;
  if (!visit(f, &k))
    return;
  if (k != NULL)
    dlk_file_settle(d);
  uint32_t holder = k != NULL ? dlk_file_first_in(d, DLK_FILE_HELD) : 0;
  if (holder != 0)
    dlk_file_keep_owner(f->op, dlk_file_table_at(&d->table, holder));
  conclude(f, k, dlk_value_bool(holder != 0));
}

void dlk_file_inspect(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_key *k;
  uint32_t first = 0;
  if (!visit(f, &k))
    return;
  if (k != NULL) {
    dlk_file_settle(d);
    first = dlk_file_first_in(d, DLK_FILE_HELD);
    if (first == 0)
      first = dlk_file_first_in(d, DLK_FILE_WAIT);
  }
  if (first == 0) {
    conclude(f, k, dlk_value_nil());
    return;
  }
  struct dlk_file_slot head = *dlk_file_table_at(&d->table, first);
  struct dlk_want want = {head.units, head.cap};
  int64_t now = d->host->now(d->host);
  conclude(f, k,
           dlk_shown_key(f->op, want, head.list == DLK_FILE_HELD,
                         show_list(d, DLK_FILE_HELD, now),
                         show_list(d, DLK_FILE_WAIT, now)));
}

void dlk_file_break(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_table *t = &d->table;
  struct dlk_file_key *k;
  bool any = false;
  if (!visit(f, &k))
    return;
  while (k != NULL && t->error == 0 && t->head.first[DLK_FILE_HELD] != 0) {
    uint32_t index = t->head.first[DLK_FILE_HELD];
    struct dlk_file_slot h = *dlk_file_table_at(t, index);
    dlk_file_table_drop(t, index);
    d->holders_changed = any = true;
    if (dlk_file_table_commit(t) != 0)
      break;
    dlk_file_peer_wake(d, h.instance, h.token);
  }
  if (k != NULL)
    dlk_file_grant(d);
  conclude(f, k, dlk_value_bool(any));
}

void dlk_file_revoke(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_table *t = &d->table;
  struct dlk_file_key *k;
  bool any = false;
  if (!visit(f, &k))
    return;
  if (k != NULL)
    dlk_file_settle(d);
  uint32_t index = k == NULL ? 0 : t->head.first[DLK_FILE_HELD];
  for (uint32_t i = 0; i < t->head.slots && index != 0; i++) {
    dlk_file_table_edit(t, index)->asked = 1;
    any = true;
    if (dlk_file_table_commit(t) != 0)
      break;
    struct dlk_file_slot h = *dlk_file_table_at(t, index);
    dlk_file_peer_wake(d, h.instance, h.token);
    index = h.next;
  }
  conclude(f, k, dlk_value_bool(any));
}

/* The key of a lease. False: the op has ended, or waits for the key. */
static bool visit_own(struct dlk_file_op *f, struct dlk_file_key **k) {
  int error = dlk_file_visit(f, false, k);
  if (error == ENOENT)
    dlk_file_end_held(f, false);
  return error == 0;
}

/* The slot leaves the list and comes back within one commit. Then readers at
 * the head get in, perhaps by more commits, which may fail: from the first one
 * on the lease is shared. */
void dlk_file_downgrade(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_entry *e = f->op->lease->data;
  struct dlk_file_table *t = &d->table;
  struct dlk_file_key *k;
  if (!visit_own(f, &k))
    return;
  uint64_t seq = t->head.seq;
  bool ours = dlk_file_stands(d, e);
  if (ours && dlk_file_table_at(t, e->slot)->units == 0) {
    dlk_file_table_unlink(t, e->slot);
    struct dlk_file_slot *slot = dlk_file_table_edit(t, e->slot);
    slot->units = 1;
    slot->cap = 0;
    dlk_file_table_append(t, e->slot, DLK_FILE_HELD);
    d->holders_changed = true;
    dlk_file_grant(d);
  }
  if (dlk_file_finish_first(f, k, seq))
    dlk_file_end_held(f, ours);
}

/* The key, without its prefix, in a file that is held or waited for; -1: none,
 * or not of that name. */
static long used_key(struct dlk_file_dir *d, const char *name,
                     const struct dlk_op *op, char key[DLK_FILE_NAMED]) {
  struct dlk_file_table *t = &d->table;
  size_t skip = d->prefix_len;
  int fd = dlk_file_key_open(d, name, false);
  if (fd < 0)
    return -1;
  int error = dlk_file_table_load(t, fd);
  for (int i = 0; i < 3 && error == EUCLEAN; i++)
    error = dlk_file_table_load(t, fd);
  long n = error == 0 ? dlk_file_table_get_key(fd, key) : -1;
  bool match =
      n >= (long)(skip + op->key_len) &&
      dlk_file_name_is(name, key, (size_t)n) &&
      memcmp(key, d->prefix, skip) == 0 &&
      (op->key_len == 0 || memcmp(key + skip, op->key, op->key_len) == 0);
  bool used = match && !dlk_file_remnant(d) &&
              (dlk_file_first_in(d, DLK_FILE_HELD) != 0 ||
               dlk_file_first_in(d, DLK_FILE_WAIT) != 0);
  dlk_file_fd_close(fd);
  if (!used)
    return -1;
  memmove(key, key + skip, (size_t)n - skip);
  return n - (long)skip;
}

void dlk_file_list(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  const struct dlk_op *op = f->op;
  /* A number of telldir, perhaps negative, written without a sign. */
  errno = 0;
  unsigned long from = op->text_len > 0 ? strtoul(op->text, NULL, 10) : 0;
  if (errno != 0 ||
      (op->text_len > 0 && strspn(op->text, "0123456789") != op->text_len)) {
    dlk_file_end_code(f, DLK_INVALID);
    return;
  }
  if (dlk_file_ready(f) != 0)
    return;
  DIR *dir = dlk_file_dir_list(d);
  if (dir == NULL) {
    dlk_file_fail(f, errno);
    return;
  }
  if (op->text_len > 0)
    seekdir(dir, (long)from);
  struct dlk_value *keys = dlk_value_list();
  size_t found = 0, limit = op->limit == 0 ? DLK_PAGE_MAX : op->limit;
  const struct dirent *entry = NULL;
  for (int i = 0; i < DLK_PAGE_MAX && found < limit; i++) {
    char key[DLK_FILE_NAMED];
    entry = readdir(dir);
    if (entry == NULL)
      break;
    if (entry->d_name[0] == '.' ||
        (entry->d_name[0] == '~' && entry->d_name[1] != 'h'))
      continue;
    long n = used_key(d, entry->d_name, op, key);
    if (n < 0)
      continue;
    keys = dlk_value_add(keys, dlk_value_string(key, (size_t)n));
    found++;
  }
  char cursor[32];
  snprintf(cursor, sizeof cursor, "%lu", (unsigned long)telldir(dir));
  struct dlk_value *v = dlk_value_add(dlk_value_tuple(), keys);
  v = dlk_value_add(v, entry == NULL
                           ? dlk_value_nil()
                           : dlk_value_string(cursor, strlen(cursor)));
  closedir(dir);
  conclude(f, NULL, v);
}

/* ---- publish ---- */

/* A value is read under the key's lock, so nobody sees half of one. */
void dlk_file_publish(struct dlk_file_op *f) {
  struct dlk_file_dir *d = &f->store->dir;
  struct dlk_file_entry *e = f->op->lease->data;
  struct dlk_file_table *t = &d->table;
  struct dlk_file_key *k;
  if (!visit_own(f, &k))
    return;
  uint64_t seq = t->head.seq;
  bool ours = dlk_file_stands(d, e);
  if (ours)
    t->error =
        dlk_file_table_set_value(t->fd, e->slot, f->op->text, f->op->text_len);
  if (ours && t->error == 0)
    dlk_file_table_edit(t, e->slot)->value_len = (uint16_t)f->op->text_len;
  if (dlk_file_finish_first(f, k, seq))
    dlk_file_end_held(f, ours);
}
