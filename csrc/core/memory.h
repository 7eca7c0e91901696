/* Zeroed memory for what is made with every request: glibc's calloc goes past
 * the cache of its malloc, and compilers make a calloc of a malloc and a memset
 * unless something seems to happen in between. */
#ifndef DLK_CORE_MEMORY_H
#define DLK_CORE_MEMORY_H

#include <stdlib.h>
#include <string.h>

/* NULL when out of memory; to be freed with free(). */
static inline void *dlk_zalloc(size_t size) {
  void *p = malloc(size);
  __asm__("" : "+r"(p));
  return p ? memset(p, 0, size) : NULL;
}

#endif
