/* The admission rule, for every store that decides in C: who holds a key beside
 * whom.
 *
 * A1  An exclusive want (units 0) fits beside nobody.
 * A2  Two that share fit beside each other only under the same cap. One that
 *     shares right behind one with another cap is refused, holder or waiter.
 * A3  Those that share under a cap fit while the sum of their units is within
 *     it; cap 0 is no limit.
 * A4  Strict FIFO: one that does not fit stops all behind it, so readers do not
 *     starve a writer.
 *
 * All holders fit beside each other, so any one of them stands for all in A1
 * and A2. One that comes behind never matters, so a newcomer undoes no hold. */
#ifndef DLK_STORE_KIT_ADMISSION_H
#define DLK_STORE_KIT_ADMISSION_H

#include "store/store.h"

enum dlk_beside {
  DLK_BESIDE_FITS,
  DLK_BESIDE_EXCLUDES,   /* A1 */
  DLK_BESIDE_OTHER_LIMIT /* A2 */
};

enum dlk_beside dlk_beside(struct dlk_want a, struct dlk_want b);
/* A3, with `used` units of the others. */
bool dlk_within(struct dlk_want want, uint64_t used);
/* Whether it may hold beside the holders: `one` of them, NULL if there is none,
 * and the units of all. */
bool dlk_fits(struct dlk_want want, const struct dlk_want *one, uint64_t used);

#endif
