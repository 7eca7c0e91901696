/* The copy of a store's conf: one block for everything, so that the secret in
 * it is wiped in one go. */
#include "engine/conf.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const char *s) {
  return s ? strlen(s) + 1 : 0;
}

static const char *put(char **at, const char *s) {
  if (!s)
    return NULL;
  size_t n = strlen(s) + 1;
  char *to = *at;
  memcpy(to, s, n);
  *at += n;
  return to;
}

void *dlk_conf_copy(const struct dlk_conf *from, const char *name,
                    struct dlk_conf *to, const char **name_out,
                    size_t *size_out) {
  size_t size = from->host_count * sizeof *from->hosts;
  size += size_of(from->shown) + size_of(from->scheme) + size_of(from->path);
  size += size_of(from->username) + size_of(from->password);
  size += size_of(from->prefix) + size_of(name);
  for (size_t i = 0; i < from->host_count; i++)
    size += size_of(from->hosts[i].host);
  char *memory = malloc(size ? size : 1);
  if (!memory)
    return NULL;
  struct dlk_addr *hosts = (struct dlk_addr *)(void *)memory;
  char *at = memory + from->host_count * sizeof *hosts;
  *to = *from;
  to->hosts = hosts;
  for (size_t i = 0; i < from->host_count; i++) {
    hosts[i] = from->hosts[i];
    hosts[i].host = put(&at, from->hosts[i].host);
  }
  to->shown = put(&at, from->shown);
  to->scheme = put(&at, from->scheme);
  to->path = put(&at, from->path);
  to->username = put(&at, from->username);
  to->password = put(&at, from->password);
  to->prefix = put(&at, from->prefix);
  *name_out = put(&at, name);
  *size_out = size;
  return memory;
}
