/* Bytes are drawn in blocks; each is given out once. getrandom cannot fail on a
 * kernel that we run on, and no token is safe without it. */
#include "engine/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

void dlk_random_take(struct dlk_random *r, void *out, size_t n) {
  unsigned char *to = out;
  while (n > 0) {
    if (r->left == 0) {
      if (getrandom(r->bytes, sizeof r->bytes, 0) != (ssize_t)sizeof r->bytes)
        abort();
      r->left = sizeof r->bytes;
    }
    size_t take = n < r->left ? n : r->left;
    memcpy(to, r->bytes + sizeof r->bytes - r->left, take);
    r->left -= take;
    to += take;
    n -= take;
  }
}
