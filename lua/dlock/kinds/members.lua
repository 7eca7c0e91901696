-- What lockables over other lockables (all, fallback) have in common: a list of
-- locks on keys, whose waits are noted in one set, so that one cancel ends them
-- all, wherever they are.
local lockable = require "dlock.lockable"

local members = {}

--- Raises unless list can be one of lockables. called: as the program wrote it.
---@param list any
---@param called string
---@param level integer of the program's call, as error() counts
function members.check(list, called, level)
  local one = lockable.state(list)
  if type(list) ~= "table" or one then
    error(("%s takes an array of lockables, not a %s")
      :format(called, one and "lockable" or type(list)), level + 1)
  end
end

--- The state of each of the list, with its waits noted in `waits`.
---@param list dlock.lockable[]
---@param waits table
---@param called string
---@param level integer
---@return table[]
function members.read(list, waits, called, level)
  local states = {}
  for index, member in ipairs(list) do
    local state = lockable.state(member)
    if not state or not state.key then
      error(("number %d of %s's list is no lock on a key: it takes what"
        .. " store:mutex, rw:read(), rw:write(), store:semaphore and"
        .. " store:election give"):format(index, called), level + 1)
    end
    states[index] = setmetatable({ waits = waits }, { __index = state })
  end
  if #states == 0 then
    error(("the list of %s is empty"):format(called), level + 1)
  end
  return states
end

--- The longest default timeout among them: that of the whole.
---@param states table[]
---@return number
function members.timeout(states)
  local longest = 0
  for _, state in ipairs(states) do
    longest = math.max(longest, state.base.timeout)
  end
  return longest
end

--- Ends every wait of this object with "cancelled".
---@return true
function members.cancel(self)
  local state = lockable.state_of(self, "cancel")
  state.cancels = state.cancels + 1
  for ticket in next, state.waits do
    ticket:cancel()
  end
  return true
end

return members
