/* A sanitizer's runtime is for the Lua under test, not for the shells and tools
 * that it starts, some of which (sh) do not live with it. Preloaded behind the
 * runtime by .ci/asan and .ci/tsan, this takes it out of the environment as
 * soon as it is loaded, and says in DLOCK_TEST_RUNTIME what a child needs that
 * is under test as well: spec/support/process.lua gives it to those. */
#include <stdlib.h>

__attribute__((constructor)) static void take_out(void) {
  const char *preload = getenv("LD_PRELOAD");
  if (!preload)
    return;
  setenv("DLOCK_TEST_RUNTIME", preload, 1);
  unsetenv("LD_PRELOAD");
}
