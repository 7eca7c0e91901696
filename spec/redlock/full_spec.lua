-- Redlock where servers refuse what takes memory, or other writes.
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local redlock = require "spec.support.redlock"
local uv = require "luv"

describe("where most of a Redlock's servers are full or refuse,", function()
  local set, store, key, count

  setup(function() set = redlock.start() end)
  teardown(function() set:stop() end)

  before_each(function()
    count = (count or 0) + 1
    key = "k" .. count
    store = assert(dlock.open { url = set.url, node_timeout = 1 })
  end)

  local function configure(first, name, value)
    set:each(function(client, i)
      if i >= first then
        assert.are.equal("OK", client:call("CONFIG", "SET", name, value))
      end
    end)
  end

  local function fill(first) configure(first or 3, "maxmemory", "1") end

  after_each(function()
    configure(1, "maxmemory", "0")
    store:close(1)
    process.close_all()
  end)

  local function is_full(...)
    local got, message, code = ...
    assert.is_nil(got)
    assert.are.equal("unavailable", code, message)
    assert.matches("fewer than 3 of 5 nodes voted: .*OOM.*raise maxmemory",
      message)
  end

  local function nothing_left()
    loop.eventually("nothing left", 10, function()
      return set:votes(key) == 0
    end)
  end

  local function all_voted()
    loop.eventually("all votes", 10, function()
      return set:votes(key) == 5
    end)
    assert(store:ping()) -- answered behind them
  end

  local function nobody_gets_it()
    is_full(store:try_lock(key))
    is_full(store:lock(key, { timeout = 0.5 }))
    is_full(store:once_per(key, 60, function() end))
  end

  it("a key that was never held is unavailable, and not busy", function()
    fill()
    nobody_gets_it()
    nothing_left()
  end)

  it("a key with counters is unavailable", function()
    assert(assert(store:lock(key)):release())
    nothing_left()
    fill()
    nobody_gets_it()
    nothing_left()
  end)

  it("a lock that is held there is busy", function()
    local lease = assert(store:lock(key))
    all_voted()
    fill()
    local rival = assert(dlock.open { url = set.url, node_timeout = 1 })
    finally(function() rival:close(1) end)
    assert.are.equal("busy", select(3, rival:try_lock(key)))
    assert(lease:release())
    nothing_left()
    is_full(rival:try_lock(key))
  end)

  it("a lease is kept, extended, moved and given back", function()
    local lease = assert(store:lock(key, { ttl = 1 }))
    all_voted()
    fill(1)
    uv.sleep(1500)
    assert.is_true(lease:held())
    assert(lease:extend(2))
    lease = assert(store:attach(assert(lease:detach())))
    assert(lease:extend())
    assert(lease:release())
    nothing_left()
  end)

  it("the lease of a value and of a min_hold is kept, and broken", function()
    local lease = assert(store:lock(key,
      { ttl = 1, min_hold = 20, value = "v" }))
    all_voted()
    fill(1)
    uv.sleep(1500)
    assert.is_true(lease:held())
    assert(lease:release())
    assert.are.equal(5, set:votes(key))
    assert.is_true(store:break_lock(key))
    nothing_left()
  end)

  it("a wait that ends in a later round says what they said", function()
    local waiter = process.spawn { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open { url = arg[1], node_timeout = 1 })
      assert(store:ping())
      print "ready"
      print(select(2, store:lock(arg[2], { timeout = 1.2 })))
      store:close(1)
    ]], args = { set.url, key } }
    fill()
    assert.are.equal("ready", waiter:read_line(20))
    uv.sleep(300)
    finally(function()
      for _, node in ipairs(set.nodes) do node:resume() end
    end)
    for _, node in ipairs(set.nodes) do node:pause() end
    assert.matches("^unavailable: .*OOM", waiter:read_line(20))
  end)

  it("the servers that do not extend are counted", function()
    local lease = assert(store:lock(key, { ttl = 5, renew = false }))
    all_voted()
    for i = 1, 2 do set.nodes[i]:pause() end
    finally(function()
      for i = 1, 2 do set.nodes[i]:resume() end
    end)
    local client = set.nodes[3]:connect()
    client:call("DEL", "dlock:" .. key)
    client:close()
    local _, message, code = lease:extend(20)
    assert.are.equal("unavailable", code)
    assert.matches("3 of 5 nodes failed, 3 are needed", message)
  end)

  it("servers that refuse the second step of a first lock are no holder",
  function()
    local function acl(rule)
      set:each(function(client, i)
        if i > 2 then client:call("ACL", "SETUSER", "default", rule) end
      end)
    end
    finally(function() acl "+@all" end)
    acl "-pttl"
    local got, message, code = store:try_lock(key)
    assert.is_nil(got)
    assert.are.equal("unavailable", code, message)
    assert.matches("the others did not raise their counters", message)
  end)
end)
