-- The calls of lua-resty-lock, on a store of dlock:
--
--   local resty_lock = require "dlock.compat.resty_lock"
--   local lock = resty_lock:new("my_locks", { exptime = 10, timeout = 3 })
--   local elapsed, err = lock:lock(key)
--   local ok, err = lock:unlock()
--
-- Results, names of options and the messages "timeout", "locked", "unlocked",
-- "nil key" and "dictionary not found" are that library's. A lock ends exptime
-- seconds after it was taken, so a lease is not renewed.
local core = require "dlock.core"
local dlock = require "dlock"
local misuse = require "dlock.misuse"
local stores = require "dlock.store"
local text = require "dlock.text"

local resty_lock = {}

local METHODS = {}
local META = { __index = METHODS, __name = "dlock.compat.resty_lock" }

-- The store of all locks of this Lua state: programs that use that library give
-- no store to new(), so nothing else could carry it.
local used

--- Has all locks from now on in this store. Without it they are in that of
--- dlock.open().
function resty_lock.use(store)
  if not stores.client(store) then
    misuse.raise("resty_lock.use takes a store, as dlock.open gives it, not a"
      .. " %s", type(store))
  end
  used = store
end

local function find_store()
  local message
  if not used then
    used, message = dlock.open()
  end
  return used, message
end

--- A lock object. Locks in dictionaries of other names are other locks.
---@param opts? table exptime (30), timeout (5, at most exptime); step, ratio
--- and max_step have no meaning: nobody sleeps in steps
---@return string? err
function resty_lock.new(_, dict_name, opts)
  if type(dict_name) ~= "string" then
    return nil, "dictionary not found"
  end
  local store, message = find_store()
  if not store then return nil, message end
  local exptime = opts and opts.exptime or 30
  local timeout = opts and opts.timeout
  return setmetatable({ store = store, dict = dict_name, exptime = exptime,
    timeout = timeout and math.min(timeout, exptime) or 5 }, META)
end

-- The lease, and how long it was waited for: 0 if nobody had it.
local function take(self, key)
  local opts = { ttl = self.exptime, renew = false }
  local lease, message, code = self.store:try_lock(key, opts)
  if lease or code ~= "busy" or self.timeout <= 0 then
    return lease, lease and 0 or message, code
  end
  local begun = core.now()
  opts.timeout = self.timeout
  lease, message, code = self.store:lock(key, opts)
  return lease, lease and core.now() - begun or message, code
end

--- Waits for the lock of that key, for at most `timeout` seconds.
---@return number|nil elapsed seconds; 0 when nobody had it
---@return string? err
function METHODS:lock(key)
  if key == nil then
    return nil, "nil key"
  elseif self.lease then
    return nil, "locked"
  end
  local lease, elapsed, code = take(self, self.dict .. ":" .. tostring(key))
  if lease then
    self.lease = lease
    return elapsed
  elseif code == "busy" or code == "timeout" then
    return nil, "timeout"
  end
  return nil, elapsed
end

--- Gives the lock back. Where nothing can wait (log_by_lua) it is released by
--- dlock's own thread.
---@return string? err "unlocked"; "lost: …" when exptime had passed
function METHODS:unlock()
  local lease = self.lease
  if not lease then
    return nil, "unlocked"
  end
  self.lease = nil
  local ok, message, code = lease:release()
  if code == "unsupported" then
    ok, message = lease:release_later()
  end
  if not ok then return nil, message end
  return 1
end

--- The lock ends so many seconds from now.
---@param time? number seconds (exptime)
---@return string? err "unlocked"; "lost: …" when exptime had passed
function METHODS:expire(time)
  if not self.lease then
    return nil, "unlocked"
  end
  local left, message = self.lease:extend(time or self.exptime)
  if not left then return nil, message end
  return true
end

META.__tostring = function(self)
  return ("dlock.compat.resty_lock: %s %s"):format(text.quote(self.dict),
    self.lease and "locked" or "unlocked")
end

return resty_lock
