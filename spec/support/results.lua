-- How many results every public call gives: one value alone when it worked, and
-- nil, message, code when it did not. table.insert, print, select("#") and a
-- call in a list count trailing nils; so does whoever wraps a call.
--
-- Needs nothing but dlock, so the same rows run in plain Lua, in event loops
-- and in a handler of nginx. A method without a row is a finding too.
local core = require "dlock.core"
local dlock = require "dlock"

local results = {}

-- Each makes its own call; `e` has what it needs (see environment).
local ROWS = {
  ["dlock.open"] = {
    function() return dlock.open("file:///tmp") end,
    function() return dlock.open("nowhere://") end,
  },
  ["dlock.canceller"] = { function() return dlock.canceller() end },
  ["dlock.all"] = { function(e) return dlock.all { e.mutex } end },
  ["dlock.fallback"] = {
    function(e) return dlock.fallback { e.mutex, e.other } end,
    function(e) return dlock.fallback { e.mutex, grace = -1 } end,
  },
  ["dlock.prometheus"] = {
    function(e) return dlock.prometheus { e.store } end,
    function(e) return dlock.prometheus { e.store, shared = "" } end,
  },
  ["dlock.release_on"] = { function() return dlock.release_on("ALRM") end },
  ["dlock.logger"] = { function() return dlock.logger(io.stderr) end },

  ["store:ping"] = {
    function(e) return e.store:ping() end,
    function(e) return e.closed:ping() end,
  },
  ["store:close"] = {
    function(e) return e.open():close() end,
    function(e) return e.store:close(-1) end,
  },
  ["store:mutex"] = {
    function(e) return e.store:mutex(e.key) end,
    function(e) return e.store:mutex("") end,
  },
  ["store:rwlock"] = {
    function(e) return e.store:rwlock(e.key) end,
    function(e) return e.store:rwlock("") end,
  },
  ["store:semaphore"] = {
    function(e) return e.store:semaphore(e.key, 2) end,
    function(e) return e.store:semaphore(e.key, 0) end,
  },
  ["store:barrier"] = {
    function(e) return e.store:barrier(e.key, 1) end,
    function(e) return e.store:barrier(e.key, 0) end,
  },
  ["store:latch"] = {
    function(e) return e.store:latch(e.key, 1) end,
    function(e) return e.store:latch(e.key, 0) end,
  },
  ["store:election"] = {
    function(e) return e.store:election(e.key) end,
    function(e) return e.store:election("") end,
  },
  ["store:inspect"] = {
    function(e) return e.store:inspect(e.held) end,
    function(e) return e.closed:inspect(e.held) end,
  },
  ["store:list"] = {
    function(e) return e.store:list(e.held) end,
    function(e) return e.closed:list() end,
  },
  ["store:break_lock"] = {
    function(e) return e.store:break_lock(e.key) end,
    function(e) return e.closed:break_lock(e.key) end,
  },
  ["store:revoke"] = {
    function(e) return e.store:revoke(e.key) end,
    function(e) return e.closed:revoke(e.key) end,
  },
  ["store:tag"] = {
    function(e) return e.store:tag(e.key) end,
    function(e) return e.store:tag("") end,
  },
  ["store:lock"] = {
    function(e) return e.keep(e.store:lock(e.key)) end,
    function(e) return e.store:lock(e.held, { timeout = 0 }) end,
  },
  ["store:try_lock"] = {
    function(e) return e.keep(e.store:try_lock(e.key)) end,
    function(e) return e.store:try_lock(e.held) end,
  },
  ["store:with"] = {
    function(e) return e.store:with(e.key, function() end) end,
    function(e) return e.store:with(e.held, { timeout = 0 }, print) end,
  },
  ["store:stats"] = {
    function(e) return e.store:stats() end,
    function(e) return e.store:stats("prometheus") end,
    function(e) return e.store:stats("xml") end,
  },
  ["store:once_per"] = {
    function(e) return e.store:once_per(e.key, 0.1, function() end) end,
    function(e) return e.store:once_per(e.held, 0.1, print) end,
  },
  ["store:once"] = {
    function(e) return e.store:once(e.key, function() return "made" end) end,
    function(e)
      return e.store:once(e.key, function() return nil, "why", "code" end)
    end,
    function(e) return e.store:once(e.held, print, { timeout = 0 }) end,
  },
  ["store:attach"] = {
    function(e)
      local detached = e.store:lock(e.key):detach()
      if detached then
        return e.keep(e.store:attach(detached))
      end
      return e.store:attach("")
    end,
    function(e) return e.store:attach("nothing") end,
  },

  ["rwlock:read"] = { function(e) return e.rwlock:read() end },
  ["rwlock:write"] = { function(e) return e.rwlock:write() end },

  ["election:campaign"] = {
    function(e) return e.keep(e.election:campaign()) end,
    function(e) return e.held_election:campaign { timeout = 0 } end,
  },
  ["election:leader"] = {
    function(e) return e.held_election:leader() end,
    function(e) return e.closed_election:leader() end,
  },
  ["election:publish"] = {
    function(e)
      local election = e.store:election(e.key)
      e.keep(election:campaign())
      return election:publish("v")
    end,
    function(e) return e.election:publish("v") end,
  },
  ["election:wait_change"] = {
    function(e)
      local election = e.store:election(e.key)
      election:leader()
      e.keep(e.store:lock(e.key))
      return election:wait_change(5)
    end,
    function(e) return e.held_election:wait_change(0) end,
  },

  ["barrier:enter"] = {
    function(e) return e.call("barrier", "enter", 1) end,
    function(e) return e.call("barrier", "enter", 2, 0) end,
  },
  ["barrier:leave"] = {
    function(e)
      local barrier = e.store:barrier(e.key, 1)
      if barrier then
        barrier:enter()
        return barrier:leave()
      end
      return e.store:barrier(e.key, 1)
    end,
    function(e) return e.call("barrier", "leave", 2) end,
  },

  ["latch:count_down"] = {
    function(e) return e.call("latch", "count_down", 2) end,
    function(e) return e.call("latch", "count_down", 3) end,
  },
  ["latch:count"] = { function(e) return e.call("latch", "count", 2) end },
  ["latch:wait"] = { function(e) return e.call("latch", "wait", 2, 0) end },

  ["semaphore:available"] = {
    function(e) return e.semaphore:available() end,
    function(e) return e.closed_semaphore:available() end,
  },
  ["semaphore:resize"] = {
    function(e) return e.semaphore:resize(3) end,
    function(e) return e.semaphore:resize(0) end,
  },

  ["canceller:cancel"] = { function() return dlock.canceller():cancel() end },
  ["canceller:cancelled"] = {
    function() return dlock.canceller():cancelled() end,
  },
}

-- What everything that can be acquired can do. `e.free` and `e.taken` are two
-- objects of its class.
local LOCKABLE = {
  acquire = {
    function(e) return e.keep(e.free:acquire()) end,
    function(e) return e.taken:acquire { timeout = 0 } end,
  },
  try_acquire = {
    function(e) return e.keep(e.free:try_acquire()) end,
    function(e) return e.taken:try_acquire() end,
  },
  with = {
    function(e) return e.free:with(function() end) end,
    function(e) return e.taken:with({ timeout = 0 }, print) end,
  },
  locked = {
    function(e) return e.free:locked() end,
    function(e) return e.taken:locked() end,
    function(e) return e.gone:locked() end,
  },
  cancel = { function(e) return e.free:cancel() end },
}

local function new_lease(e)
  return e.keep(e.take(e))
end

local function gone(e)
  local lease = new_lease(e)
  e.store:break_lock(e.key)
  lease:extend()
  return lease
end

-- What every lease can do. `e.take` makes one of its class.
local LEASE = {
  release = {
    function(e) return new_lease(e):release() end,
    function(e) return gone(e):release() end,
    function(e) return new_lease(e):release(-1) end,
  },
  resign = {
    function(e) return new_lease(e):resign() end,
    function(e) return gone(e):resign() end,
  },
  release_later = { function(e) return new_lease(e):release_later() end },
  extend = {
    function(e) return new_lease(e):extend() end,
    function(e) return gone(e):extend() end,
  },
  remaining = { function(e) return new_lease(e):remaining() end },
  held = { function(e) return new_lease(e):held() end },
  on_lost = { function(e) return new_lease(e):on_lost(print) end },
  on_revoke = { function(e) return new_lease(e):on_revoke(print) end },
  revoked = { function(e) return new_lease(e):revoked() end },
  wait_lost = {
    function(e) return gone(e):wait_lost() end,
    function(e) return new_lease(e):wait_lost(0) end,
  },
  downgrade = {
    function(e) return new_lease(e):downgrade() end,
    function(e) return gone(e):downgrade() end,
  },
  detach = {
    function(e) return new_lease(e):detach() end,
    function(e) return gone(e):detach() end,
  },
  guard = { function(e) return gone(e):guard("GET", "x") end },
  fence_sql = { function(e) return new_lease(e):fence_sql() end },
}

local function count(...)
  return select("#", ...), ...
end

-- What is wrong with what a call gave: nil when nothing is.
local function judge(n, first, message, code)
  if first ~= nil then
    return n ~= 1 and ("%d results on success"):format(n) or nil
  elseif n ~= 3 or type(message) ~= "string" or type(code) ~= "string" then
    return ("%d results on failure: nil, %s, %s"):format(n, tostring(message),
      tostring(code))
  end
end

-- What one run of the rows has found.
local run = {}
run.__index = run

function run:row(name, row)
  local e = self.environment
  self.seen[name] = true
  for i, call in ipairs(row) do
    e.number = e.number + 1
    e.key = ("%s-%d"):format(e.held, e.number)
    local problem = judge(count(call(e)))
    if problem then
      self.found[#self.found + 1] =
        ("%s, call %d: %s"):format(name, i, problem)
    end
    for _, lease in ipairs(e.kept) do lease:release_later() end
    e.kept = {}
  end
end

function run:rows(class, rows)
  local names = {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    self:row(class .. name, rows[name])
  end
end

function run:lockable(class, free, taken, broken)
  local e = self.environment
  e.free, e.taken, e.gone = free, taken, broken
  self:rows(class .. ":", LOCKABLE)
end

function run:lease(class, take)
  self.environment.take = take
  self:rows(class .. ":", LEASE)
end

-- Methods that have no row: whoever adds one adds a row.
function run:complete(class, methods)
  for name, method in pairs(methods) do
    if type(method) == "function" and type(name) == "string"
        and not self.seen[class .. name] then
      self.found[#self.found + 1] = class .. name .. " has no row"
    end
  end
end

local function methods_of(object)
  return debug.getmetatable(object).__index
end

-- A fallback's second lock, which it gives at once while its first is down.
local function degraded(e)
  return dlock.fallback { e.down:mutex(e.key), e.store:mutex(e.key),
    grace = 0 }
end

local function environment(open, down, key)
  local store = open()
  local e = { open = open, store = store, closed = open(), down = down,
    held = key, number = 0, kept = {} }
  e.closed:close()
  function e.keep(lease, ...)
    e.kept[#e.kept + 1] = lease
    return lease, ...
  end
  -- A latch's counts would stay for a day.
  local function swept(kind, ...)
    if kind == "latch" then store:break_lock(e.key) end
    return ...
  end
  -- A method of a barrier or latch for n; a store may have none.
  function e.call(kind, name, n, ...)
    local made, message, code = store[kind](store, e.key, n)
    if not made then return nil, message, code end
    return swept(kind, made[name](made, ...))
  end
  e.mutex, e.other = store:mutex(key), store:mutex(key .. "-other")
  e.rwlock, e.election = store:rwlock(key .. "-rw"), store:election(key .. "-e")
  e.semaphore, e.closed_semaphore = store:semaphore(key .. "-s", 2),
    e.closed:semaphore(key, 2)
  e.held_election, e.closed_election = store:election(key),
    e.closed:election(key)
  return e
end

--- Makes every public call, well and badly. `down`: a store without a server.
--- Returns what is wrong, as lines.
---@param open fun(): dlock.store
---@param down dlock.store
---@param key string that nobody uses, nor any that begins with it
---@return string[]
function results.find(open, down, key)
  local e = environment(open, down, key)
  local store = e.store
  local self = setmetatable({ environment = e, seen = {}, found = {} }, run)
  local lease = assert(store:lock(key, { ttl = 60, value = "v" }))
  self:rows("", ROWS)
  local all, fallback = dlock.all { e.other },
    dlock.fallback { e.other, e.mutex }
  self:lockable("lockable", e.other, e.mutex, e.closed:mutex(key))
  self:lockable("all", all, dlock.all { e.mutex, e.other },
    dlock.all { e.closed:mutex(key) })
  self:lockable("fallback", fallback, dlock.fallback { e.mutex, e.other },
    dlock.fallback { e.closed:mutex(key), e.closed:mutex(key .. "x") })
  self:lease("lease", function(o) return o.store:rwlock(o.key):write()
    :acquire() end)
  self:lease("all lease", function(o)
    return dlock.all { o.store:mutex(o.key) }:acquire()
  end)
  self:lease("fallback lease", function(o)
    return degraded(o):acquire { timeout = 1 }
  end)
  lease:release()
  self:complete("dlock.", dlock)
  self:complete("store:", methods_of(store))
  self:complete("lockable:", methods_of(e.mutex))
  self:complete("rwlock:", methods_of(e.rwlock))
  self:complete("lease:", core.lease_methods)
  return self.found
end

return results
