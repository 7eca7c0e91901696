-- A degraded lease wraps a weaker lock's lease. It has no fence, so code that
-- checks fences refuses it, and no detach, as an attached lease would have a
-- fence.
local class = require "dlock.class"
local core = require "dlock.core"
local events = require "dlock.events"
local misuse = require "dlock.misuse"
local results = require "dlock.results"
local text = require "dlock.text"
local with = require "dlock.with"

--- What dlock.fallback's acquire gives in place of a lock that is unavailable:
--- without fence, fence_sql, detach and guard.
---@class dlock.degraded_lease: dlock.lease
---@field degraded true

local methods = {}

local CLASS = class("lease", methods)
local inner_of, meta = CLASS.state_of, CLASS.meta

for _, call in ipairs { "release", "release_later", "resign", "extend", "held",
    "remaining", "wait_lost", "revoked", "downgrade" } do
  methods[call] = function(self, ...)
    local inner = inner_of(self, call)
    return inner[call](inner, ...)
  end
end

methods[with.IS_OURS] = methods.held

for _, call in ipairs { "detach", "guard", "fence_sql" } do
  methods[call] = function(self)
    return results.fail("unsupported", ("%s is held in place of a lock that is"
      .. " unavailable; such a lease has no %s"):format(
      text.quote(inner_of(self, call).key), call))
  end
end

-- fn gets the program's lease.
for _, call in ipairs { "on_lost", "on_revoke" } do
  methods[call] = function(self, fn, extra)
    local inner = inner_of(self, call)
    events.check_callback(fn, extra, "lease:" .. call)
    return inner[call](inner, function(_, reason) fn(self, reason) end)
  end
end

local SHOWN = { key = true, owner = true, mode = true, permits = true,
  ttl = true }

function meta.__newindex()
  misuse.raise "a lease is read-only"
end

function meta.__index(self, name)
  if name == "degraded" then
    return true
  end
  return methods[name] or SHOWN[name] and CLASS.state(self)[name] or nil
end

function meta.__tostring(self)
  return (tostring(CLASS.state(self))
    :gsub("^(.*) fence=%d+", "%1 degraded")) -- not in the key
end

function meta.__close(self)
  core.lease_meta.__close(CLASS.state(self))
end

return CLASS
