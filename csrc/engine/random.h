/* Random bytes, drawn from the system in blocks. */
#ifndef DLK_ENGINE_RANDOM_H
#define DLK_ENGINE_RANDOM_H

#include <stddef.h>

struct dlk_random {
  unsigned char bytes[256];
  size_t left; /* not given out yet */
};

void dlk_random_take(struct dlk_random *r, void *out, size_t n);
/* Bytes drawn before a fork would give every child the same tokens. */
static inline void dlk_random_forget(struct dlk_random *r) {
  r->left = 0;
}

#endif
