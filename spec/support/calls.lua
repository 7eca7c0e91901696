-- Every call of a store and of a lease, for specs that take something away from
-- a process (descriptors, memory) and ask each of them.
--
--   local calls = require("spec.support.calls").new(dlock, key)
--   calls.of_store[i].run(store) --> a value, or nil, message, code

local M = {}

local function released(lease, message, code)
  if not lease then return nil, message, code end
  return lease:release()
end

-- A question whose answer may be nil or false.
local function answered(is_free, message, code)
  return is_free and not code or nil, message, code
end

local UNQUEUED = { read = true, permits = true, downgrade = true }

-- Adds calls to a list; `plain`: to a store without readers and permits.
local function adder(list, plain)
  return function(name, run)
    if not (plain and UNQUEUED[name]) then
      list[#list + 1] = { name = name, run = run }
    end
  end
end

--- What a store can be asked, with nobody else at the key. plain: one server of
--- many may still have what the others released.
function M.new(dlock, key, plain)
  local list = {}
  local add = adder(list, plain)
  add("ping", function(s) return s:ping() end)
  add("lock", function(s) return released(s:lock(key)) end)
  add("try_lock", function(s) return released(s:try_lock(key)) end)
  add("with", function(s) return s:with(key, function() end) end)
  add("locked", function(s)
    local locked, message, code = s:mutex(key):locked()
    return answered(plain or not locked, message, code)
  end)
  add("read", function(s) return released(s:rwlock(key):read():acquire()) end)
  add("permits", function(s)
    return released(s:semaphore(key, 2):acquire { permits = 2 })
  end)
  add("campaign", function(s)
    return released(s:election(key):campaign { value = "v", timeout = 0.3 })
  end)
  add("leader", function(s)
    local leader, message, code = s:election(key):leader()
    return answered(plain or not leader, message, code)
  end)
  add("inspect", function(s)
    local seen, message, code = s:inspect(key)
    return answered(plain or not seen, message, code)
  end)
  add("list", function(s) return s:list(key) end)
  add("revoke", function(s) return s:revoke(key) end)
  add("break_lock", function(s) return s:break_lock(key) end)
  add("once", function(s) return s:once(key, function() return "x" end) end)
  add("all", function(s)
    return released(dlock.all { s:mutex(key), s:mutex(key .. "b") }:acquire())
  end)
  add("stats", function(s) return s:stats() end)
  return list
end

--- What a lease can be asked, each of which leaves it held: run(store, lease)
--- gives the lease. again(): called before what came of a detach is asked for
--- once more, because a lease that nobody attaches would be left behind.
function M.of_lease(again, plain)
  local list = {}
  local add = adder(list, plain)
  add("extend", function(_, lease)
    local left, message, code = lease:extend()
    return left and lease, message, code
  end)
  add("detach and attach", function(s, lease)
    local text, message, code = lease:detach()
    if code == "unsupported" then return lease end
    if not text then return nil, message, code end
    lease, message, code = s:attach(text)
    while not lease and code == "unavailable" do
      again()
      lease, message, code = s:attach(text)
    end
    return lease, message, code
  end)
  add("downgrade", function(_, lease)
    local done, message, code = lease:downgrade()
    return done and lease, message, code
  end)
  return list
end

return M
