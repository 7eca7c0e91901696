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
 * Where only one of the two headers is damaged, the other one is the state
 * before the last change (or, if it was the older one, the present state; that
 * cannot be told). It is used, with such a hold beside those that it shows:
 * the last change may have been a grant. A process that is killed while it
 * writes does not leave that behind: a header lies within a page, and such a
 * write happens or does not. A loss of power may, but then the table is a
 * remnant (key.c). */
#include <stdlib.h>
#include <string.h>

#include "store/file/internal.h"

#define OWNER "a damaged lock file"

/* Whether a hold of ours is one of this key. */
static bool ours(const struct dlk_file_store *s, const char *key, size_t len) {
  for (size_t i = 0; i < s->entries.size; i++)
    for (struct dlk_map_node *n = s->entries.buckets[i]; n; n = n->next) {
      const struct dlk_file_entry *e =
          DLK_CONTAINER(n, struct dlk_file_entry, node);
      if (e->lease != NULL && e->op == NULL && e->lease->key_len == len &&
          memcmp(e->lease->key, key, len) == 0)
        return true;
    }
  return false;
}

/* Tells all other stores that live to look at what they hold. False: there
 * are none. */
static bool tell_others(struct dlk_file_store *s) {
  bool any = false;
  const struct dirent *d;
  DIR *dir = dlk_file_dir_list(s);
  if (dir == NULL)
    return true;
  while ((d = readdir(dir)) != NULL) {
    uint64_t instance;
    if (!dlk_file_wake_instance(d->d_name, &instance) ||
        instance == s->instance || !dlk_file_peer_alive(s, instance))
      continue;
    any = true;
    dlk_file_peer_wake(s, instance, DLK_FILE_ALL);
  }
  closedir(dir);
  return any;
}

int dlk_file_guard_living(struct dlk_file_store *s, const char *key,
                          size_t len) {
  struct dlk_file_table *t = &s->table;
  int64_t ttl, now = s->host->now(s->host);
  bool other = tell_others(s);
  if (!other && !ours(s, key, len))
    return 0;
  dlk_file_peer_wake(s, s->instance, DLK_FILE_ALL);
  int error = dlk_file_ttl_longest(s, &ttl);
  uint32_t index = error == 0 ? dlk_file_table_take(t) : 0;
  if (index == 0)
    return error != 0 ? error : t->error;
  struct dlk_file_slot *slot = dlk_file_table_edit(t, index);
  slot->since = now;
  slot->until = dlk_time_add(now, ttl);
  slot->ttl = ttl;
  slot->fence = ++t->head.fence;
  memcpy(slot->owner, OWNER, sizeof OWNER);
  dlk_file_table_append(t, index, DLK_FILE_HELD);
  s->holders_changed = true;
  return t->error;
}

void dlk_file_look_all(struct dlk_file_store *s) {
  size_t n = 0, count = s->entries.count;
  uint64_t *tokens = malloc((count + 1) * sizeof *tokens);
  if (tokens == NULL)
    return;
  for (size_t i = 0; i < s->entries.size; i++)
    for (struct dlk_map_node *node = s->entries.buckets[i];
         node != NULL && n < count; node = node->next)
      tokens[n++] = DLK_CONTAINER(node, struct dlk_file_entry, node)->token;
  for (size_t i = 0; i < n; i++)
    dlk_file_look(s, tokens[i]);
  free(tokens);
}
