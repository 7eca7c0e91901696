-- What lockables over other lockables (all, fallback) have in common: a list of
-- locks on keys, whose waits are noted in one set, so that one cancel ends them
-- all, wherever they are.
--
-- One list names no lock twice: nobody can have it twice, and it is no help in
-- its own place. All kinds on one key are one lock, so what tells two apart is
-- the key and the store (its `id`, then its prefix). These are also the order
-- of locks that everybody shares.
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

--- The state of each of the list, with its place there (`index`) and its waits
--- noted in `waits`.
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
    states[index] = setmetatable({ waits = waits, index = index },
      { __index = state })
  end
  if #states == 0 then
    error(("the list of %s is empty"):format(called), level + 1)
  end
  return states
end

local function before(a, b)
  if a.key ~= b.key then
    return a.key < b.key
  elseif a.client.id ~= b.client.id then
    return a.client.id < b.client.id
  end
  return a.client.prefix < b.client.prefix
end

--- The same states in the order that everybody shares; raises if two are of
--- one lock.
---@param states table[]
---@param called string
---@param level integer
---@return table[]
function members.sort(states, called, level)
  local sorted = {}
  for i, state in ipairs(states) do sorted[i] = state end
  table.sort(sorted, before)
  for i = 2, #sorted do
    if not before(sorted[i - 1], sorted[i]) then
      error(("the list of %s names the lock %s twice"):format(called,
        sorted[i].shown), level + 1)
    end
  end
  return sorted
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
