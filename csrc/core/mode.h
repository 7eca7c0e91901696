/* The modes of a lock as users read them: no units is "exclusive", units
 * without a cap are "shared", units under a cap are a "semaphore". */
#ifndef DLK_CORE_MODE_H
#define DLK_CORE_MODE_H

#include "core/value.h"

const char *dlk_mode_name(int64_t units, int64_t cap);
/* For an answer to inspect. */
struct dlk_value *dlk_mode_value(int64_t units, int64_t cap);

#endif
