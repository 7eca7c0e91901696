/* A hold notes whether its first handle is given up; each further handle has a
 * share. Any thread may give one up, and a counter finds the last. */
#include <stdlib.h>

#include "engine/hold/lease.h"

struct dlk_share { /* of a further handle */
  atomic_int refs;
  atomic_bool given_up;
};

bool dlk_hold_share(struct dlk_hold *h, struct dlk_handle *out) {
  struct dlk_share *share = malloc(sizeof *share);
  if (!share)
    return false;
  atomic_init(&share->refs, 1);
  atomic_init(&share->given_up, false);
  dlk_hold_ref(h);
  atomic_fetch_add(&h->handles, 1);
  *out = (struct dlk_handle){.hold = h, .share = share};
  return true;
}

int dlk_hold_handles(const struct dlk_hold *h) {
  return atomic_load(&h->handles);
}

void dlk_handle_ref(const struct dlk_handle *handle) {
  dlk_hold_ref(handle->hold);
  if (handle->share)
    atomic_fetch_add(&handle->share->refs, 1);
}

void dlk_handle_unref(const struct dlk_handle *handle) {
  struct dlk_share *share = handle->share;
  if (share && dlk_count_drop(&share->refs))
    free(share);
  dlk_hold_unref(handle->hold);
}

bool dlk_handle_given_up(const struct dlk_handle *handle) {
  return atomic_load(handle->share ? &handle->share->given_up
                                   : &handle->hold->given_up);
}

bool dlk_handle_give_up(const struct dlk_handle *handle) {
  struct dlk_hold *h = handle->hold;
  bool before = atomic_exchange(
      handle->share ? &handle->share->given_up : &h->given_up, true);
  return !before && dlk_count_drop(&h->handles);
}
