-- Elections.

local assert = require "luassert"
local dlock = require "dlock"
local proxy = require "spec.support.proxy"

local function code_of(_, _, code)
  return code
end

return function(t, it, timed)
  it("a leader and its published value", function()
    local a, b, key = t:open { name = "first" }, t:open(), t:key()
    local here, there = assert(a:election(key)), assert(b:election(key))
    assert.are.equal("dlock.election: '" .. key .. "'", tostring(here))
    local nobody, message = there:leader()
    assert.is_nil(nobody)
    assert.is_nil(message)
    local lease = assert(here:campaign { value = "host\0a:80" })
    assert.are.equal("exclusive", lease.mode)
    local leader = assert(there:leader())
    assert.are.equal("first", leader.owner)
    assert.are.equal("host\0a:80", leader.value)
    assert.are.equal(lease.fence, leader.fence)
    assert.is_true(there:locked())
    assert.are.equal("busy", code_of(there:try_acquire()))
    assert.is_true(lease:resign())
    assert.is_nil((there:leader()))
    -- Without a value.
    lease = assert(here:campaign())
    leader = assert(there:leader())
    assert.is_nil(leader.value)
    assert.are.equal(lease.fence, leader.fence)
    lease:release()
    t:expect_nothing_left()
  end)

  timed("a campaign, which waits for ever by default", function()
    local a, b, key = t:open(), t:open { timeout = 0.1 }, t:key()
    local lease = assert(a:lock(key))
    assert(b:ping()) -- connecting may take longer than the time-out
    local election = assert(b:election(key))
    assert.are.equal("timeout", code_of(election:campaign { timeout = 0.1 }))
    assert.are.equal("timeout",
      code_of(assert(b:election(key, { timeout = 0.1 })):campaign()))
    local start = t:now()
    local stop = t:later(0.4, function() election:cancel() end)
    assert.are.equal("cancelled", code_of(election:campaign()))
    stop()
    assert.is_true(t:now() - start >= 0.4)
    lease:release()
    t:expect_nothing_left()
  end)

  it("acquire, with and dlock.all, which wait as for any other lock",
    function()
      local a, b, key = t:open(), t:open { timeout = 0.1 }, t:key()
      local lease = assert(a:lock(key))
      assert(b:ping()) -- connecting may take longer than the time-out
      local election = assert(b:election(key))
      assert.are.equal("timeout", code_of(election:acquire()))
      assert.are.equal("timeout", code_of(election:acquire { value = "v" }))
      assert.are.equal("timeout", code_of(election:with(error)))
      local other = assert(b:mutex(t:key()))
      assert.are.equal("timeout",
        code_of(dlock.all { election, other }:acquire()))
      assert.are.equal("timeout",
        code_of(dlock.fallback { election, other }:acquire()))
      assert.are.equal("timeout",
        code_of(assert(a:election(key, { timeout = 0.1 })):acquire()))
      lease:release()
      t:expect_nothing_left()
    end)

  timed("leaders that follow one another, each seen", function()
    local store, key = t:open(), t:key()
    local first, second = t:peer(), t:peer()
    local election = assert(store:election(key))
    for i, peer in ipairs { first, second } do
      peer:start("l = assert(store:election('%s'):campaign{ value = 'n%d' })"
        .. " return l.fence", key, i)
      if i == 1 then peer:finish() else t:queued(key, 1) end
    end
    local seen = assert(election:leader())
    assert.are.equal("n1", seen.value)
    assert.are.equal("timeout", code_of(election:wait_change(0.1)))
    assert.are.equal("timeout", code_of(election:wait_change(0)))
    first:run("l:resign()")
    assert.is_true(election:wait_change(10))
    t:eventually("the second", function()
      local now = election:leader()
      return now and now.value == "n2" and now.fence > seen.fence
    end)
    second:finish()
    second:run("l:resign()")
    assert.is_true(election:wait_change(10))
    assert.is_nil((election:leader()))
    t:expect_nothing_left()
  end)

  it("wait_change, woken by the first leader and by the last's end", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer()
    peer:run("e = store:election('%s') e:leader()", key)
    peer:start("return e:wait_change(20)")
    t:sleep(0.2)
    local lease = assert(assert(a:election(key)):campaign())
    assert.are.equal("true", (peer:finish()))
    peer:start("return e:wait_change(20)")
    t:sleep(0.2)
    lease:resign()
    assert.are.equal("true", (peer:finish()))
    assert.is_nil((assert(b:election(key)):leader()))
    t:expect_nothing_left()
  end)

  timed("wait_change, which misses nothing between two calls", function()
    local a, b, key = t:open(), t:open(), t:key()
    local election = assert(b:election(key))
    assert.are.equal("timeout", code_of(election:wait_change(0))) -- looks
    assert(assert(a:election(key)):campaign()):resign()
    local lease = assert(assert(a:election(key)):campaign())
    assert.is_true(election:wait_change(10))
    assert.are.equal("timeout", code_of(election:wait_change(0.1)))
    lease:resign()
    lease = assert(assert(a:election(key)):campaign())
    assert.is_true(election:wait_change(0))
    lease:resign()
    t:expect_nothing_left()
  end)

  timed("the successor of a leader that was killed", function()
    local store, key, peer = t:open(), t:key(), t:peer(2)
    peer:run("l = assert(store:election('%s'):campaign"
      .. "{ ttl = 1, value = 'dead' })", key)
    local election = assert(store:election(key))
    assert.are.equal("dead", assert(election:leader()).value)
    peer:kill()
    local lease = assert(election:campaign { value = "alive", timeout = 10 })
    assert.are.equal("alive", assert(election:leader()).value)
    lease:resign()
    t:expect_nothing_left(10)
  end)

  it("cancel of wait_change", function()
    local store, key = t:open(), t:key()
    local election = assert(store:election(key))
    local stop = t:later(0.1, function() election:cancel() end)
    assert.are.equal("cancelled", code_of(election:wait_change()))
    stop()
    assert(election:campaign()):resign()
    t:expect_nothing_left()
  end)

  it("another value that the leader publishes", function()
    local a, b, key = t:open(), t:open(), t:key()
    local here, there = assert(a:election(key)), assert(b:election(key))
    assert.are.equal("lost", code_of(here:publish("early")))
    local lease = assert(here:campaign { value = "starting" })
    if t.subject.plain then
      local ok, message, code = here:publish("other")
      assert.is_nil(ok)
      assert.are.equal("unsupported", code)
      assert.matches("resign", message)
    else
      local seen = assert(there:leader())
      local full = ("v"):rep(1024)
      for _, value in ipairs { "host\0a:80\n=%", full, "", "x",
          "end=5\nshared=1\n" } do
        assert.is_true(here:publish(value))
        local leader = assert(there:leader())
        assert.are.equal(value ~= "" and value or nil, leader.value)
        assert.are.equal(lease.fence, leader.fence)
        assert.are.equal(seen.owner, leader.owner)
      end
      assert.are.equal("timeout", code_of(there:wait_change(0)))
      assert(lease:extend())
      assert.are.equal("end=5\nshared=1\n", assert(there:leader()).value)
    end
    assert.is_true(lease:held())
    assert.are.equal("busy", code_of(there:try_acquire()))
    assert.is_true(lease:resign())
    assert.are.equal("lost", code_of(here:publish("late")))
    assert.is_nil((there:leader()))
    local other = assert(there:campaign())
    assert.are.equal("lost", code_of(here:publish("late")))
    assert.is_nil(assert(here:leader()).value)
    other:resign()
    t:expect_nothing_left()
  end)

  if not t.subject.plain then
    it("a value that is published by who does not know that it is no leader",
      function()
        local a, b, key = t:open(), t:open(), t:key()
        local here, there = assert(a:election(key)), assert(b:election(key))
        local lease = assert(here:campaign { value = "old" })
        assert(b:break_lock(key))
        local other = assert(there:campaign { value = "new", timeout = 20 })
        assert.are.equal("lost", code_of(here:publish("late")))
        assert.is_false(lease:held())
        assert.are.equal("new", assert(there:leader()).value)
        other:resign()
        lease = assert(here:campaign())
        assert(lease:downgrade())
        assert.are.equal("unsupported", code_of(here:publish("shared")))
        lease:release()
        t:expect_nothing_left()
      end)
  end

  if t.host.blocks and t.on_network then
    it("a published value whose request or answer is lost", function()
      local p = proxy.start(t.subject.url())
      local a, b, key = t:open { url = p.url }, t:open(), t:key()
      local here, there = assert(a:election(key)), assert(b:election(key))
      local lease = assert(here:campaign { value = "old" })
      for i, cut in ipairs { "cut_after", "cut_before" } do
        for skip = 0, 2 do
          p[cut](p, "", { skip = skip })
          local value = ("value %d.%d"):format(i, skip)
          local ok, message, code = here:publish(value)
          assert.is_true(ok or code == "unavailable", message)
          if not ok then assert.is_true(here:publish(value)) end
          local leader = assert(there:leader())
          assert.are.equal(value, leader.value)
          assert.are.equal(lease.fence, leader.fence)
        end
      end
      assert.is_true(lease:held())
      assert.is_true(lease:resign())
      assert.are.equal("lost", code_of(here:publish("late")))
      p:stop()
      t:expect_nothing_left()
    end)
  end

  it("values that cannot be published", function()
    local store, key = t:open(), t:key()
    local election = assert(store:election(key))
    local lease = assert(election:campaign { value = "v" })
    assert.are.equal("invalid", code_of(election:publish(("v"):rep(1025))))
    assert.has_error(function() election:publish() end)
    assert.has_error(function() election:publish(5) end)
    assert.has_error(function() election:publish("v", {}) end)
    assert.are.equal("v", assert(election:leader()).value)
    lease:resign()
    t:expect_nothing_left()
  end)

  it("leading inside of with", function()
    local store, key = t:open(), t:key()
    local election = assert(store:election(key))
    local ok, value = election:with({ value = "me" }, function(lease)
      assert.is_true(lease:held())
      return assert(election:leader()).value
    end)
    assert.is_true(ok)
    assert.are.equal("me", value)
    assert.is_nil((election:leader()))
    assert.has_error(function() election:campaign { permits = 1 } end)
    assert.has_error(function() store:election(key, { reentrant = true }) end)
    assert.has_error(function() election.leader() end)
    t:expect_nothing_left()
  end)
end
