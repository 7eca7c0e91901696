/* One block holds the copy, so its secrets are wiped in one go. */
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
  const struct dlk_options *o = &from->options;
  size += o->count * sizeof *o->list;
  for (size_t i = 0; i < o->count; i++)
    size += size_of(o->list[i].name) + size_of(o->list[i].key) +
            size_of(o->list[i].text);
  char *memory = malloc(size ? size : 1);
  if (!memory)
    return NULL;
  struct dlk_option *options = (struct dlk_option *)(void *)memory;
  struct dlk_addr *hosts = (void *)(options + from->options.count);
  char *at = (char *)(hosts + from->host_count);
  *to = *from;
  for (size_t i = 0; i < o->count; i++) {
    options[i] = o->list[i];
    options[i].name = put(&at, o->list[i].name);
    options[i].key = put(&at, o->list[i].key);
    options[i].text = put(&at, o->list[i].text);
  }
  to->options.list = options;
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

void dlk_conf_free(void *memory, size_t size) {
  if (memory)
    explicit_bzero(memory, size);
  free(memory);
}
