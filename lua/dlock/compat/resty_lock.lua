-- The calls of lua-resty-lock, on a store of dlock:
--
--   local resty_lock = require "dlock.compat.resty_lock"
--   local lock = resty_lock:new("my_locks", { exptime = 10, timeout = 3 })
--   local elapsed, err = lock:lock(key)
--   local ok, err = lock:unlock()
--
-- Results, options and messages are that library's. A lease is not renewed.
local core = require "dlock.core"
local dlock = require "dlock"
local misuse = require "dlock.misuse"
local stores = require "dlock.store"
local text = require "dlock.text"

local resty_lock = {}

local METHODS = {}
local META = { __index = METHODS, __name = "dlock.compat.resty_lock" }

-- One store for all locks of this Lua state, because new() is given none.
local used

--- From now on all locks are in this store, and not in dlock.open()'s.
function resty_lock.use(store)
  if not stores.client(store) then
    misuse.raise("resty_lock.use takes a store, as dlock.open gives it, not a"
      .. " %s", type(store))
  end
  used = store
end

---@param opts? table exptime (30), timeout (5, at most exptime); step, ratio
--- and max_step are ignored
---@return string? err
function resty_lock.new(_, dict_name, opts)
  if type(dict_name) ~= "string" then
    return nil, "dictionary not found"
  end
  local message
  if not used then
    used, message = dlock.open()
    if not used then return nil, message end
  end
  local exptime = opts and opts.exptime or 30
  local timeout = opts and opts.timeout
  return setmetatable({ store = used, dict = dict_name, exptime = exptime,
    timeout = timeout and math.min(timeout, exptime) or 5 }, META)
end

-- The lease, and the seconds of the wait, 0 for none.
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

---@return number|nil elapsed seconds; 0 without a wait
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

--- Where nothing can wait (log_by_lua) dlock's own thread releases.
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
