-- Single flight: one caller makes the result, and those that ask meanwhile get
-- it.
--
-- The first caller gets the lock and runs the function; the others wait for the
-- lock. When the result is there, and the lock is still held, their waits end
-- with it. When the function fails, the next in the queue runs it in its place.
-- A flight is shared by the callers of one store object; in another process the
-- function runs when that one's turn comes.
local core = require "dlock.core"
local lockable = require "dlock.lockable"
local options = require "dlock.options"
local results = require "dlock.results"
local text = require "dlock.text"

local once = {}

local WEAK = { __mode = "k" }

-- Held by its callers alone: a flight whose callers were all killed goes.
local WEAK_VALUES = { __mode = "v" }

local function flight_of(client, key)
  local flights = client.flights
  if not flights then
    flights = setmetatable({}, WEAK_VALUES)
    client.flights = flights
  end
  local flight = flights[key]
  if not flight then
    flight = { waits = setmetatable({}, WEAK) }
    flights[key] = flight
  end
  return flight
end

-- The flight landed: later callers begin another.
local function land(client, key, flight, result)
  flight.result = result
  if client.flights[key] == flight then
    client.flights[key] = nil
  end
  for ticket in next, flight.waits do
    ticket:cancel()
  end
end

local function check_result(key, result)
  if result ~= nil and type(result) ~= "string" then
    error(("the function given to store:once for %s must return a string,"
      .. " or nil and why there is none; it returned a %s")
      :format(text.quote(key), type(result)), 0)
  end
end

-- What run returned: true and the function's results, or why not.
local function answer(done, ...)
  if done then
    return results.of(...)
  end
  local message, code = ...
  return nil, message, code
end

--- Everything has been checked.
function once.run(client, key, fn, opts)
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
  local function make(held)
    local result, why, kind = fn(held)
    check_result(key, result)
    if result and held:held() then
      land(client, key, flight, result)
    end
    return result, why, kind
  end
  return answer(lockable.run(lease, nil, nil, make))
end

--- Those whose wait was ended because the result was there were served, and
--- not cancelled as the engine has it.
---@param acquires table<string, integer> what the engine has counted
function once.count(client, acquires)
  acquires.served = client.served or 0
  acquires.cancelled = acquires.cancelled - acquires.served
end

--- store:once's own check of its arguments.
function once.check(key, fn, opts)
  lockable.check_function(fn, "store:once")
  return options.check_key(key, "store:once")
    or options.check(opts, "store:once")
end

return once
