-- Single flight. The first caller gets the lock and runs the function, and the
-- others wait for the lock. With a result, and the lock still held, their waits
-- end. After a failure the next in the queue runs the function. Callers of
-- stores with the same URL and options share a flight; another process runs the
-- function in its turn.
local core = require "dlock.core"
local lockable = require "dlock.lockable"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"
local with = require "dlock.with"

local once = {}

local WEAK = { __mode = "k" }

-- Callers hold the flight, so it goes when all were killed. Clients hold the
-- flights of their pool.
local WEAK_VALUES = { __mode = "v" }
local pools = setmetatable({}, WEAK_VALUES)

local function flight_of(client, key)
  local flights = client.flights or pools[client.pool]
  if not flights then
    flights = setmetatable({}, WEAK_VALUES)
    pools[client.pool] = flights
  end
  client.flights = flights
  local flight = flights[key]
  if not flight then
    flight = { waits = setmetatable({}, WEAK) }
    flights[key] = flight
  end
  return flight
end

-- Later callers begin another flight.
local function land(client, key, flight, result)
  flight.result = result
  if client.flights[key] == flight then
    client.flights[key] = nil
  end
  for ticket in next, flight.waits do
    ticket:cancel()
  end
end

local function answer(done, ...)
  if done then
    return results.of(...)
  end
  local message, code = ...
  return nil, message, code
end

--- store:once.
function once.run(client, key, fn, opts, extra)
  lockable.check_function(fn, "store:once")
  options.check_end(extra, "store:once", "a key, a function and options")
  local bad = options.check_key(key, "store:once")
    or options.check(opts, "store:once")
  if bad then return results.fail("invalid", bad) end
  local flight = flight_of(client, key)
  local lease, message, code = lockable.acquire(client.mutex,
    lockable.provisional(opts), true, flight.waits, false, key)
  if flight.result then
    if lease then
      lease:release_later()
    elseif code == "cancelled" then -- by land()
      client.served = (client.served or 0) + 1
    end
    return flight.result
  elseif not lease then
    return nil, message, code
  end
  core.give(lease)
  return answer(with.run(lease, function(held)
    local result, why, kind = fn(held)
    if result ~= nil and type(result) ~= "string" then
      error(("the function given to store:once for %s must return a string,"
        .. " or nil and why there is none; it returned a %s")
        :format(text.quote(key), type(result)), 0)
    elseif result and held:held() then
      land(client, key, flight, result)
    end
    return result, why, kind
  end))
end

--- The engine counts waits that land() ended as cancelled; they were served.
function once.count(client, acquires)
  acquires.served = client.served or 0
  acquires.cancelled = acquires.cancelled - acquires.served
end

return once
