-- At most one successful run in each period. A run holds the lock with the
-- period as min_hold, by the store's clock, and a failed run gives that up.
-- Closing the period at success instead would let a second run in when the word
-- of the success is late or lost.
local core = require "dlock.core"
local lease = require "dlock.lease"
local lockable = require "dlock.lockable"
local options = require "dlock.options"
local results = require "dlock.results"
local with = require "dlock.with"

local once_per = {}

-- with.run releases this in place of the lease: early, unless `done`.
local RUN = {
  [with.IS_OURS] = function(self)
    return self.lease:held() or core.has_parted(self.lease)
  end,
  release = function(self)
    if core.has_parted(self.lease) then
      return true
    end
    return self.lease:release { early = not self.done }
  end,
}
RUN.__index = RUN

function RUN.__close(self)
  if not self.done then
    core.take_back(self.lease)
  end
  lease.close(self.lease)
end

-- A run has failed when fn returned nil and why.
local function returned(run, ...)
  local result, why = ...
  run.done = result ~= nil or why == nil
  return ...
end

--- store:once_per.
function once_per.run(client, key, seconds, fn, extra)
  local call = "store:once_per"
  lockable.check_function(fn, call)
  options.check_end(extra, call, "a key, seconds and a function")
  local bad = options.check_key(key, call)
    or options.check_number(seconds, "period", call)
  if bad then return results.fail("invalid", bad) end
  local held, message, code = lockable.acquire(client.mutex,
    { min_hold = seconds }, false, nil, false, key)
  if code == "busy" then
    return nil, message .. ": this period's run is done, or goes on", code
  elseif not held then
    return nil, message, code
  end
  return with.run(setmetatable({ lease = held, key = key }, RUN),
    function(run) return returned(run, fn(run.lease)) end)
end

return once_per
