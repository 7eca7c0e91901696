-- Administration: what store:inspect, list, break_lock and revoke do.
local lockable = require "dlock.lockable"
local results = require "dlock.results"

--- A holder of a key.
---@class dlock.holder
---@field owner string
---@field fence? integer
---@field fence_at_most? true the fence is this or a smaller one
---@field ttl? number seconds
---@field since? number for how many seconds
---@field permits? integer of a semaphore
---@field value? string

---@class dlock.waiter
---@field owner string
---@field mode "exclusive"|"shared"|"semaphore"
---@field waited number for how many seconds
---@field permits? integer of a semaphore

---@class dlock.inspected
---@field key string
---@field mode? "exclusive"|"shared"|"semaphore"
---@field permits? integer how many a semaphore has
---@field holders dlock.holder[]
---@field waiters dlock.waiter[] in the order of the queue

local admin = {}

--- The holders and waiters of a key, or nil (and no code) if there are none. In
--- a store whose fences may be uncertain holders have a `hold` too, which can
--- stand for the fence.
---@param state table client and key
---@return table|nil
---@return string? message
---@return dlock.code? code
function admin.inspect(state)
  local found, message, code = lockable.ask(state, "inspect", state.key)
  if not found then
    return nil, message, code
  end
  if #found.holders == 0 and #found.waiters == 0 then
    return nil
  end
  return found
end

--- The same, for users.
function admin.show(state)
  local found, message, code = admin.inspect(state)
  for _, holder in ipairs(found and found.holders or {}) do
    holder.hold = nil
  end
  return results.of(found, message, code)
end

--- break_lock, revoke: true also when nobody held it.
---@param state table client and key
---@param call string
function admin.order(state, call)
  local done, message, code = lockable.ask(state, call, state.key)
  if done == nil then
    return nil, message, code
  end
  return true
end

--- Keys that are held or waited for: an array, and a cursor while there may
--- be more.
function admin.list(state, prefix, cursor, limit)
  return results.of(lockable.ask(state, "list", prefix, cursor, limit))
end

return admin
