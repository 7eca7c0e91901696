-- Something to end waits with, from outside of them. It only knows the tickets
-- of the waits under way, weakly: a wait that was itself ended by an error
-- leaves nothing to take out here.
local class = require "dlock.class"

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

CLASS.meta.__tostring = function(self)
  return "dlock.canceller: "
    .. (CLASS.state(self).cancelled and "cancelled" or "ready")
end

return {
  --- A new canceller.
  new = function()
    return CLASS.new { cancelled = false, waits = setmetatable({}, WEAK) }
  end,
  --- The inner table, nil of anything else: cancelled, and waits (a weak set of
  --- tickets).
  state = CLASS.state,
}
