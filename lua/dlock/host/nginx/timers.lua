-- Timers of nginx. It may refuse one, by an error too, or accept one and drop
-- it when it is due. So what is to be done stays noted until it is under way,
-- and is asked for again, with more patience each time: each drop is a line in
-- the log.
local timers = {}

local ngx = rawget(_G, "ngx")

local LAST_PATIENCE = 1

--- How long, in seconds, a timer that was asked for may take to appear.
timers.FIRST_PATIENCE = 0.05

--- The same for the next one, when that one did not appear.
function timers.longer(patience)
  return math.min(2 * patience, LAST_PATIENCE)
end

--- Runs fn(premature, argument) in a timer of its own, if nginx does not drop
--- it.
function timers.start(fn, argument)
  local ok, given, problem = pcall(ngx.timer.at, 0, fn, argument)
  if ok and given then
    return true
  end
  return nil, "unavailable: nginx gives no timer ("
    .. tostring(ok and problem or given) .. "); raise lua_max_pending_timers,"
    .. " lua_max_running_timers or worker_connections", "unavailable"
end

return timers
