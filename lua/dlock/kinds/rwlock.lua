-- Two lockables on one key. A mutex, a writer and an election's candidate ask
-- for the same, and keep readers out.
local class = require "dlock.class"
local lockable = require "dlock.lockable"
local options = require "dlock.options"
local text = require "dlock.text"

local rwlock = {}

local READER = lockable.class "reader"
local WRITER = lockable.class "writer"

--- What store:rwlock gives.
---@class dlock.rwlock
local methods = {}

local CLASS = class("rwlock", methods, "; options go into store:rwlock")

local function half(self, name, extra)
  local state = CLASS.state_of(self, name)
  options.check_end(extra, "rwlock:" .. name,
    "no argument (options go into store:rwlock, or into the acquire)")
  return state[name]
end

--- Returns the half for readers, a lockable. Strictly first come, first served:
--- a reader does not pass a waiting writer.
---@return dlock.lockable
function methods:read(...)
  return half(self, "read", (...))
end

--- Returns the half for a writer, a lockable. Its holder is alone.
---@return dlock.lockable
function methods:write(...)
  return half(self, "write", (...))
end

function rwlock.new(client, key, opts)
  return CLASS.new {
    shown = text.quote(key),
    read = lockable.new(READER, lockable.READER, client, key, opts),
    write = lockable.new(WRITER, lockable.WRITER, client, key, opts),
  }
end

return rwlock
