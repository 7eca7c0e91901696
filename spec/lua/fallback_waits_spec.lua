-- How dlock.fallback waits: what is looked at again behind a wait, and how the
-- time is shared. A Redis that is stopped, killed and started again, coroutines
-- of cqueues, and the file store behind it.

local core = require "dlock.core"
local cqueues = require "cqueues"
local dlock = require "dlock"
local fallback_stores = require "spec.support.fallback_stores"
local lockable = require "dlock.lockable"
local process = require "spec.support.process"
local steady = require "spec.support.steady"

describe("a wait of dlock.fallback", function()
  local both, first, a, b, queue

  local function set_up()
    both, queue = fallback_stores.start { connect_timeout = 0.5 }, cqueues.new()
    first, a, b = both.server, both.first, both.second
  end

  local timed = steady(set_up, function() both:stop() end)

  local function run()
    assert(queue:loop(40))
    assert.is_true(queue:empty())
  end

  local function sleep_until(check)
    local late = core.now() + 15
    while not check() do
      assert(core.now() < late, "it never came true")
      cqueues.sleep(0.005)
    end
  end

  timed("gives no weaker lock when its store is long back", function()
    assert(first:kill())
    local holder, lease, asked, message = assert(b:lock "k"), nil, nil, nil
    queue:wrap(function()
      lease, message = both:over { grace = 0,
        on_degraded = function() asked = true end }:acquire { timeout = 20,
          min_hold = 60 }
    end)
    queue:wrap(function()
      sleep_until(function() return asked end)
      first:start_again()
      local other = assert(dlock.open(first.url))
      local held = assert(other:lock("k", { timeout = 10 }))
      cqueues.sleep(1.2) -- longer than we go by an answer
      assert(holder:release())
      sleep_until(function() return b:mutex("k"):locked() == false end)
      assert(held:release())
      other:close()
    end)
    run()
    assert.is_not_nil(lease, message)
    assert.is_nil(lease.degraded)
    assert.same({}, both:kinds())
  end)

  timed("is over when its store fails at once", function()
    local inner, count = assert(a:mutex "k"), 0
    lockable.state(inner).take = function()
      count = count + 1
      return nil, "unavailable: no descriptors are left", "unavailable"
    end
    local lock = assert(dlock.fallback { inner, b:mutex "k", grace = 60 })
    assert.equal("unavailable", select(3, lock:acquire { timeout = 2 }))
    assert.equal(1, count)
  end)

  timed("gives a sign of life half of what is left", function()
    local begun, asked
    local lock = both:over { grace = 0, hold_off = 60,
      on_degraded = function() asked = core.now() - begun end }
    assert(a:ping(10))
    first:pause()
    begun = core.now()
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    begun = core.now()
    lock:acquire { timeout = 0.3 }
    first:resume()
    assert.is_true(asked < 0.8, asked)
  end)

  timed("is cancelled while it asks for a sign of life", function()
    local asked
    local lock = both:over { grace = 0, hold_off = 60,
      on_degraded = function() asked = true end }
    assert(a:ping(10))
    first:pause()
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    for _, how in ipairs { "lock", "canceller" } do
      asked = nil
      local cancel = dlock.canceller()
      queue:wrap(function()
        cqueues.sleep(1.1) -- so that the next one asks
        assert.equal("cancelled", select(3, lock:acquire { timeout = 20,
          cancel = cancel }))
        assert.is_nil(asked)
      end)
      queue:wrap(function()
        cqueues.sleep(1.3)
        if how == "lock" then lock:cancel() else cancel:cancel() end
      end)
      run()
    end
    first:resume()
  end)

  timed("is cancelled while it asks once more", function()
    local asked, code
    both:reopen_first { connect_timeout = 30 } -- no ping ends before its time
    assert(both.first:ping(10))
    first:pause()
    local holder, cancel = assert(b:lock "k"), dlock.canceller()
    queue:wrap(function()
      code = select(3, both:over { grace = 0, on_degraded = function()
        asked = true
      end }:acquire { timeout = 12, cancel = cancel })
    end)
    queue:wrap(function()
      sleep_until(function() return asked end)
      cqueues.sleep(1.2) -- so that it asks
      assert(holder:release())
      cqueues.sleep(0.2)
      cancel:cancel()
    end)
    run()
    first:resume()
    assert.equal("cancelled", code)
    assert.is_false(b:mutex("k"):locked())
  end)

  timed("goes by a sign of life, or by none, for a second", function()
    local lock = both:over { grace = 0, hold_off = 60 }
    assert(a:ping(10))
    first:pause()
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    local begun = core.now()
    for _ = 1, 3 do
      fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    end
    local took = core.now() - begun
    first:resume()
    assert.is_true(took < 0.9, took)
  end)

  timed("begins the grace anew when nobody called for that long", function()
    assert(first:kill())
    local lock = both:over { grace = 0.5, hold_off = 60 }
    fallback_stores.take_degraded(lock, { timeout = 10 }):release()
    fallback_stores.take_degraded(lock, { timeout = 10 }):release()
    local other = assert(b:lock "other")
    other:wait_lost(1.3)
    local lease, message = lock:try_acquire()
    assert.is_nil(lease, "it is degraded")
    assert.matches("is given after", message)
    fallback_stores.take_degraded(lock, { timeout = 10 }):release()
  end)

  timed("counts no outage for a time in which nobody asked", function()
    assert(first:kill())
    local patient, other = both:over { grace = 1000 }, assert(b:lock "other")
    assert.equal("unavailable", select(3, patient:try_acquire()))
    other:wait_lost(1.5) -- longer than the other one's grace
    assert.equal("unavailable", select(3, patient:try_acquire()))
    local lock = both:over { grace = 1 }
    local lease, message, code = lock:acquire { timeout = 0.4 }
    assert.is_nil(lease, "it is degraded")
    assert.equal("unavailable", code)
    assert.matches("is given after", message)
    fallback_stores.take_degraded(lock, { timeout = 10 }):release()
  end)

  timed("counts no outage for such a time while it waits", function()
    assert(first:kill())
    local holder, asked, lease = assert(b:lock "k"), 0, nil
    queue:wrap(function()
      lease = both:over { grace = 0.3, on_degraded = function()
        asked = asked + 1
      end }:acquire { timeout = 20 }
    end)
    queue:wrap(function()
      sleep_until(function() return asked == 1 end)
      cqueues.sleep(1.3)
      both:over({ grace = 1000 }, "other"):try_acquire()
      assert(holder:release())
    end)
    run()
    assert(lease and lease:release())
    assert.equal(2, asked)
  end)

  timed("asks again when its process stood still", function()
    assert(first:kill())
    local child = process.spawn { args = { first.url, both.file_url },
      script = [[
        local dlock = require "dlock"
        local a, b = assert(dlock.open(arg[1])), assert(dlock.open(arg[2]))
        local lock = dlock.fallback { a:mutex "k", b:mutex "k", grace = 1 }
        print((select(3, lock:try_acquire())))
        local lease = lock:acquire { timeout = 8 }
        print(lease and lease.degraded)
      ]] }
    assert.equal("unavailable", child:read_line())
    local other = assert(b:lock "other")
    other:wait_lost(0.2) -- it asks by now
    child:pause()
    first:start_again()
    local held = assert(a:lock("k", { timeout = 10, ttl = 60 }))
    other:wait_lost(6) -- longer than it asks at first
    child:resume()
    assert.equal("nil", child:read_line(20))
    assert(held:release())
    child:close()
  end)
end)
