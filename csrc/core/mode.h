/* The modes of a lock as users read them: "exclusive", "shared", "semaphore".
 * A store is asked for units under a cap (struct dlk_want); this is the one
 * place that has the names. */
#ifndef DLK_CORE_MODE_H
#define DLK_CORE_MODE_H

#include "core/value.h"

const char *dlk_mode_name(int64_t units, int64_t cap);
/* The name as a value for an answer to inspect. */
struct dlk_value *dlk_mode_value(int64_t units, int64_t cap);

#endif
