-- dlock.all: several locks, of one store or of several, all or none.

local assert = require "luassert"
local core = require "dlock.core"
local dlock = require "dlock"
local subjects = require "spec.contract.subjects"

local function code_of(_, _, code)
  return code
end

return function(t, it, timed)
  -- A store of another kind than this subject's.
  local function open_other()
    for _, other in ipairs(subjects) do
      if other.name ~= t.subject.name then
        return t:open { url = other.url() }
      end
    end
  end

  it("all of them, in the order given", function()
    local a, b, other, key = t:open(), t:open(), open_other(), t:key()
    local both = dlock.all {
      assert(a:mutex(key .. "z")),
      assert(other:mutex(key .. "m")),
      assert(assert(a:rwlock(key .. "a")):read()),
      assert(a:semaphore(key .. "s", 2)),
    }
    local lease = assert(both:acquire { ttl = 10 })
    for i, tail in ipairs { "z", "m", "a", "s" } do
      assert.are.equal(key .. tail, lease.leases[i].key)
      assert.is_true(lease.leases[i]:held())
      assert.are.equal(10, lease.leases[i].ttl)
    end
    assert.are.equal(4, #lease.leases)
    assert.is_nil(lease.fence)
    assert.are.equal("busy", code_of(b:try_lock(key .. "z")))
    assert.are.equal("busy", code_of(other:try_lock(key .. "m")))
    assert.is_true(both:locked())
    assert.is_true(lease:held())
    assert.is_true(lease:remaining() > 0 and lease:remaining() <= 10)
    assert.is_true(assert(lease:extend(5)) <= 5)
    assert.is_truthy(tostring(lease):find("^dlock.leases: .*held"))
    assert.is_truthy(tostring(both):find(key .. "m", 1, true))
    assert.is_true(lease:release())
    assert.is_true(lease:release())
    assert.is_false(lease:held())
    assert.are.equal(0, lease:remaining())
    assert.is_false(both:locked())
    assert(other:try_lock(key .. "m")):release()
    t:expect_nothing_left()
  end)

  timed("or none", function()
    local a, b, other, key = t:open(), t:open(), open_other(), t:key()
    local function both()
      return dlock.all { assert(other:mutex(key)), assert(a:mutex(key .. "b")) }
    end
    local held = assert(b:lock(key .. "b"))
    local got, message, code = both():try_acquire()
    assert.is_nil(got)
    assert.are.equal("busy", code, message)
    assert.is_truthy(message:find(key .. "b", 1, true), message)
    assert.are.equal("busy", code_of(both():acquire { timeout = 0 }))
    local start = core.now()
    got, message, code = both():acquire { timeout = 0.3 }
    assert.is_nil(got)
    assert.are.equal("timeout", code, message)
    local took = core.now() - start
    assert.is_true(took >= 0.29 and took < 3, took)
    assert(other:try_lock(key)):release() -- it was given back
    held:release()
    assert(both():acquire()):release()
    t:expect_nothing_left()
  end)

  timed("one time-out for all of them", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer()
    local first, second = assert(a:lock(key .. "1")), assert(a:lock(key .. "2"))
    peer:start("local now, lease, _, code = require('dlock.core').now"
      .. " local start = now() lease, _, code = dlock.all{ store:mutex('%s1'),"
      .. " store:mutex('%s2') }:acquire{ timeout = 3 }"
      .. " return code .. ' ' .. now() - start", key, key)
    t:queued(key .. "1", 1)
    t:sleep(1.5)
    first:release()
    t:queued(key .. "2", 1)
    local took = tonumber(peer:finish():match("^timeout ([%d.]+)"))
    -- A time-out for each of them would end after 4.5 seconds.
    assert.is_true(took > 2.9 and took < 4.4, took)
    assert(b:try_lock(key .. "1")):release()
    second:release()
    t:expect_nothing_left()
  end)

  it("cancel, which gives back the members that were taken", function()
    local a, b, key = t:open(), t:open(), t:key()
    local held = assert(a:lock(key .. "2"))
    local both = dlock.all { assert(b:mutex(key .. "1")),
      assert(b:mutex(key .. "2")) }
    local stop = t:later(0.2, function() both:cancel() end)
    assert.are.equal("cancelled", code_of(both:acquire { timeout = 20 }))
    stop()
    local canceller = dlock.canceller()
    stop = t:later(0.2, function() canceller:cancel() end)
    assert.are.equal("cancelled",
      code_of(both:acquire { timeout = 20, cancel = canceller }))
    stop()
    assert(a:try_lock(key .. "1")):release()
    held:release()
    assert(both:acquire()):release() -- it can be used again
    t:expect_nothing_left()
  end)

  -- What nobody was given is not kept for its min_hold.
  local LONG = 60 -- seconds; longer than any wait here

  it("or none, and then no min_hold of those that were taken", function()
    local a, b, key = t:open(), t:open(), t:key()
    local held = assert(a:lock(key .. "2"))
    local function both(opts)
      return dlock.all { assert(b:mutex(key .. "1", opts)),
        assert(b:mutex(key .. "2")) }
    end
    local function free(how, code)
      assert.are.equal(how, code)
      assert(a:try_lock(key .. "1"), how):release()
    end
    local long = { min_hold = LONG }
    free("busy", code_of(both():try_acquire(long)))
    free("busy", code_of(both(long):try_acquire()))
    free("timeout",
      code_of(both():acquire { min_hold = LONG, timeout = 0.2 }))
    local one = both(long)
    local stop = t:later(0.2, function() one:cancel() end)
    free("cancelled", code_of(one:acquire { timeout = 20 }))
    stop()
    held:release()
    t:expect_nothing_left()
  end)

  timed("min_hold of all of them, once they are handed out", function()
    local a, b, key = t:open(), t:open(), t:key()
    local both = dlock.all { assert(a:mutex(key .. "1")),
      assert(a:mutex(key .. "2")) }
    local start = t:now()
    local lease = assert(both:acquire { min_hold = 0.6 })
    assert.is_true(lease:release())
    for i = 1, 2 do
      t:is_kept(b:mutex(key .. i), start, 0.59)
    end
    for i = 1, 2 do
      assert(b:lock(key .. i, { timeout = 5 })):release()
    end
    t:expect_nothing_left()
  end)

  timed("min_hold of what the owner had before, though the rest was busy",
  function()
    local a, b, key = t:open(), t:open(), t:key()
    local held = assert(b:lock(key .. "2"))
    local mutex = assert(a:mutex(key .. "1", { reentrant = true }))
    local start = t:now()
    local outer = assert(mutex:acquire { min_hold = 0.6 })
    assert.are.equal("busy",
      code_of(dlock.all { mutex, assert(a:mutex(key .. "2")) }:try_acquire()))
    assert.is_true(outer:held())
    assert.is_true(outer:release())
    t:is_kept(b:mutex(key .. "1"), start, 0.59)
    assert(b:lock(key .. "1", { timeout = 5 })):release()
    held:release()
    t:expect_nothing_left()
  end)

  -- Only where the one who waits runs Lua code: as Ctrl-C does it.
  local only_blocking = t.host.blocks and it or function() end

  only_blocking("an error of a debug hook, which gives back what was taken",
  function()
    local a, b, key = t:open(), t:open(), t:key()
    local held = assert(a:lock(key .. "2"))
    local both = dlock.all { assert(b:mutex(key .. "1")),
      assert(b:mutex(key .. "2")) }
    local stop
    collectgarbage("stop") -- that would give it back, too
    local ok = pcall(function()
      stop = t:later(0.2, function()
        debug.sethook()
        error("interrupted")
      end)
      assert(both:acquire { timeout = 20, min_hold = LONG })
    end)
    stop()
    assert.is_false(ok)
    local given_back, problem = pcall(t.eventually, t, "given back", function()
      local lease = a:try_lock(key .. "1")
      return lease and lease:release()
    end)
    collectgarbage("restart")
    assert.is_true(given_back, problem)
    held:release()
    t:expect_nothing_left()
  end)

  timed("none that was lost while the next was waited for", function()
    local a, b, key = t:open(), t:open(), t:key()
    local held = assert(a:lock(key .. "2"))
    local both = dlock.all { assert(b:mutex(key .. "1")),
      assert(b:mutex(key .. "2")) }
    local stop = t:later(0.7, function() held:release_later() end)
    local lease = assert(both:acquire { timeout = 20, ttl = 0.5,
      renew = false, min_hold = 1 })
    stop()
    assert.is_true(lease:held())
    assert.is_true(lease.leases[1]:held() and lease.leases[2]:held())
    lease:release()
    t:expect_nothing_left()
  end)

  timed("what is lost when one of them is lost", function()
    local a, b, key = t:open(), t:open(), t:key()
    local both = dlock.all { assert(a:mutex(key .. "2")),
      assert(a:mutex(key .. "1")) }
    local lease, told = assert(both:acquire { ttl = 1 }), 0
    lease:on_lost(function(whole, reason)
      assert.are.equal(lease, whole)
      assert.are.equal("string", type(reason))
      told = told + 1
    end)
    assert.are.equal("timeout", code_of(lease:wait_lost(0.1)))
    assert.is_true(b:break_lock(key .. "1"))
    assert.is_true(lease:wait_lost(5))
    assert.is_false(lease:held())
    assert.are.equal(0, lease:remaining())
    assert.is_true(lease.leases[1]:held())
    t:eventually("on_lost", function()
      a:ping()
      return told == 1
    end)
    assert.are.equal("lost", code_of(lease:release()))
    assert.are.equal("lost", code_of(lease:release()))
    assert(b:try_lock(key .. "2")):release() -- the other one was released
    t:expect_nothing_left()
  end)

  timed("what is waited for: the loss of any of them, in any store", function()
    local a, b, c, key = t:open(), t:open(), t:open(), t:key()
    local peer = t:peer()
    local both = dlock.all { assert(a:mutex(key .. "1")),
      assert(b:mutex(key .. "2")) }
    for i = 1, 2 do
      local lease = assert(both:acquire { ttl = 1.5 })
      assert.are.equal("timeout", code_of(lease:wait_lost(0.05)))
      peer:start("local slept = os.execute('sleep 0.2')"
        .. " assert(slept == true or slept == 0)" -- 0: before Lua 5.2
        .. " return store:break_lock('%s')", key .. i)
      assert.is_true(lease:wait_lost())
      peer:finish()
      assert.is_true(lease:wait_lost()) -- it is known by now
      assert.are_not.equal(i == 1, lease.leases[1]:held())
      assert.is_not_nil(code_of(lease:release()))
    end
    local lease = assert(both:acquire { ttl = 1.5 })
    lease.leases[2]:release()
    assert.are.equal("lost", code_of(lease:wait_lost()))
    lease.leases[1]:release()
    lease = assert(both:acquire { ttl = 1.5 })
    local stop = t:later(0.1, function() b:close() end)
    assert.is_not_nil(code_of(lease:wait_lost()))
    stop()
    lease:release()
    assert(c:try_lock(key .. "1")):release()
    assert(c:try_lock(key .. "2")):release()
    t:expect_nothing_left(5) -- notes of what was renewed: the ttl and 1 s
  end)

  it("with, and the fields that a lease of several does not have", function()
    local a, b, key = t:open(), t:open(), t:key()
    local both = dlock.all { assert(a:mutex(key .. "1")),
      assert(a:mutex(key .. "2")) }
    local ok, sum = both:with({ ttl = 5 }, function(lease, x, y)
      assert.is_true(lease:held())
      assert.are.equal("busy", code_of(b:try_lock(key .. "2")))
      for _, call in ipairs { "detach", "guard", "downgrade" } do
        local _, message, code = lease[call](lease)
        assert.are.equal("unsupported", code)
        assert.is_truthy(message:find("leases[i]", 1, true), message)
      end
      assert.is_false(lease:revoked())
      return x + y
    end, 20, 22)
    assert.is_true(ok)
    assert.are.equal(42, sum)
    if t.subject.portable then
      local text, other
      ok, text, other = both:with(function(lease)
        return assert(lease.leases[1]:detach()), "kept"
      end)
      assert.is_true(ok, text)
      assert.are.equal("kept", other)
      assert(b:try_lock(key .. "2")):release()
      assert.are.equal("busy", code_of(b:try_lock(key .. "1")))
      assert.is_true(assert(a:attach(text)):release())
    end
    local problem = {}
    local caught
    ok, caught = t:pcall(both.with, both, function() error(problem) end)
    assert.is_false(ok)
    assert.are.equal(problem, caught)
    assert(b:try_lock(key .. "1")):release()
    local _, message, code = both:with({ ttl = 1.5 }, function(lease)
      assert(b:break_lock(key .. "2"))
      assert.is_true(lease:wait_lost(15))
    end)
    assert.are.equal("lost", code, message)
    local later_on = assert(both:acquire())
    assert.is_true(later_on:release_later())
    assert.is_false(later_on:held())
    assert(b:lock(key .. "1")):release()
    assert(b:lock(key .. "2")):release()
    t:expect_nothing_left()
  end)

  if _VERSION == "Lua 5.4" then
    it("a to-be-closed variable", function()
      local a, b, key = t:open(), t:open(), t:key()
      local both = dlock.all { assert(a:mutex(key .. "1")),
        assert(a:mutex(key .. "2")) }
      assert(load("local both = ... local lease <close> ="
        .. " assert(both:acquire())"))(both)
      assert(b:try_lock(key .. "1")):release()
      assert(b:try_lock(key .. "2")):release()
      t:expect_nothing_left()
    end)
  end

  it("lists that cannot be", function()
    local a, again, key = t:open(), t:open(), t:key()
    local mutex = assert(a:mutex(key))
    local function raises(pattern, list)
      local ok, message = pcall(function() dlock.all(list) end)
      assert.is_false(ok)
      assert.is_truthy(message:find(pattern), message)
      assert.is_truthy(message:find("all.lua", 1, true), message)
    end
    raises("twice", { mutex, mutex })
    raises("twice", { mutex, assert(again:mutex(key)) })
    raises("twice", { mutex, assert(a:rwlock(key)):read() })
    local spelled = t:open { prefix = t:default_prefix() }
    raises("twice", { mutex, assert(spelled:mutex(key)) })
    raises("number 2", { mutex, dlock.all { mutex } })
    raises("number 1", { 5 })
    raises("number 1", { assert(a:rwlock(key)) })
    raises("empty", {})
    raises("field", { mutex, name = mutex })
    raises("array", mutex)
    raises("array", nil)
    assert.has_error(function()
      dlock.all { mutex }:acquire { permits = 1 }
    end)
    -- Locks of the same name in two places of one store are two.
    local apart = t:open { prefix = t:default_prefix():find("^/")
      and "/x" or "x:" }
    assert(dlock.all { mutex, assert(apart:mutex(key)) }:acquire()):release()
  end)
end
