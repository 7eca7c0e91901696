-- Names of modes, from csrc/core/mode.c: all units, one without a cap, one
-- under a cap.
local core = require "dlock.core"

return {
  exclusive = core.mode(0, 0),
  shared = core.mode(1, 0),
  semaphore = core.mode(1, 1),
}
