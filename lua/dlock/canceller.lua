-- Something to end waits with, from outside of them. It only knows the tickets
-- of the waits under way, weakly: a wait that was itself ended by an error
-- leaves nothing to take out here.
local core = require "dlock.core"

local STATE = {} -- the key of what nobody else may touch

local WEAK = { __mode = "k" }

--- What dlock.canceller gives, and the option `cancel` takes.
---@class dlock.canceller
local methods = {}

local function state_of(self, call)
  return type(self) == "table" and rawget(self, STATE)
    or core.no_self("canceller", call, 3)
end

--- Ends every wait that was given this canceller (cancel = canceller) with
--- the code "cancelled", those under way and those to come. A second call
--- does nothing.
---@return true
function methods:cancel()
  local state = state_of(self, "cancel")
  state.cancelled = true
  for ticket in next, state.waits do
    ticket:cancel()
  end
  return true
end

--- Whether cancel() was called.
---@return boolean
function methods:cancelled()
  return state_of(self, "cancelled").cancelled
end

local META = {
  __index = methods,
  __metatable = "dlock.canceller",
  __name = "dlock.canceller",
  __newindex = function()
    error("a canceller has no fields to set", 2)
  end,
  __tostring = function(self)
    return rawget(self, STATE).cancelled and "dlock.canceller: cancelled"
      or "dlock.canceller: ready"
  end,
}

local canceller = {}

--- A new canceller.
function canceller.new()
  local state = { cancelled = false, waits = setmetatable({}, WEAK) }
  return setmetatable({ [STATE] = state }, META)
end

function canceller.is(value)
  return type(value) == "table" and rawget(value, STATE) ~= nil
end

--- The inner table: cancelled, and waits (a weak set of tickets).
function canceller.state(self)
  return rawget(self, STATE)
end

return canceller
