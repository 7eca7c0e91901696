-- A request of p permits asks the queue for p units under the semaphore's cap.
local lockable = require "dlock.lockable"
local modes = require "dlock.modes"

local semaphore = {}

---@class dlock.semaphore: dlock.lockable
---@field acquire fun(self: dlock.semaphore, opts?: dlock.permit_options):
--- dlock.lease|nil, string?, dlock.code?
---@field try_acquire fun(self: dlock.semaphore,
--- opts?: dlock.try_permit_options): dlock.lease|nil, string?, dlock.code?

local CLASS = lockable.class "semaphore"

function semaphore.new(client, key, permits, opts)
  local kind = { name = "semaphore", mode = modes.semaphore, units = 1,
    cap = permits }
  return lockable.new(CLASS, kind, client, key, opts)
end

return semaphore
