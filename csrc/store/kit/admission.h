/* The admission rule for stores that decide in C.
 *
 * A1  An exclusive want (units 0) fits beside nobody.
 * A2  Sharers fit beside each other only under one cap. One right behind
 *     another cap is refused, holder or waiter.
 * A3  Sharers fit while the sum of their units is within the cap; 0 is no
 *     limit.
 * A4  Strict FIFO: one that does not fit stops all behind it, so readers do not
 *     starve a writer.
 *
 * Holders fit beside each other, so any one stands for all in A1 and A2. Those
 * behind never matter, so a newcomer undoes no hold. */
#ifndef DLK_STORE_KIT_ADMISSION_H
#define DLK_STORE_KIT_ADMISSION_H

#include "store/store.h"

enum dlk_beside {
  DLK_BESIDE_FITS,
  DLK_BESIDE_EXCLUDES,   /* A1 */
  DLK_BESIDE_OTHER_LIMIT /* A2 */
};

enum dlk_beside dlk_beside(struct dlk_want a, struct dlk_want b);
/* A3; used: by the others. */
bool dlk_within(struct dlk_want want, uint64_t used);
/* Whether it fits beside the holders: `one` of them or NULL, and the units of
 * all. */
bool dlk_fits(struct dlk_want want, const struct dlk_want *one, uint64_t used);

#endif
