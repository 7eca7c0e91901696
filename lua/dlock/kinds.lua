-- The kinds of lock beside the mutex: a read-write lock, which is two
-- lockables on one key, and a semaphore. An election is in election.lua.
--
-- All kinds on one key of a store are one lock: a mutex, a writer and an
-- election's candidate ask for the same thing, and keep readers out.
local core = require "dlock.core"
local lockable = require "dlock.lockable"
local text = require "dlock.text"

local kinds = {}

local STATE = {} -- the key of what nobody else may touch

local READER = lockable.class "reader"
local WRITER = lockable.class "writer"
local SEMAPHORE = lockable.class "semaphore"

local rwlock = {}

local function half(self, name)
  local state = type(self) == "table" and rawget(self, STATE)
    or core.no_self("rwlock", name, 3)
  return state[name]
end

--- The lock for reading: any number of readers hold it together.
---@return dlock.lockable
function rwlock:read()
  local found = half(self, "read")
  return found
end

--- The lock for writing: its holder is alone.
---@return dlock.lockable
function rwlock:write()
  local found = half(self, "write")
  return found
end

local META = {
  __index = rwlock,
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
function kinds.rwlock(client, key, opts)
  return setmetatable({ [STATE] = {
    shown = text.quote(key),
    read = lockable.new(READER, lockable.READER, client, key, opts),
    write = lockable.new(WRITER, lockable.WRITER, client, key, opts),
  } }, META)
end

--- A semaphore; all has been checked.
function kinds.semaphore(client, key, permits, opts)
  local kind = { name = "semaphore", mode = "semaphore", units = 1,
    cap = permits }
  return lockable.new(SEMAPHORE, kind, client, key, opts)
end

return kinds
