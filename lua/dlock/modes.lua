-- The names of the modes, as C has them (csrc/core/mode.c): those of a request
-- for everything, for one unit without a limit, for one unit under a limit.
local core = require "dlock.core"

return {
  exclusive = core.mode(0, 0),
  shared = core.mode(1, 0),
  semaphore = core.mode(1, 1),
}
