/* Our slots in tables, by token. An entry has an op while it waits or is
 * released. A lease leaves the map before the engine may free it: with its
 * release or loss. */
#include "store/file/recipe/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool dlk_file_enlist(struct dlk_file_store *s, struct dlk_file_entry *e,
                     struct dlk_op *op) {
  if (e->node.queued)
    dlk_map_remove(&s->entries, &e->node);
  e->token = ++s->token;
  e->lease = op->lease;
  e->op = op;
  e->told = false;
  return dlk_map_put(&s->entries, &e->node, (const char *)&e->token,
                     sizeof e->token);
}

void dlk_file_forget(struct dlk_file_store *s, struct dlk_file_entry *e) {
  if (e->node.queued)
    dlk_map_remove(&s->entries, &e->node);
  e->op = NULL;
}

struct dlk_file_entry *dlk_file_entry_find(struct dlk_file_store *s,
                                           uint64_t token) {
  struct dlk_map_node *node =
      dlk_map_get(&s->entries, (const char *)&token, sizeof token);
  return node == NULL ? NULL : DLK_CONTAINER(node, struct dlk_file_entry, node);
}

uint64_t *dlk_file_entry_tokens(struct dlk_file_store *s, size_t *count) {
  size_t n = 0;
  *count = s->entries.count;
  uint64_t *tokens = calloc(*count + 1, sizeof *tokens);
  for (size_t i = 0; tokens != NULL && i < s->entries.size; i++)
    for (struct dlk_map_node *node = s->entries.buckets[i];
         node != NULL && n < *count; node = node->next)
      tokens[n++] = DLK_CONTAINER(node, struct dlk_file_entry, node)->token;
  return tokens;
}

bool dlk_file_entry_claims(struct dlk_file_dir *d, uint64_t token) {
  return dlk_file_entry_find(dlk_file_store_of(d), token) != NULL;
}

void dlk_file_entries_lose(struct dlk_file_store *s, const char *why) {
  size_t count;
  uint64_t *tokens = dlk_file_entry_tokens(s, &count);
  for (size_t i = 0; tokens != NULL && i < count; i++) {
    struct dlk_file_entry *e = dlk_file_entry_find(s, tokens[i]);
    if (e == NULL || e->op != NULL)
      continue;
    dlk_file_forget(s, e);
    s->dir.host->lost(s->dir.host, e->lease, why);
  }
  free(tokens);
}

bool dlk_file_entry_holds(struct dlk_file_dir *d, const char *key, size_t len) {
  const struct dlk_file_store *s = dlk_file_store_of(d);
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

void dlk_file_entry_look(struct dlk_file_store *s, struct dlk_file_entry *e) {
  struct dlk_host *host = s->dir.host;
  struct dlk_file_slot slot;
  struct dlk_lease *lease = e->lease;
  int error = dlk_file_key_peek(&s->dir, lease->key, lease->key_len, e, &slot);
  if (error == ENOENT) {
    dlk_file_forget(s, e);
    host->lost(host, lease, "it was broken");
  } else if (error == 0 && slot.asked && !e->told) {
    e->told = true;
    host->revoked(host, lease);
  }
}
