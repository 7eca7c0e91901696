-- What the users of one store in one process know together of its outages
-- (dlock.fallback): orders of events that one user alone never sees. A Redis
-- that is stopped, killed and started again, and coroutines of cqueues.

local core = require "dlock.core"
local cqueues = require "cqueues"
local fallback_stores = require "spec.support.fallback_stores"
local steady = require "spec.support.steady"

describe("an outage that several know of", function()
  local both, first, a, b, queue

  local function set_up()
    both, queue = fallback_stores.start { connect_timeout = 0.5 }, cqueues.new()
    first, a, b = both.server, both.first, both.second
  end

  local timed = steady(set_up, function() both:stop() end)

  local function over(opts)
    return both:over(opts)
  end

  local function run()
    assert(queue:loop(30))
    assert.is_true(queue:empty())
  end

  local function sleep_until(check)
    local late = core.now() + 15
    while not check() do
      assert(core.now() < late, "it never came true")
      cqueues.sleep(0.005)
    end
  end

  timed("is over for who waits for another lock meanwhile", function()
    assert(first:kill())
    local holder, asked, lease, message = assert(b:lock "k"), false, nil, nil
    queue:wrap(function()
      local lock = over { grace = 0, on_degraded = function() asked = true end }
      lease, message = lock:acquire { timeout = 20, min_hold = 60 }
    end)
    queue:wrap(function()
      sleep_until(function() return asked end)
      first:start_again()
      local one = assert(over { grace = 0 }:acquire { timeout = 10 })
      assert.is_nil(one.degraded)
      assert(one:release())
      assert(holder:release())
    end)
    run()
    assert.is_not_nil(lease, message)
    assert.is_nil(lease.degraded)
    assert.is_false(b:mutex("k"):locked())
    assert.same({}, both:kinds())
  end)

  timed("is waited for by each for its own grace", function()
    assert(first:kill())
    local patient = over { grace = 60 }
    assert.equal("unavailable",
      select(3, patient:acquire { timeout = 0.2 }))
    local quick = assert(over { grace = 0 }:acquire { timeout = 10 })
    assert.is_true(quick.degraded)
    assert(quick:release())
    for _, how in ipairs { "acquire", "try_acquire" } do
      local lease, message, code = patient[how](patient)
      assert.is_nil(lease, tostring(lease))
      assert.equal("unavailable", code)
      assert.matches("is given after %d+%.%d s more", message)
    end
    quick = assert(over { grace = 0 }:acquire { timeout = 10 })
    assert.is_true(quick.degraded)
    assert(quick:release())
    local begun = core.now()
    local slow = assert(over { grace = 1.2 }:acquire { timeout = 10 })
    assert.is_true(slow.degraded)
    assert(slow:release())
    assert.is_true(core.now() - begun < 8)
  end)

  timed("is over for all after the longest hold_off", function()
    assert(first:kill())
    for _, hold_off in ipairs { 60, 0 } do
      local one = assert(over { grace = 0, hold_off = hold_off }
        :acquire { timeout = 10 })
      assert.is_true(one.degraded)
      assert(one:release())
    end
    first:start_again()
    assert(a:ping(5))
    for _ = 1, 2 do
      cqueues.sleep(1.1) -- for a ping each
      local one = assert(over { grace = 0, hold_off = 0 }
        :acquire { timeout = 10 })
      assert.is_true(one.degraded)
      assert(one:release())
    end
    assert.same({ "degraded" }, { both:kinds()[1] })
    assert.is_not.equal("restored", both:kinds()[#both:kinds()])
  end)

  timed("is none that a try may wait for", function()
    assert(first:kill())
    local lock = over { grace = 0, on_degraded = function()
      first:start_again()
      assert(a:ping(5))
      assert(over():try_acquire()):release()
    end }
    local lease, message, code = lock:try_acquire { min_hold = 60 }
    assert.is_nil(lease)
    assert.equal("unavailable", code)
    assert.matches("answers again", message)
    assert.is_false(b:mutex("k"):locked())
  end)

  timed("counts for a grant that was on its way", function()
    assert(a:ping())
    first:pause()
    local early, late, passed, message
    queue:wrap(function()
      late, message = over { grace = 0, hold_off = 60,
        on_degraded = function() passed = true end }:acquire { timeout = 20,
          min_hold = 60 }
    end)
    queue:wrap(function()
      early = assert(over { grace = 0, hold_off = 60 }:acquire { timeout = 1 })
      first:resume()
      assert.is_true(early.degraded)
      sleep_until(function() return passed or late end)
      assert.is_true(passed)
      assert.is_false(a:mutex("k"):locked())
      assert(early:release())
    end)
    run()
    assert.is_not_nil(late, message)
    assert.is_true(late.degraded)
    assert(late:release())
  end)

  timed("is said to be over, also after a quiet time", function()
    local lock = over { grace = 0, hold_off = 0.3 }
    assert(first:kill())
    assert(lock:acquire { timeout = 2 }):release()
    first:start_again()
    assert.same({ "degraded" }, both:kinds())
    local other = assert(b:lock "other")
    other:wait_lost(1.5)
    local lease = assert(lock:acquire { timeout = 5 })
    assert.is_nil(lease.degraded)
    assert.same({ "degraded", "restored" }, both:kinds())
  end)

  timed("is not forgotten between two signs of life", function()
    local lock = over { grace = 0.4, hold_off = 0.1 }
    assert(first:kill())
    assert(lock:acquire { timeout = 5 }):release()
    local other, until_then = assert(b:lock "other"), core.now() + 2.5
    repeat
      other:wait_lost(0.2)
      local lease, message = lock:try_acquire()
      assert.is_not_nil(lease, message)
      assert.is_true(lease.degraded)
      assert(lease:release())
    until core.now() > until_then
  end)

  -- Histories by chance. The grace is the ttl, so nobody may hold the first
  -- lock and somebody the other one at the same time, all in this process; and
  -- who holds the first one after an outage was told that that is over.
  timed("gives no two locks at once, whatever crosses", function()
    local seed = tonumber(os.getenv "SEED") or os.time()
    local context = ("SEED=%d"):format(seed)
    math.randomseed(seed)
    local owed, live, counts = false, {}, { first = 0, degraded = 0 }
    both:reopen_first { connect_timeout = 0.1, ttl = 0.4, io_timeout = 0.3,
      on_event = function(event)
        if event.kind == "degraded" then owed = true end
        if event.kind == "restored" then owed = false end
      end }
    local ends = core.now() + 8

    local function check(lease)
      if not lease:held() then return end
      if not lease.degraded then
        assert(not owed, "the first lock, and nothing was restored " .. context)
      end
      for other in pairs(live) do
        assert(other == lease or not other:held() or not lease:held(),
          ("%s and %s %s"):format(tostring(lease), tostring(other), context))
      end
    end

    local function user()
      while core.now() < ends do
        local lock = over { grace = 0.4, hold_off = math.random() * 0.8 }
        local lease = lock:acquire { ttl = 0.4, timeout = math.random() * 2 }
        if lease then
          local kind = lease.degraded and "degraded" or "first"
          counts[kind] = counts[kind] + 1
          live[lease] = true
          check(lease)
          cqueues.sleep(math.random() * 0.1)
          check(lease)
          live[lease] = nil
          lease:release()
        end
        cqueues.sleep(math.random() * 0.02)
      end
    end

    for _ = 1, 8 do queue:wrap(user) end
    queue:wrap(function()
      while core.now() < ends do
        cqueues.sleep(math.random() * 0.8)
        local dies = math.random() < 0.3
        if dies then first:kill() else first:pause() end
        cqueues.sleep(math.random() * 1.5)
        if dies then first:start_again() else first:resume() end
      end
    end)
    run()
    assert(counts.first > 0 and counts.degraded > 0, context)
  end)
end)
