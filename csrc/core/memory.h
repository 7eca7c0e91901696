/* Zeroed memory for what is made with every request: glibc's calloc goes past
 * the cache of its malloc. */
#ifndef DLK_CORE_MEMORY_H
#define DLK_CORE_MEMORY_H

#include <stdlib.h>
#include <string.h>

/* NULL when out of memory; to be freed with free(). */
static inline void *dlk_zalloc(size_t size) {
  void *p = malloc(size);
  return p ? memset(p, 0, size) : NULL;
}

#endif
