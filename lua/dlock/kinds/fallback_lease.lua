-- A degraded lease: dlock.fallback gives it for a lock that is not the first of
-- its list. It wraps that lock's lease, without what belongs to the first lock.
-- It has no fence, so code that checks fences refuses it. It has no detach,
-- because an attached lease would have a fence.
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

-- These calls go to the other lease, with their arguments and results.
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

-- The function is called with the lease that the program has.
for _, call in ipairs { "on_lost", "on_revoke" } do
  methods[call] = function(self, fn)
    local inner = inner_of(self, call)
    events.check_callback(fn, "lease:" .. call)
    return inner[call](inner, function(_, reason) fn(self, reason) end)
  end
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
