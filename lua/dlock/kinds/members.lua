-- Lists of locks on keys, for all and fallback. One set notes all waits, so one
-- cancel ends them. Kinds on one key are one lock: key and store (`id`, then
-- prefix) name it, and are the order for everybody.
local lockable = require "dlock.lockable"
local misuse = require "dlock.misuse"
local options = require "dlock.options"

local members = {}

--- The states of the list's locks, with their places (`index`); then its other
--- fields.
---@param called string as the program wrote it
function members.read(list, called)
  local one = lockable.state(list)
  if type(list) ~= "table" or one then
    misuse.raise("%s takes an array of lockables, not a %s", called,
      one and "lockable" or type(list))
  end
  local states, others = {}, {}
  for index, member in ipairs(list) do
    local state = lockable.state(member)
    if not state or not state.key then
      misuse.raise("number %d of %s's list is no lock on a key: it takes what"
        .. " store:mutex, rw:read(), rw:write(), store:semaphore and"
        .. " store:election give", index, called)
    end
    states[index] = setmetatable({ index = index }, { __index = state })
  end
  if #states == 0 then
    misuse.raise("the list of %s is empty", called)
  end
  for name, value in next, list do
    if not states[name] then others[name] = value end
  end
  return states, others
end

local function before(a, b)
  if a.key ~= b.key then
    return a.key < b.key
  elseif a.client.id ~= b.client.id then
    return a.client.id < b.client.id
  end
  return a.client.prefix < b.client.prefix
end

--- The states in everybody's order; raises if a lock comes twice.
function members.sort(states, called)
  local sorted = {}
  for i, state in ipairs(states) do sorted[i] = state end
  table.sort(sorted, before)
  for i = 2, #sorted do
    if not before(sorted[i - 1], sorted[i]) then
      misuse.raise("the list of %s names the lock %s twice", called,
        sorted[i].shown)
    end
  end
  return sorted
end

--- A lockable over these with their longest timeout; its state.
function members.object(kind_of, take, states, names)
  local state = { take = take, cancels = 0, members = states, timeout = 0,
    client = states[1].client, shown = "{ " .. names .. " }" }
  local self = lockable.object(kind_of, state)
  for _, member in ipairs(states) do
    member.waits = state.waits
    state.timeout = math.max(state.timeout, member.base.timeout)
  end
  return self, state
end

function members.cancel(self, extra)
  local state = lockable.state_of(self, "cancel")
  options.check_end(extra, state.calls.cancel, "no argument")
  state.cancels = state.cancels + 1
  for ticket in next, state.waits do
    ticket:cancel()
  end
  return true
end

return members
