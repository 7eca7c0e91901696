/* Random bytes for a store's tokens: see random.c. */
#ifndef DLK_ENGINE_RANDOM_H
#define DLK_ENGINE_RANDOM_H

#include <stddef.h>

struct dlk_random {
  unsigned char bytes[256];
  size_t left; /* of these, not given out */
};

void dlk_random_take(struct dlk_random *r, void *out, size_t n);
/* What is left was drawn before a fork, perhaps: the other children have it
 * too, and two workers of nginx would do things under one token. */
static inline void dlk_random_forget(struct dlk_random *r) {
  r->left = 0;
}

#endif
