/* Names of modes. */
#include "core/mode.h"

#include <string.h>

const char *dlk_mode_name(int64_t units, int64_t cap) {
  if (units == 0)
    return "exclusive";
  return cap == 0 ? "shared" : "semaphore";
}

struct dlk_value *dlk_mode_value(int64_t units, int64_t cap) {
  const char *name = dlk_mode_name(units, cap);
  return dlk_value_string(name, strlen(name));
}
