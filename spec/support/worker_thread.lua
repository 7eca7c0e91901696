-- What spec/resty/thread_spec.lua has nginx run in a thread of its own, in a
-- Lua state that has neither timers nor phases.
local worker_thread = {}

--- Waits for the lock, computes for so many seconds, and releases it.
function worker_thread.lock(url, key, seconds)
  local core, dlock = require "dlock.core", require "dlock"
  local store = assert(dlock.open(url))
  local lease = assert(store:lock(key, { timeout = 20, ttl = 0.5 }))
  local told
  lease:on_lost(function() told = true end)
  local until_ = core.now() + seconds
  repeat until core.now() > until_
  local held, released = lease:held(), lease:release()
  return ("held %s, released %s, told %s, closed %s"):format(tostring(held),
    tostring(released), tostring(told), tostring(store:close()))
end

return worker_thread
