-- The lease that dlock.fallback gives when it is not of the first lock of its
-- list: another lock's lease, without what would let it be taken for one of the
-- first. It has no fence, so that code which checks fences refuses it, and
-- cannot be detached, because what is attached again would have one.
local core = require "dlock.core"
local events = require "dlock.events"
local text = require "dlock.text"
local with = require "dlock.with"

local fallback_lease = {}

local STATE = {} -- the key of what nobody else may touch

--- What dlock.fallback's acquire gives in place of a lock that is unavailable:
--- without fence, detach and guard.
---@class dlock.degraded_lease: dlock.lease
---@field degraded true

local methods = {}

local function inner_of(self, call)
  return type(self) == "table" and rawget(self, STATE)
    or core.no_self("lease", call, 3)
end

-- What is the other lease's affair, with its arguments and its results.
for _, call in ipairs { "release", "release_later", "resign", "extend", "held",
    "remaining", "wait_lost", "revoked", "downgrade" } do
  methods[call] = function(self, ...)
    local inner = inner_of(self, call)
    return inner[call](inner, ...)
  end
end

methods[with.IS_OURS] = methods.held

for _, call in ipairs { "detach", "guard" } do
  methods[call] = function(self)
    return nil, ("unsupported: %s is held in place of a lock that is"
      .. " unavailable; such a lease has no %s"):format(
      text.quote(inner_of(self, call).key), call), "unsupported"
  end
end

--- Runs fn(lease, reason) once, when the lease is seen to be lost.
---@param fn fun(lease: dlock.degraded_lease, reason: string)
---@return true
function methods:on_lost(fn)
  local inner = inner_of(self, "on_lost")
  events.check_callback(fn, "lease:on_lost")
  return inner:on_lost(function(_, reason) fn(self, reason) end)
end

--- Runs fn(lease, reason) once, when somebody asked for the lock.
---@param fn fun(lease: dlock.degraded_lease, reason: string)
---@return true
function methods:on_revoke(fn)
  local inner = inner_of(self, "on_revoke")
  events.check_callback(fn, "lease:on_revoke")
  return inner:on_revoke(function(_, reason) fn(self, reason) end)
end

local SHOWN = { key = true, owner = true, mode = true, permits = true,
  ttl = true }

local META = {
  __metatable = "dlock.lease",
  __name = "dlock.lease",
  __newindex = function()
    error("a lease is read-only", 2)
  end,
  __index = function(self, name)
    if name == "degraded" then
      return true
    end
    return methods[name] or SHOWN[name] and rawget(self, STATE)[name] or nil
  end,
  __tostring = function(self)
    return (tostring(rawget(self, STATE))
      :gsub("^(.*) fence=%d+", "%1 degraded")) -- not in the key
  end,
  -- Lua 5.4: with a bounded wait, as the other lease's.
  __close = function(self)
    core.lease_meta.__close(rawget(self, STATE))
  end,
}

---@param inner dlock.lease
function fallback_lease.new(inner)
  return setmetatable({ [STATE] = inner }, META)
end

return fallback_lease
