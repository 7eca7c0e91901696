-- The two stores of a dlock.fallback: a private Redis, and the file store in a
-- directory of its own behind it. What the specs of it do to the server, and
-- which events the first store tells of, is their own.

local dlock = require "dlock"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local stores = {}
stores.__index = stores

--- Starts them. opts: of the first store, beside what it always has. Returns an
--- object with server, dir, file_url, first, second (the stores), seen (the
--- events of the first, but those of its connections).
function stores.start(opts)
  local self = setmetatable({ server = redis.start(), dir = server.new_dir(),
    seen = {} }, stores)
  self.file_url = "file://" .. self.dir .. "/locks"
  local all = { url = self.server.url, timeout = 0.4,
    on_event = function(event)
      if not event.kind:find("connect", 1, true) then
        self.seen[#self.seen + 1] = event
      end
    end }
  for name, value in pairs(opts or {}) do all[name] = value end
  self.first = assert(dlock.open(all))
  self.second = assert(dlock.open { url = self.file_url, timeout = 0.4 })
  return self
end

--- Another first store on the same server: closes the one that there was.
function stores:reopen_first(opts)
  self.first:close(1)
  opts.url = self.server.url
  self.first = assert(dlock.open(opts))
end

--- A fallback for the key (k); opts: beside its list.
function stores:over(opts, key)
  key = key or "k"
  local list = { assert(self.first:mutex(key)), assert(self.second:mutex(key)) }
  for name, value in pairs(opts or {}) do list[name] = value end
  return assert(dlock.fallback(list))
end

--- The lease that a fallback gives, which has to be a degraded one.
function stores.take_degraded(lock, opts)
  local lease, message = lock:acquire(opts)
  assert(lease and lease.degraded, message or "it is not degraded")
  return lease
end

--- The kinds of the events so far.
function stores:kinds()
  local list = {}
  for i, event in ipairs(self.seen) do list[i] = event.kind end
  return list
end

--- Closes both, ends the server and removes the directory.
function stores:stop()
  self.first:close(1)
  self.second:close(1)
  self.server:stop()
  server.remove_dir(self.dir)
end

return stores
