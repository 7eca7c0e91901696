-- A canceller refers weakly to the tickets of waits under way, so a wait that
-- an error ended needs no removal.
local class = require "dlock.class"
local misuse = require "dlock.misuse"

local WEAK = { __mode = "k" }

--- What dlock.canceller gives, and the option `cancel` takes.
---@class dlock.canceller
local methods = {}

local CLASS = class("canceller", methods)
local state_of = CLASS.state_of

--- Ends every wait that was given this canceller (cancel = canceller) with
--- the code "cancelled", those under way and those to come. A second call
--- does nothing.
---@return true
function methods:cancel(extra)
  local state = state_of(self, "cancel")
  if type(extra) == "table" then -- options.check_end needs this file
    misuse.raise "canceller:cancel takes no argument, and no table behind it"
  end
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

CLASS.meta.__tostring = function(self)
  return "dlock.canceller: "
    .. (CLASS.state(self).cancelled and "cancelled" or "ready")
end

return {
  new = function()
    return CLASS.new { cancelled = false, waits = setmetatable({}, WEAK) }
  end,
  --- The inner table: cancelled, and waits, a weak set of tickets.
  state = CLASS.state,
}
