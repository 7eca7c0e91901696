-- "Which calls ask the store" of docs/reference.md: the table has every public
-- call, and each sends as many requests to Redis as its row says.
local dlock = require "dlock"
local loop = require "spec.support.loop"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local uv = require "luv"

local PAGE = "docs/reference.md"
local QUIET = 20 -- ms in which a request in the background would be sent

local private, monitor, marker, marks, store

setup(function()
  private, marks = redis.start(), 0
  monitor, marker = private:connect(), private:connect()
  assert.are.equal("OK", monitor:call "MONITOR")
  store = assert(dlock.open { url = private.url })
end)

teardown(function()
  store:close()
  monitor:close()
  marker:close()
  private:stop()
end)

-- How many requests came since the last look, and their lines. MULTI to EXEC is
-- one, and what a script calls is none.
local function requests()
  local count, inside, lines, line = 0, false, {}
  marks = marks + 1
  local mark = ('"ECHO" "%d"'):format(marks)
  marker:call("ECHO", marks)
  repeat
    line = assert(monitor:read())
    local command = line:match '^%S+ %[%d+ [^l].-%] "(%w+)"'
    if command and not line:find(mark, 1, true) then
      inside = command:upper() == "MULTI"
        or inside and command:upper() ~= "EXEC"
      count, lines[#lines + 1] = count + (inside and 0 or 1), line
    end
  until line:find(mark, 1, true)
  return count, table.concat(lines, "\n")
end

-- Until `least` requests came, and then none.
local function settle(least)
  local count, more = 0
  repeat
    uv.sleep(QUIET)
    more = requests()
    count = count + more
  until more == 0 and count >= least
end

local kept = {} -- leases, so that none is collected while it is held

local function keep(lease)
  kept[#kept + 1] = lease
  return lease
end

local function lock(key) return keep(assert(store:lock(key))) end

local function nothing() return true end

local function on_store(name, ...)
  local args = { ... }
  return function(key)
    return function()
      return store[name](store, key, (table.unpack or unpack)(args))
    end
  end
end

local function on_object(make, name, ...)
  local args = { ... }
  return function(key)
    local object = make(key)
    return function()
      return object[name](object, (table.unpack or unpack)(args))
    end
  end
end

local function on_mutex(...)
  return on_object(function(key) return store:mutex(key) end, ...)
end

local function on_election(...)
  return on_object(function(key)
    local election = store:election(key)
    election:leader() -- wait_change compares with it
    return election
  end, ...)
end

local function on_semaphore(...)
  return on_object(function(key) return store:semaphore(key, 2) end, ...)
end

local function on_barrier(...)
  return on_object(function(key) return keep(store:barrier(key, 1)) end, ...)
end

local function on_latch(...)
  return on_object(function(key) return store:latch(key, 2) end, ...)
end

local function on_rwlock(...)
  return on_object(function(key) return store:rwlock(key) end, ...)
end

local function on_lease(...) return on_object(lock, ...) end

-- By the name of a call: given a key it prepares the call.
local CALLS = {
  ["dlock.open"] = function()
    return function() return dlock.open(private.url) end
  end,
  ["dlock.all"] = function(key)
    local mutex = store:mutex(key)
    return function() return dlock.all { mutex } end
  end,
  ["dlock.fallback"] = function(key)
    local mutex = store:mutex(key)
    return function() return dlock.fallback { mutex } end
  end,
  ["dlock.prometheus"] = function()
    return function() return dlock.prometheus { store } end
  end,
  ["store:ping"] = function() return function() return store:ping() end end,
  ["store:stats"] = function() return function() return store:stats() end end,
  ["store:list"] = on_store "list",
  ["store:close"] = function(key)
    local other = assert(dlock.open(private.url))
    keep(assert(other:lock(key)))
    return function() return other:close() end
  end,
  ["store:mutex"] = on_store "mutex",
  ["store:rwlock"] = on_store "rwlock",
  ["store:semaphore"] = on_store("semaphore", 2),
  ["store:barrier"] = on_store("barrier", 1),
  ["store:latch"] = on_store("latch", 1),
  ["store:election"] = on_store "election",
  ["store:inspect"] = on_store "inspect",
  ["store:break_lock"] = on_store "break_lock",
  ["store:revoke"] = on_store "revoke",
  ["store:tag"] = on_store "tag",
  ["store:lock"] = function(key) return function() return lock(key) end end,
  ["store:try_lock"] = function(key)
    return function() return keep(assert(store:try_lock(key))) end
  end,
  ["store:with"] = on_store("with", nothing),
  ["store:once"] = on_store("once", function() return "result" end),
  ["store:once_per"] = on_store("once_per", 0.1, nothing),
  ["store:attach"] = function(key)
    local detached = assert(lock(key):detach())
    return function() return keep(assert(store:attach(detached))) end
  end,
  ["mutex:acquire"] = on_mutex "acquire",
  ["mutex:try_acquire"] = on_mutex "try_acquire",
  ["mutex:with"] = on_mutex("with", nothing),
  ["mutex:locked"] = on_mutex "locked",
  ["mutex:cancel"] = on_mutex "cancel",
  ["rwlock:read"] = on_rwlock "read",
  ["rwlock:write"] = on_rwlock "write",
  ["barrier:enter"] = on_barrier "enter",
  ["barrier:leave"] = function(key)
    local barrier = store:barrier(key, 1)
    assert(barrier:enter())
    return function() return barrier:leave() end
  end,
  ["latch:count_down"] = on_latch "count_down",
  ["latch:count"] = on_latch "count",
  ["latch:wait"] = on_latch("wait", 0),
  ["semaphore:available"] = on_semaphore "available",
  ["semaphore:resize"] = on_semaphore("resize", 3),
  ["election:campaign"] = on_election "campaign",
  ["election:leader"] = on_election "leader",
  ["election:publish"] = function(key)
    local election = store:election(key)
    keep(assert(election:campaign()))
    return function() return election:publish "v" end
  end,
  ["election:wait_change"] = on_election("wait_change", 0),
  ["lease:release"] = on_lease "release",
  ["lease:resign"] = on_lease "resign",
  ["lease:release_later"] = on_lease "release_later",
  ["lease:extend"] = on_lease "extend",
  ["lease:wait_lost"] = on_lease("wait_lost", 0),
  ["lease:detach"] = on_lease "detach",
  ["lease:fence_sql"] = on_lease "fence_sql",
  ["lease:downgrade"] = on_lease "downgrade",
  ["lease:guard"] = on_lease("guard", "SET", "guarded", "1"),
  ["lease:on_lost"] = on_lease("on_lost", nothing),
  ["lease:on_revoke"] = on_lease("on_revoke", nothing),
  ["lease:revoked"] = on_lease "revoked",
  ["lease:held"] = on_lease "held",
  ["lease:remaining"] = on_lease "remaining",
  ["lease.fence"] = function(key)
    local lease = lock(key)
    return function() return lease.fence end
  end,
}

-- The rows of the page's table: the number, and whether it is one in the
-- background, by the name of each call.
local function read_rows()
  local text = server.read_file(PAGE)
  local section = text:match "\n## Which calls ask the store\n(.-)\n## "
  assert.is_truthy(section, "the page has no such section")
  local rows = {}
  for number, background, calls in section:gmatch
    "\n| (%d+)(,? ?[^|]-) | ([^\n]*) |" do
    for name in calls:gmatch "`(%l+[.:][%l_]+)`" do
      assert.is_nil(rows[name], name .. " is there twice")
      rows[name] = { count = tonumber(number), background = background ~= "" }
    end
  end
  return rows
end

describe("the table of calls that ask the store", function()
  it("has every call of the page's other tables", function()
    local rows = read_rows()
    for name in server.read_file(PAGE):gmatch "\n| `(%l+:[%l_]+)%(" do
      assert.is_truthy(rows[name], name)
      assert.is_truthy(CALLS[name], name)
    end
  end)

  it("has the number of requests of each", function()
    for name, row in pairs(read_rows()) do
      assert.is_truthy(CALLS[name], name)
      local first = CALLS[name](name .. " first") -- loads scripts
      settle(0)
      keep(first())
      settle(row.background and row.count or 0)
      local call = CALLS[name](name)
      settle(0)
      keep(call())
      local count, lines = 0, ""
      if not row.background then count, lines = requests() end
      local function look()
        local more, new = requests()
        count, lines = count + more, lines .. "\n" .. new
        return count >= row.count
      end
      if row.background then
        loop.eventually(name .. " in the background", 5, look)
      elseif row.count == 0 then
        uv.sleep(QUIET)
        look()
      end
      assert.are.equal(row.count, count, name .. lines)
    end
  end)
end)
