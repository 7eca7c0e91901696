-- Timers of nginx, which it may refuse (lua_max_pending_timers, or by an error:
-- without a connection for a worker's first timer it raises "no memory") or
-- accept and drop when they are due (lua_max_running_timers, no connection
-- left). So nobody relies on one: what is to be done stays noted until it is
-- under way, and is asked for again. nginx writes a line into its log for each
-- timer that it drops; so whoever asks again has more patience each time.
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
