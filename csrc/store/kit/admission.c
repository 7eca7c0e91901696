/* A1 to A3 as functions. */
#include "store/kit/admission.h"

enum dlk_beside dlk_beside(struct dlk_want a, struct dlk_want b) {
  if (a.units == 0 || b.units == 0)
    return DLK_BESIDE_EXCLUDES;
  return a.cap == b.cap ? DLK_BESIDE_FITS : DLK_BESIDE_OTHER_LIMIT;
}

bool dlk_within(struct dlk_want want, uint64_t used) {
  return want.cap == 0 || used + want.units <= want.cap;
}

bool dlk_fits(struct dlk_want want, const struct dlk_want *one, uint64_t used) {
  return one == NULL ||
         (dlk_beside(want, *one) == DLK_BESIDE_FITS && dlk_within(want, used));
}
