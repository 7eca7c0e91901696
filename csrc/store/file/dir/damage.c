/* What is done about a table that something else has written into.
 *
 * A table whose file was truncated or overwritten no longer says who is in it,
 * but they go on believing it: to begin it anew and give the lock away would
 * make two holders. Nobody can be asked, for a holder may be stopped. But all
 * who may be in it live in this directory, and none of them believes in a hold
 * for longer than its ttl without looking at the table (a look renews it).
 * So
 *  - if no store lives here but ours, and no hold of the key is ours, there is
 *    nobody to protect;
 *  - otherwise the new table begins with a hold of nobody, which lasts as long
 *    as the longest ttl that was ever asked for here ("~store" knows it, see
 *    dlk_file_ttl_keep). All stores are told to look at what they hold, so
 *    those who have lost the lock know it long before.
 * Then the queue goes on; its waiters see that their entries are gone, and join
 * again. break_lock ends that hold as any other.
 *
 * One damaged header is enough: the other one is the state before the last
 * change (or, if it was the older one, the present state; that cannot be told),
 * and the last change may have been a grant. A process that is killed while it
 * writes does not leave that behind: a header lies within a page, and such a
 * write happens or does not. A loss of power may; what is done then cannot be
 * told from this and is the same, unless nobody lives here yet. */
#include "store/file/dir/damage.h"

#include <string.h>

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"

#define OWNER "a damaged lock file"

static bool is_needed(struct dlk_file_dir *d, const char *key, size_t len) {
  return d->user->holds(d, key, len) || dlk_file_peers_alive(d);
}

int dlk_file_guard(struct dlk_file_dir *d, const char *key, size_t len) {
  struct dlk_file_table *t = &d->table;
  int64_t ttl, now = d->host->now(d->host);
  if (!is_needed(d, key, len))
    return 0;
  dlk_file_peers_wake(d);
  dlk_file_peer_wake(d, d->instance, DLK_FILE_ALL);
  int error = dlk_file_ttl_longest(d, &ttl);
  uint32_t index = error == 0 ? dlk_file_table_take(t) : 0;
  if (index == 0)
    return error != 0 ? error : t->error;
  struct dlk_file_slot *guard = dlk_file_table_edit(t, index);
  guard->since = now;
  guard->until = dlk_time_add(now, ttl);
  guard->ttl = ttl;
  guard->fence = ++t->head.fence;
  memcpy(guard->owner, OWNER, sizeof OWNER);
  dlk_file_table_append(t, index, DLK_FILE_HELD);
  d->holders_changed = true;
  return t->error;
}
