-- Mutants of csrc/core.

return {
  specs = "spec/engine/core_spec.lua spec/engine/engine_spec.lua"
    .. " spec/engine/handoff_spec.lua spec/engine/stats_spec.lua"
    .. " spec/file/store_spec.lua spec/engine/trace_spec.lua",
  mutants = {
    { specs = "spec/engine/signals_spec.lua",
      name = "a thread of dlock takes the program's signals",
      file = "csrc/core/native.c", find = "sigfillset(&all);",
      put = "sigemptyset(&all);" },
    { name = "a lease has no margin for clocks that drift",
      file = "csrc/core/clock.c",
      find = "ttl / 100 + 10 * DLK_MS", put = "10 * DLK_MS" },
    { name = "the clock stands still while the machine sleeps",
      file = "csrc/core/clock.c",
      find = "clock_gettime(CLOCK_BOOTTIME, &ts);",
      put = "clock_gettime(CLOCK_MONOTONIC, &ts);" },
  },
}
