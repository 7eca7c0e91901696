-- nginx may refuse a timer, also by an error, or drop it when due. So work
-- stays noted until it is under way, and is asked for again with growing
-- patience: each drop is a line in the log.
local results = require "dlock.results"

local timers = {}

local ngx = rawget(_G, "ngx")

local LAST_PATIENCE = 1

--- Seconds in which a timer has to appear.
timers.FIRST_PATIENCE = 0.05

--- The same after one that did not.
function timers.longer(patience)
  return math.min(2 * patience, LAST_PATIENCE)
end

function timers.start(fn, argument)
  local ok, given, problem = pcall(ngx.timer.at, 0, fn, argument)
  if ok and given then
    return true
  end
  return results.fail("unavailable", "nginx gives no timer ("
    .. tostring(ok and problem or given) .. "); raise lua_max_pending_timers,"
    .. " lua_max_running_timers or worker_connections")
end

return timers
