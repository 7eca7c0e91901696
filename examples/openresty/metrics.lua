-- What all workers have counted, for Prometheus. Each worker puts its counters
-- into the lua_shared_dict "dlock" every few seconds.
local dlock = require "dlock"
local locks = require "locks"

local metrics = {}

local EVERY = 5 -- seconds

function metrics.page()
  return assert(dlock.prometheus { locks, shared = "dlock" })
end

function metrics.start()
  assert(ngx.timer.every(EVERY, metrics.page))
end

return metrics
