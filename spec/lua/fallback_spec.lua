-- dlock.fallback on real servers: a Redis that is killed, stopped and started
-- again, and the file store behind it.

local core = require "dlock.core"
local dlock = require "dlock"
local fallback_stores = require "spec.support.fallback_stores"
local lockable = require "dlock.lockable"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

describe("dlock.fallback", function()
  local both, first, dir, a, b, seen

  local function set_up()
    both = fallback_stores.start()
    first, dir, seen = both.server, both.dir, both.seen
    a, b = both.first, both.second
  end

  local function tear_down()
    process.close_all()
    both:stop()
  end

  local timed = steady(set_up, tear_down)

  local function over(opts)
    return both:over(opts)
  end

  -- A process with stores like these: both, in this host. Its script has them
  -- as a and b, and the directory as dir.
  local function spawn(script, host)
    return process.spawn { args = { first.url, dir, host }, script = [[
      local dlock = require "dlock"
      local dir = arg[2]
      local a = assert(dlock.open { url = arg[1], host = arg[3] })
      local b = assert(dlock.open { url = "file://" .. dir .. "/locks",
        host = arg[3] })
    ]] .. script }
  end

  -- Of a server that answers; by default it would have 0.2 s to do so.
  local PATIENT = { timeout = 10 }

  local function code_of(_, _, code)
    return code
  end

  local function expect_first(lease, message)
    assert.is_not_nil(lease, message)
    assert.is_nil(lease.degraded)
    assert.is_number(lease.fence)
    assert.is_true(lease:release())
  end

  local function expect_degraded(lease, message)
    assert.is_not_nil(lease, message)
    assert.is_true(lease.degraded)
    assert.is_nil(lease.fence)
    assert.is_true(lease:held())
    return lease
  end

  timed("takes the first lock, and asks nothing of the next", function()
    local lock = over { grace = 0 }
    expect_first(lock:acquire(PATIENT))
    expect_first(lock:try_acquire())
    assert.is_true(lock:with(PATIENT,
      function(lease) return lease:held() end))
    assert.is_false(lock:locked())
    assert.is_nil(io.open(dir .. "/locks/~store"))
    assert.equal(0, a:stats().degraded)
    assert.same({}, seen)
  end)

  timed("takes the next while the server is down, and says so", function()
    local lock = over { grace = 0 }
    expect_first(lock:acquire(PATIENT))
    assert(first:kill())
    local lease = expect_degraded(lock:acquire())
    assert.equal("k", lease.key)
    assert.equal("exclusive", lease.mode)
    assert.matches("^dlock.lease: k degraded held", tostring(lease))
    assert.equal("busy", code_of(b:try_lock "k"))
    assert.equal("busy", code_of(lock:try_acquire()))
    assert.equal("timeout", code_of(lock:acquire()))
    assert.is_true(lock:locked())
    assert.is_true(lease:extend(5) > 4)
    for _, call in ipairs { "detach", "guard" } do
      assert.equal("unsupported", code_of(lease[call](lease)))
    end
    assert.is_false(pcall(function() lease.fence = 1 end))
    assert.is_true(lease:release())
    assert.is_false(lease:held())
    assert.is_true(lock:with(function(one)
      expect_degraded(one)
    end))
    assert.equal(2, a:stats().degraded)
    assert.matches("dlock_leases_degraded_total{[^\n]*} 2",
      a:stats("prometheus"))
    assert.same({ "degraded", "degraded" }, both:kinds())
    assert.equal("k", seen[1].key)
  end)

  timed("keeps the lock that it gave for its min_hold", function()
    local lock = over { grace = 0 }
    expect_first(lock:acquire { timeout = 10, min_hold = 60 })
    assert.is_true(a:mutex("k"):locked())
    assert(first:kill())
    local lease = expect_degraded(lock:acquire { min_hold = 60 })
    assert.is_true(lease:release())
    assert.is_true(b:mutex("k"):locked())
  end)

  timed("tells of the loss of the lease that it gave", function()
    local lock, lost = over { grace = 0 }, nil
    assert(first:kill())
    local lease = expect_degraded(lock:acquire())
    lease:on_lost(function(one) lost = one end)
    assert(b:break_lock "k")
    assert.is_true(lease:wait_lost(5))
    assert.equal(lease, lost)
    assert.equal("lost", code_of(lease:release()))
  end)

  timed("passes no other answer on", function()
    local r = first:connect()
    local lock, held = over { grace = 0 }, assert(a:lock("k", PATIENT))
    assert.equal("busy", code_of(lock:try_acquire()))
    assert.equal("timeout", code_of(lock:acquire { timeout = 1.2 }))
    local cancel = dlock.canceller()
    cancel:cancel()
    assert.equal("cancelled", code_of(lock:acquire { cancel = cancel }))
    assert(held:release())
    r:call("CONFIG", "SET", "requirepass", "secret")
    r:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert.equal("denied", code_of(lock:acquire(PATIENT)))
    r:close()
    assert(a:close(1))
    assert.equal("closed", code_of(lock:acquire()))
    assert.is_nil(io.open(dir .. "/locks/~store"))
    assert.same({}, both:kinds())
  end)

  timed("waits in a store that answers for all of its time", function()
    local held = process.spawn { args = { first.url }, script = [[
      local store = assert(require("dlock").open(arg[1]))
      local lease = assert(store:lock "k")
      print "held"
      io.read()
      assert(lease:release())
      print "released"
    ]] }
    assert.equal("held", held:read_line())
    local waits = spawn([[
      local core = require "dlock.core"
      assert(a:ping(10))
      print "waits"
      local begun = core.now()
      local lease, message = dlock.fallback { a:mutex "k", b:mutex "k",
        grace = 0 }:acquire { timeout = 1.2 }
      print(tostring(lease), tostring(message), core.now() - begun >= 1.2)
    ]])
    assert.equal("waits", waits:read_line())
    assert.matches("^nil\ttimeout: .*\ttrue$", waits:read_line())
    held:write("\n")
    assert.equal("released", held:read_line())
  end)

  timed("gives a server that hangs half of the time at most", function()
    local begun, asked
    local lock = over { grace = 0, on_degraded = function()
      asked = core.now() - begun
    end }
    expect_first(lock:acquire(PATIENT))
    first:pause()
    begun = core.now()
    expect_degraded(lock:acquire { timeout = 1.4 }):release()
    first:resume()
    assert.is_true(asked >= 0.7 and asked < 1.3, asked)
  end)

  timed("gives no weaker lock before the grace is over", function()
    assert(first:kill())
    local lock, began = over(), core.now() -- as long as the ttl
    local opts = { timeout = 0.4, ttl = 1 }
    local _, message, code = lock:acquire(opts)
    assert.equal("unavailable", code)
    assert.matches("is given after 0%.%d+ s more of that$", message)
    assert.equal("unavailable", code_of(lock:try_acquire { ttl = 1 }))
    assert.same({}, seen)
    opts.timeout = 5 -- it is waited for
    expect_degraded(lock:acquire(opts)):release()
    assert.is_true(core.now() - began >= 1)
    expect_degraded(lock:try_acquire { ttl = 1 }):release()
  end)

  timed("forgets failures that lie too far apart", function()
    assert(first:kill())
    local lock = over { grace = 0.6 }
    assert.equal("unavailable", code_of(lock:acquire { timeout = 0.1 }))
    local wait = assert(b:lock "other")
    assert.equal("timeout", code_of(wait:wait_lost(0.8)))
    assert.equal("unavailable", code_of(lock:try_acquire()))
    assert.same({}, seen)
  end)

  timed("is refused by on_degraded", function()
    assert(first:kill())
    local told
    local lock = over { grace = 0, on_degraded = function(what)
      told = what
      return false
    end }
    local _, message, code = lock:acquire()
    assert.equal("unavailable", code)
    assert.matches("refused", message)
    assert.equal("k", told.key)
    assert.matches("^redis://", told.unavailable)
    assert.matches("^file://", told.instead)
    assert.is_false(assert(b:mutex "k"):locked())
    assert.same({}, seen)
  end)

  timed("goes back when the server has answered for hold_off", function()
    local lock = over { grace = 0, hold_off = 1.5 }
    assert(first:kill())
    expect_degraded(lock:acquire()):release()
    first:start_again()
    local since, one = core.now(), nil
    repeat
      if one then one:release() end
      one = assert(lock:acquire { timeout = 2 })
    until not one.degraded or core.now() > since + 20
    assert.is_true(core.now() - since >= 1.5)
    expect_first(one)
    assert.equal("restored", seen[#seen].kind)
    assert.is_false(assert(b:mutex "k"):locked())
  end)

  timed("begins hold_off anew when the server failed again", function()
    local why
    local lock = over { grace = 0, hold_off = 1.5, on_degraded = function(what)
      why = what.message:find("answers again", 1, true) and "good" or "bad"
    end }
    -- Until a lock was given for this reason.
    local function until_it_is(reason)
      local ended = core.now() + 20
      repeat
        why = nil
        expect_degraded(lock:acquire { timeout = 2 }):release()
      until why == reason or core.now() > ended
      assert.equal(reason, why)
    end
    assert(first:kill())
    until_it_is "bad"
    first:start_again()
    until_it_is "good"
    local good = core.now()
    assert(first:kill())
    until_it_is "bad"
    repeat until_it_is "bad" until core.now() > good + 1.5
    first:start_again()
    until_it_is "good"
    for _, kind in ipairs(both:kinds()) do assert.equal("degraded", kind) end
  end)

  timed("does not go back beside a degraded lease", function()
    local lock = over { grace = 0, hold_off = 0 }
    assert(first:kill())
    local lease = expect_degraded(lock:acquire())
    first:start_again()
    assert(a:ping())
    local wait, until_then = assert(b:lock "other"), core.now() + 2
    repeat
      assert.equal("busy", code_of(lock:try_acquire()))
      wait:wait_lost(0.1)
    until core.now() > until_then
    wait:wait_lost(1.2) -- nobody wants it for longer than its end takes
    assert.equal("busy", code_of(lock:try_acquire()))
    assert.is_true(lease:release())
    local one = assert(lock:acquire { timeout = 2 })
    while one.degraded do
      one:release()
      wait:wait_lost(0.1)
      one = assert(lock:acquire { timeout = 2 })
    end
    expect_first(one)
  end)

  -- In an event loop only the first of them stands in the store's queue.
  timed("is for all waiters of an event loop", function()
    assert(first:kill())
    local loop = spawn([[
      local inside, count = 0, 0
      for _ = 1, 10 do
        coroutine.wrap(function()
          local lock = dlock.fallback { a:mutex "k", b:mutex "k", grace = 0.1 }
          local lease, message = lock:acquire { timeout = 10 }
          if not lease then print(message) return end
          inside = inside + 1
          if inside ~= 1 or not lease.degraded then print "not alone" end
          inside = inside - 1
          assert(lease:release())
          count = count + 1
          if count == 10 then
            a:close(1)
            b:close(1)
          end
        end)()
      end
      require("luv").run()
      print(count)
    ]], "luv")
    assert.equal("10", loop:read_line(40))
  end)

  timed("counts an outage although waits end behind one another", function()
    assert(first:kill())
    local loop = spawn([[
      local left, degraded = 4, 0
      for _ = 1, left do
        coroutine.wrap(function()
          local lock = dlock.fallback { a:mutex "k", b:mutex "k", grace = 1.5 }
          local lease
          for _ = 1, 30 do
            lease = lease or lock:acquire { timeout = 0.4 }
          end
          if lease and lease.degraded then
            degraded = degraded + 1
            assert(lease:release())
          end
          left = left - 1
          if left == 0 then
            a:close(1)
            b:close(1)
          end
        end)()
      end
      require("luv").run()
      print(degraded)
    ]], "luv")
    assert.equal("4", loop:read_line(40))
  end)

  if rawget(_G, "jit") then -- the Lua that nginx has
    timed("is for all requests of a worker of OpenResty", function()
      local n = nginx.start { http = ([[
        init_by_lua_block {
          local dlock = require "dlock"
          a = assert(dlock.open { url = %q })
          b = assert(dlock.open { url = %q })
          inside = 0
        }
      ]]):format(first.url, both.file_url), server = [[
        location / { content_by_lua_block {
          local lock = require("dlock").fallback { a:mutex "k", b:mutex "k",
            grace = 0.1, hold_off = 60 }
          ngx.print(lock:with({ timeout = 10 }, function(lease)
            inside = inside + 1
            ngx.sleep(0.001)
            assert(inside == 1)
            inside = inside - 1
            return tostring(lease.degraded)
          end))
        } }
      ]] }
      local function ask_all()
        local requests, seen_there = {}, {}
        for i = 1, 10 do requests[i] = n:begin("/") end
        for i = 1, 10 do
          seen_there[i] = select(2, requests[i]:finish(20))
        end
        return table.concat(seen_there, " ")
      end
      local before = ask_all()
      assert(first:kill())
      local after = ask_all()
      n:stop()
      assert.equal(("truenil "):rep(10), before .. " ")
      assert.equal(("truetrue "):rep(10), after .. " ")
    end)
  end

  timed("keeps two processes apart that both cannot reach it", function()
    assert(first:kill())
    local script = [[
      local lock = dlock.fallback { a:mutex "k", b:mutex "k", grace = 0 }
      local path = dir .. "/number"
      for _ = 1, 50 do
        local lease = assert(lock:acquire { timeout = 20 })
        assert(lease.degraded)
        local file = assert(io.open(path))
        local number = file:read "*n"
        file:close()
        file = assert(io.open(path, "w"))
        file:write(("%d"):format(number + 1))
        file:close()
        assert(lease:release())
      end
      print "done"
    ]]
    server.write_file(dir .. "/number", "0")
    local one = spawn(script)
    local other = spawn(script)
    assert.equal("done", one:read_line(40))
    assert.equal("done", other:read_line(40))
    assert.equal("100", server.read_file(dir .. "/number"))
  end)

  timed("says what is wrong with its list", function()
    local mutex = assert(a:mutex "k")
    local function fails(pattern, list)
      local ok, problem = pcall(dlock.fallback, list)
      assert.is_false(ok)
      assert.matches(pattern, problem)
    end
    fails("not a string", "k")
    fails("not a lockable", mutex)
    fails("is empty", {})
    fails("number 2 .* no lock on a key", { mutex, dlock.all { mutex } })
    fails("unknown option 'seconds'", { mutex, seconds = 3 })
    fails("unknown option 'skip'", { mutex, skip = true })
    fails("'grace' .* must be a number", { mutex, grace = "3" })
    fails("with a dot", dlock)
    local lock, message, code = dlock.fallback { mutex, grace = -1 }
    assert.is_nil(lock)
    assert.equal("invalid", code)
    assert.matches("^invalid: grace", message)
    assert.matches("^dlock.fallback: { 'k' in redis://",
      tostring(dlock.fallback { mutex }))
  end)

  timed("is not ended by an answer to who asked before it", function()
    first:pause()
    local loop = spawn([[
      local function over(key)
        return dlock.fallback { a:mutex(key), b:mutex(key), grace = 0 }
      end
      local function say(lease, message)
        print(lease and tostring(lease.degraded) or message)
      end
      local held
      coroutine.wrap(function()
        say(over("patient"):acquire { timeout = 200 })
        say(over("next"):try_acquire())
        held:release()
        a:close(1)
        b:close(1)
      end)()
      coroutine.wrap(function()
        held = assert(over("hasty"):acquire { timeout = 1 })
        say(held)
      end)()
      require("luv").run()
    ]], "luv")
    for _ = 1, 3 do
      assert.equal("true", loop:read_line(40))
      first:resume()
    end
  end)

  timed("gives back a lock that came with a cancel", function()
    local inner = assert(a:mutex "k")
    local lock = assert(dlock.fallback { inner, b:mutex "k", grace = 0 })
    local state = lockable.state(inner)
    local take = state.take
    function state.take(...) return take(...), lock:cancel() end
    assert.equal("cancelled", code_of(lock:acquire { timeout = 10,
      min_hold = 60 }))
    state.take = take
    assert.is_false(inner:locked())
    expect_first(lock:try_acquire())
  end)

  timed("ends its wait with cancel", function()
    local lock, held = over { grace = 0 }, assert(a:lock("k", PATIENT))
    local take = lock.acquire
    local cancel = dlock.canceller()
    held:on_lost(function() cancel:cancel() end)
    assert(a:break_lock "k")
    local lease = take(lock, { cancel = cancel })
    if lease then lease:release() end
    lock:cancel()
    expect_first(lock:acquire(PATIENT))
  end)
end)
