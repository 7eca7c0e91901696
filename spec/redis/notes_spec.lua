-- What others are told of a hold on Redis that was taken without a script: it
-- is not written down before its first renewal, and rivals that failed by the
-- same plain commands have raised the key's counter meanwhile.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local command = require "spec.support.command"
local private_redis = require "spec.support.private_redis"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"

describe("a hold without a note on redis:", function()
  local private, admin, store, rival

  private_redis(function(...) private, admin = ... end)

  local function set_up()
    admin:call("FLUSHALL")
    store = assert(dlock.open { url = private.url, name = "me" })
    rival = assert(dlock.open(private.url))
    for _, one in ipairs { store, rival } do -- from now on without a script
      assert(assert(one:lock("k")):release())
    end
  end

  local function tear_down()
    store:close(1)
    rival:close(1)
  end

  local it = steady(set_up, tear_down)

  -- One try, which raises the counter.
  local function fail()
    local _, _, code = rival:try_lock("k")
    assert.are.equal("busy", code)
  end

  local function noted()
    return admin:call("KEYS", "~dlock:{*}:i:dlock:k")[1]
  end

  local function wait_until_noted()
    eventually("it is noted", 5, function()
      store:ping()
      return noted()
    end)
  end

  it("its fence is at most the one that is shown, and says so", function()
    local lease = assert(store:lock("k", { ttl = 1.5 }))
    fail()
    local holder = assert(rival:inspect("k")).holders[1]
    assert.is_nil(noted())
    assert.is_true(holder.fence >= lease.fence)
    assert.is_true(holder.fence_at_most)
    assert.is_nil(holder.since)
    assert.are.equal("me", holder.owner)
    local leader = assert(rival:election("k"):leader())
    assert.are.same({ owner = "me", fence = holder.fence,
      fence_at_most = true }, leader)
    wait_until_noted()
    holder = assert(rival:inspect("k")).holders[1]
    assert.are.equal(lease.fence, holder.fence)
    assert.is_nil(holder.fence_at_most)
    assert.is_true(holder.since >= 0)
    leader = assert(rival:election("k"):leader())
    assert.are.same({ owner = "me", fence = lease.fence }, leader)
    assert(lease:release())
  end)

  it("its own store shows it exactly, and since when", function()
    local lease = assert(store:lock("k", { ttl = 30 }))
    fail()
    local holder = assert(store:inspect("k")).holders[1]
    assert.is_nil(noted())
    assert.is_true(holder.since >= 0 and holder.since < 30)
    assert.is_true(holder.ttl > 0 and holder.ttl <= 30)
    holder.since, holder.ttl = nil, nil
    assert.are.same({ owner = "me", fence = lease.fence }, holder)
    local election = store:election("k") -- others see no exact fence
    assert.is_true(election:leader().fence_at_most)
    assert.equal("timeout", select(3, election:wait_change(0.05)))
    assert(lease:release())
    assert.is_true(election:wait_change(5))
  end)

  it("one whose renewal is not answered yet leaves no note", function()
    local p = proxy.start(private.url)
    local other = assert(dlock.open(p.url))
    assert(assert(other:lock("k")):release())
    local lease = assert(other:lock("k", { ttl = 1.5 }))
    p:delay("down", 0.5)
    eventually("it is noted", 5, noted)
    assert.is_true(lease:release())
    assert.is_nil(noted())
    other:close(1)
    p:stop()
  end)

  it("a note is exact", function()
    local lease = assert(store:lock("k", { value = "v" }))
    fail()
    local holder = assert(rival:inspect("k")).holders[1]
    assert.are.equal(lease.fence, holder.fence)
    assert.is_nil(holder.fence_at_most)
    holder.owner, holder.ttl, holder.since, holder.fence = nil, nil, nil, nil
    assert.are.same({ value = "v" }, holder)
    assert(lease:release())
  end)

  it("a counter that counts from nothing is not shown as a fence", function()
    local lease = assert(store:lock("k"))
    local counter = admin:call("KEYS", "~dlock:{*}:f:dlock:k")[1]
    for _, value in ipairs { false, "1" } do
      admin:call("DEL", counter)
      if value then admin:call("SET", counter, value, "PX", 60000) end
      local holder = assert(rival:inspect("k")).holders[1]
      holder.ttl = nil
      assert.are.same({ owner = "me" }, holder)
    end
    assert(lease:release())
  end)

  it("the command says it in words, and in JSON", function()
    local lease = assert(store:lock("k", { renew = false, ttl = 60 }))
    local _, out = command.run("--url", private.url, "show", "k")
    assert.matches("\nheld by me, fence at most %d+, ends in ", out)
    _, out = command.run("--url", private.url, "--json", "show", "k")
    assert.matches('{"fence":%d+,"fence_at_most":true,"owner":"me",', out)
    assert(lease:release())
  end)

  describe("wait_change", function()
    -- Nor does it ask again and again to find that out.
    local function unchanged(election, why)
      local before = admin:command_counts().evalsha or 0
      assert.are.equal("timeout", select(3, election:wait_change(0.2)), why)
      assert.are.equal("timeout", select(3, election:wait_change(0)), why)
      local asked = admin:command_counts().evalsha - before
      assert.is_true(asked <= 8, why .. ": asked " .. asked .. " times")
    end

    it("does not take a rival's failed try for a change", function()
      local lease = assert(store:lock("k", { ttl = 1.5 }))
      local watcher = assert(dlock.open(private.url))
      local election = watcher:election("k")
      assert(election:leader())
      fail()
      unchanged(election, "a failed try")
      wait_until_noted()
      unchanged(election, "the first renewal")
      assert(lease:release())
      assert.is_true(election:wait_change(5))
      assert.is_nil((election:leader()))
      watcher:close(1)
    end)

    it("knows the next hold from it, also one of the same owner", function()
      local lease = assert(store:lock("k"))
      local election = rival:election("k")
      assert(election:leader())
      assert(lease:release())
      lease = assert(store:lock("k"))
      assert.is_nil(noted())
      assert.is_true(election:wait_change(5))
      unchanged(election, "the same hold")
      assert(lease:release())
      lease = assert(store:lock("k", { value = "v" }))
      assert.is_true(election:wait_change(5))
      assert(lease:release())
      lease = assert(store:lock("k"))
      assert.is_nil(noted())
      assert.is_true(election:wait_change(5))
      assert(lease:release())
    end)
  end)
end)
