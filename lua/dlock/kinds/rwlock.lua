-- A read-write lock: two lockables on one key, one for readers and one for
-- writers. All kinds on one key of a store are one lock: a mutex, a writer and
-- an election's candidate ask for the same thing, and keep readers out.
local core = require "dlock.core"
local lockable = require "dlock.lockable"
local options = require "dlock.options"
local text = require "dlock.text"

local rwlock = {}

local STATE = {} -- the key of what nobody else may touch

local READER = lockable.class "reader"
local WRITER = lockable.class "writer"

--- What store:rwlock gives.
---@class dlock.rwlock
local methods = {}

local function half(self, name, extra)
  local state = type(self) == "table" and rawget(self, STATE)
    or core.no_self("rwlock", name, 3)
  options.check_end(extra, "rwlock:" .. name,
    "no argument (options go into store:rwlock, or into the acquire)", 3)
  return state[name]
end

--- Returns the half for readers, a lockable. Strictly first come, first served:
--- a reader does not pass a waiting writer.
---@return dlock.lockable
function methods:read(...)
  local found = half(self, "read", (...))
  return found
end

--- Returns the half for a writer, a lockable. Its holder is alone.
---@return dlock.lockable
function methods:write(...)
  local found = half(self, "write", (...))
  return found
end

local META = {
  __index = methods,
  __metatable = "dlock.rwlock",
  __name = "dlock.rwlock",
  __newindex = function()
    error("a rwlock has no fields to set; options go into store:rwlock", 2)
  end,
  __tostring = function(self)
    return "dlock.rwlock: " .. rawget(self, STATE).shown
  end,
}

--- A read-write lock; key and opts have been checked.
function rwlock.new(client, key, opts)
  return setmetatable({ [STATE] = {
    shown = text.quote(key),
    read = lockable.new(READER, lockable.READER, client, key, opts),
    write = lockable.new(WRITER, lockable.WRITER, client, key, opts),
  } }, META)
end

return rwlock
