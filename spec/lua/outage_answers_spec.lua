-- What a store answers while it is out (dlock.fallback), or in between: only
-- `unavailable` lets the next lock be given. A Redis that comes back and wants
-- a password, a store that is closed, and calls where nothing can wait.

local core = require "dlock.core"
local cqueues = require "cqueues"
local fallback_stores = require "spec.support.fallback_stores"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

describe("in an outage, an answer", function()
  local both, first, a, b

  local function set_up()
    both = fallback_stores.start { connect_timeout = 0.5 }
    first, a, b = both.server, both.first, both.second
  end

  local timed = steady(set_up, function() both:stop() end)

  local function code_of(_, _, code)
    return code
  end

  -- It comes back as another one's: it wants a password. Gives a client of it.
  local function comes_back_closed()
    local path = first.dir .. "/redis.conf"
    server.write_file(path, server.read_file(path) .. "requirepass secret\n")
    first:start_again()
    return assert(redis.connect((first.url:gsub("//", "//:secret@"))))
  end

  -- Asks until the answer has this code, or a degraded lease is none.
  local function ask_until(lock, wanted)
    local late = core.now() + 20
    repeat
      local lease, message, code = lock:acquire { timeout = 2 }
      assert(core.now() < late, message or tostring(lease))
      local first_one = lease and not lease.degraded
      if lease then lease:release() end
      if first_one then code = "first" end
    until code == wanted
  end

  local function wait(seconds)
    local other = assert(b:lock "other")
    other:wait_lost(seconds)
    assert(other:release())
  end

  -- Of the grace.
  local function seconds_to_go(lock)
    local _, message = lock:try_acquire()
    return tonumber(message:match("is given after ([%d.]+) s more of that$"))
  end

  local function fail_for_a_second(lock)
    first:kill()
    local late = core.now() + 20
    repeat
      assert(core.now() < late)
      wait(0.1)
    until seconds_to_go(lock) < 29
  end

  timed("that refuses us is the answer of the whole", function()
    local lock = both:over { grace = 0, hold_off = 60 }
    assert(first:kill())
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    local r = comes_back_closed()
    ask_until(lock, "denied")
    local until_then = core.now() + 2.5 -- more than one sign of life
    repeat
      assert.equal("denied", code_of(lock:try_acquire()))
      wait(0.05)
    until core.now() > until_then
    assert.is_false(b:mutex("k"):locked())
    r:close()
  end)

  timed("that refuses us counts as one for hold_off", function()
    local lock = both:over { grace = 0, hold_off = 1.2 }
    assert(first:kill())
    local held = fallback_stores.take_degraded(lock, { timeout = 2 })
    local r = comes_back_closed()
    ask_until(lock, "denied")
    wait(1.3)
    assert.equal("denied", code_of(lock:acquire { timeout = 2 }))
    assert.same({ "degraded" }, both:kinds())
    assert(held:release())
    assert.equal("denied", code_of(lock:acquire { timeout = 2 }))
    assert.same({ "degraded", "restored" }, both:kinds())
    r:call("CONFIG", "SET", "requirepass", "")
    local lease, message = lock:acquire { timeout = 10 }
    assert.is_not_nil(lease, message)
    assert.is_nil(lease.degraded)
    r:close()
  end)

  timed("that refuses us begins the grace anew", function()
    local lock = both:over { grace = 30 }
    fail_for_a_second(lock)
    local r = comes_back_closed()
    assert.equal("denied", code_of(lock:acquire { timeout = 10 }))
    r:close()
    assert(first:kill())
    local left = seconds_to_go(lock)
    assert.is_true(left > 29, left)
  end)

  for _, answer in ipairs { "busy", "timeout" } do
    timed("between two failures ends the outage: " .. answer, function()
      local lock = both:over { grace = 30 }
      fail_for_a_second(lock)
      first:start_again()
      local r = assert(redis.connect(first.url))
      r:call("SET", "dlock:k", "somebody else's")
      local wanted = answer == "busy" and { try = true } or { timeout = 0.3 }
      local late = core.now() + 20
      repeat
        local code = wanted.try and code_of(lock:try_acquire())
          or code_of(lock:acquire(wanted))
        assert(core.now() < late, code)
      until code == answer
      r:close()
      assert(first:kill())
      local left = seconds_to_go(lock)
      assert.is_true(left > 29, left)
    end)
  end

  timed("ends a grace that is not over, also while it is out", function()
    local patient, why = both:over { grace = 30 }, nil
    local quick = both:over { grace = 0, hold_off = 60,
      on_degraded = function(what) why = what.message end }
    assert(first:kill())
    fallback_stores.take_degraded(quick, { timeout = 2 }):release()
    fail_for_a_second(patient)
    first:start_again()
    repeat
      fallback_stores.take_degraded(quick, { timeout = 2 }):release()
    until why:find("answers again", 1, true)
    assert(first:kill())
    local late, left = core.now() + 20
    repeat
      assert(core.now() < late)
      wait(0.05)
      left = seconds_to_go(patient)
    until left
    assert.is_true(left > 28, left) -- a ping and an attempt took their time
  end)

  timed("that refuses us counts for who waits for another lock", function()
    assert(a:ping())
    assert(first:kill())
    local queue, holder = cqueues.new(), assert(b:lock "k")
    local asked, code, r
    queue:wrap(function()
      code = code_of(both:over { grace = 0, on_degraded = function()
        asked = true
      end }:acquire { timeout = 20, min_hold = 60 })
    end)
    queue:wrap(function()
      local late = core.now() + 15
      while not asked do
        assert(core.now() < late)
        cqueues.sleep(0.005)
      end
      assert(b:lock "other"):release()
      local far = assert(both:over({ grace = 0 }, "far"):acquire {
        timeout = 2 }) -- so that it is out
      r = comes_back_closed()
      repeat
        cqueues.sleep(0.05)
      until code_of(both:over({ grace = 0 }, "far"):try_acquire()) == "denied"
      assert(far:release())
      assert(holder:release())
    end)
    assert(queue:loop(30))
    assert.equal("denied", code)
    assert.is_false(b:mutex("k"):locked())
    r:close()
  end)

  timed("of a store that was closed is `closed`, at once", function()
    local lock = both:over { grace = 0, hold_off = 60 }
    assert(first:kill())
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    fallback_stores.take_degraded(lock, { timeout = 2 }):release()
    assert(a:close(1))
    assert.equal("closed", code_of(lock:acquire { timeout = 2 }))
    assert.equal("closed", code_of(lock:try_acquire()))
    assert.is_false(b:mutex("k"):locked())
  end)

  local function inside(fn)
    local queue = cqueues.new()
    queue:wrap(fn)
    assert(queue:loop(30))
    assert.is_true(queue:empty())
  end

  -- Of a store that can wait in cqueues only, is out and answers again.
  local function answers_again(hold_off)
    both:reopen_first { connect_timeout = 0.5, timeout = 0.4,
      host = "cqueues" }
    local why
    local lock = both:over { grace = 0, hold_off = hold_off,
      on_degraded = function(what) why = what.message end }
    assert(first:kill())
    inside(function()
      fallback_stores.take_degraded(lock, { timeout = 2 }):release()
      first:start_again()
      repeat
        fallback_stores.take_degraded(lock, { timeout = 2 }):release()
      until why:find("answers again", 1, true)
    end)
    return lock
  end

  timed("to a call where nothing can wait lets no weaker lock be given",
  function()
    local lock = answers_again(60)
    wait(1.2) -- so that it is asked for a sign of life
    assert.equal("unsupported", code_of(lock:acquire { timeout = 2 }))
    inside(function() both.first:close(1) end)
  end)

  timed("to a call where nothing can wait says nothing of it", function()
    local lock = answers_again(2)
    wait(2.2)
    assert.equal("unsupported", code_of(lock:acquire { timeout = 2 }))
    inside(function()
      local lease, message = both:over({ grace = 0, hold_off = 2 }):acquire {
        timeout = 10 }
      assert.is_not_nil(lease, message)
      assert.is_nil(lease.degraded)
      lease:release()
      both.first:close(1)
    end)
  end)
end)
