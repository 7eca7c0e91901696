-- redis+sentinel:// while primaries change: planned, killed, hung, gone.
local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local process = require "spec.support.process"
local sentinel = require "spec.support.sentinel"

describe("when the primary changes,", function()
  local set, stores, events

  before_each(function()
    -- A busy machine is silent for longer than the 0.2 s of other specs.
    set = sentinel.start { replicas = 1, down_after = 600 }
    stores, events = {}, {}
  end)

  after_each(function()
    process.close_all()
    for _, store in ipairs(stores) do store:close(1) end
    set:stop()
  end)

  local function open(opts)
    opts = opts or {}
    opts.url = set.url
    opts.on_event = function(event) events[#events + 1] = event end
    local store = assert(dlock.open(opts))
    stores[#stores + 1] = store
    return store
  end

  local function replicated(key)
    local replica = set:replica()
    eventually("a copy of " .. key, 20, function()
      return sentinel.tell(replica, "EXISTS", "dlock:" .. key) == 1
    end)
    return replica
  end

  -- Its time on the server is shortened, so that a renewal shows.
  local function shorten(key)
    sentinel.tell(set:primary(), "PEXPIRE", "dlock:" .. key, 30000)
    local replica = replicated(key)
    eventually("a shorter time", 20, function()
      return sentinel.tell(replica, "PTTL", "dlock:" .. key) <= 30000
    end)
  end

  local function renewed(store, node, key)
    eventually("a renewal on the new primary", 20, function()
      assert(store:ping())
      return sentinel.tell(node, "PTTL", "dlock:" .. key) > 31000
    end)
  end

  it("a lease goes on and is renewed on the new one at once", function()
    for _, change in ipairs { "failover", "kill" } do
      local store = open()
      local lease = assert(store:lock(change, { ttl = 60 }))
      shorten(change)
      local before = set:primary()
      if change == "kill" then before:kill() end
      local now = change == "kill" and set:switched(before) or set:failover()
      if change == "kill" then before:start_again() end
      renewed(store, now, change)
      assert.is_true(lease:held())
      assert.is_true((lease:release()))
      assert.equal(0, sentinel.tell(now, "EXISTS", "dlock:" .. change))
      set:settled()
    end
    local seen = 0
    for _, event in ipairs(events) do
      if event.kind == "failover" then
        assert.is_truthy(event.message:find("the primary is 127.0.0.1:", 1,
          true))
        seen = seen + 1
      end
    end
    assert.is_true(seen >= 2)
  end)

  it("a lease that the new one does not know is lost, not at its renewal",
  function()
    local store = open()
    local lease = assert(store:lock("k", { ttl = 60 }))
    local replica = replicated("k")
    sentinel.tell(replica, "CONFIG", "SET", "replica-read-only", "no")
    sentinel.tell(replica, "DEL", "dlock:k")
    local before = core.now()
    set:primary():kill()
    assert.is_true(lease:wait_lost(15))
    assert.is_true(core.now() - before < 15)
    assert.is_false(lease:held())
  end)

  it("fences rise", function()
    local store, last = open(), 0
    for i = 1, 3 do
      for _ = 1, 5 do
        local lease = assert(store:lock("k", { timeout = 15 }))
        assert.is_true(lease.fence > last)
        last = lease.fence
        assert(lease:release())
      end
      if i < 3 then
        set:failover()
        set:settled()
      end
    end
  end)

  it("what a server says that hung and comes back counts no more", function()
    local store = open { io_timeout = 0.5 }
    local lease = assert(store:lock("k", { ttl = 60 }))
    replicated("k")
    local before = set:primary()
    before:pause()
    local _, _, code = store:try_lock("late") -- its answer comes too late
    assert.equal("unavailable", code)
    local now = set:switched(before)
    before:resume()
    eventually("the other primary", 30, function() return store:ping() end)
    eventually("the demoted one", 30, function()
      return sentinel.replication(before).role == "slave"
    end)
    local released, message = lease:release()
    assert.is_true(released, message)
    assert.equal(0, sentinel.tell(now, "EXISTS", "dlock:k"))
    assert.is_true((assert(store:lock("late", { timeout = 5 })):release()))
  end)

  it("those who wait are served once each", function()
    local waiters = {}
    local store = open()
    local lease = assert(store:lock("k", { ttl = 60 }))
    for i = 1, 8 do
      waiters[i] = process.spawn { script = [[
        local store = assert(require("dlock").open(arg[1]))
        local lease, message = store:lock("k", { ttl = 60, timeout = 60 })
        print(lease and "got" or message)
        io.flush()
        if lease then print(lease:release()) end
        store:close(1)
      ]], args = { set.url }, stderr = "pipe" }
    end
    eventually("eight who wait", 30, function()
      return #assert(store:inspect("k")).waiters == 8
    end)
    local before = set:primary()
    replicated("k")
    before:kill()
    set:switched(before)
    eventually("the new primary", 30, function() return store:ping() end)
    local released, message = lease:release()
    assert.is_true(released, message)
    for i = 1, 8 do
      local status = waiters[i]:wait(60)
      assert.equal("got\ntrue\n", waiters[i].out .. waiters[i].err)
      assert.equal(0, status)
    end
  end)

  it("one that comes back empty before anybody votes is noticed", function()
    set:stop()
    set = sentinel.start { replicas = 1, down_after = 30000 }
    local store = open()
    local lease = assert(store:lock("k", { ttl = 60 }))
    local primary = set:primary()
    primary:kill()
    primary:start_again()
    assert.is_true(lease:wait_lost(15))
  end)
end)
