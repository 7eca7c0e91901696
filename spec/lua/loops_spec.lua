-- The hosts of event loops, cqueues and luv: the same cases on both. What waits
-- is a coroutine; the others go on, and nothing of ours keeps the loop alive.
local dlock = require "dlock"
local leaks = require "spec.support.leaks"
local leftovers = require "spec.support.leftovers"
local protect = require "dlock.protect"
local uv = require "luv"
local waits = require "dlock.host"

local cqueues = require "cqueues"
local steady = require "spec.support.steady"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

-- A loop: spawn(fn), run() until all that was spawned has ended (and nothing
-- keeps the loop; not asked where `helpers` of the spec are there), sleep(s).
local on_cqueues = { name = "cqueues", host = "auto" }

function on_cqueues.new()
  local self = { queue = cqueues.new() }
  function self.spawn(fn) self.queue:wrap(fn) end
  function self.run()
    local ok, problem = self.queue:loop(20)
    assert(ok, problem)
    assert(self.queue:empty(), "the loop does not end")
  end
  self.sleep = cqueues.sleep
  return self
end

local on_luv = { name = "luv", host = "luv" }

function on_luv.new()
  local self, live, problem = {}, 0, nil
  function self.spawn(fn)
    live = live + 1
    coroutine.wrap(function()
      fn()
      live = live - 1
    end)()
  end
  function self.run(helpers)
    local late = uv.new_timer()
    uv.update_time() -- the loop may not have run for long
    late:start(20000, 0, function()
      problem = "the loop does not end: " .. leftovers.kinds()
    end)
    late:unref()
    while (helpers and live > 0 or not helpers and uv.loop_alive())
        and not problem do
      uv.run("once")
    end
    late:close()
    uv.run("nowait")
    assert(not problem, problem)
    assert(live == 0, "somebody was left waiting")
  end
  function self.sleep(seconds)
    -- On 5.1 a `with` runs in a coroutine of its own; its owner is resumed.
    local co, timer = protect.owner(), uv.new_timer()
    uv.update_time()
    timer:start(math.ceil(seconds * 1000), 0, function()
      timer:close()
      assert(coroutine.resume(co))
    end)
    coroutine.yield()
  end
  return self
end

local count = 0

for _, kind in ipairs { on_cqueues, on_luv } do
  describe("host " .. kind.name, function()
    local loop, store, key, other

    local function set_up()
      loop = kind.new()
      store = assert(dlock.open { url = URL, host = kind.host })
      other = assert(dlock.open { url = URL, host = "blocking" })
      count = count + 1
      key = ("loops%d:%s%d"):format(uv.os_getpid(), kind.name, count)
    end

    local function tear_down()
      loop.spawn(function() store:close(1) end)
      loop.run()
      other:close(1)
    end

    local timed = steady(set_up, tear_down)

    it("waits without stopping the other coroutines", function()
      local held = assert(other:lock(key))
      local ticks, lease = 0, nil
      loop.spawn(function()
        lease = assert(store:lock(key, { timeout = 10 }))
        assert(lease:release())
      end)
      loop.spawn(function()
        for _ = 1, 20 do
          loop.sleep(0.01)
          ticks = ticks + 1
        end
        assert.is_nil(lease)
        held:release_later()
      end)
      loop.run()
      assert.is_false(lease:held())
      assert.equal(20, ticks)
    end)

    timed("waits for the loss of any of several leases", function()
      local second = assert(dlock.open { url = URL, host = kind.host })
      for i = 1, 2 do
        local both = dlock.all { store:mutex(key .. "1"),
          second:mutex(key .. "2") }
        local lease, waited
        loop.spawn(function()
          lease = assert(both:acquire { ttl = 1.5 })
          assert.is_true(lease:wait_lost())
          waited = true
          lease:release()
        end)
        loop.spawn(function()
          while not lease do loop.sleep(0.01) end
          loop.sleep(0.05)
          assert.is_nil(waited)
          assert.is_true(other:break_lock(key .. i))
        end)
        loop.run()
        assert.is_true(waited)
      end
      loop.spawn(function() second:close(1) end)
      loop.run()
    end)

    it("serves a hundred waiters of one key", function()
      local fences = {}
      for _ = 1, 100 do
        loop.spawn(function()
          local lease = assert(store:lock(key, { timeout = 20 }))
          fences[#fences + 1] = lease.fence
          assert(lease:release())
        end)
      end
      loop.run()
      assert.equal(100, #fences)
      for i = 2, 100 do assert.is_true(fences[i] > fences[i - 1]) end
    end)

    it("serves waiters of several keys that come back at once", function()
      local taken = 0
      for i = 1, 40 do
        loop.spawn(function()
          for turn = 1, 25 do
            local lease = assert(store:lock(key .. (i + turn) % 3))
            taken = taken + 1
            assert(lease:release())
          end
        end)
      end
      loop.run()
      assert.equal(1000, taken)
    end)

    it("serves a hundred keys at a time", function()
      local done = 0
      for i = 1, 100 do
        loop.spawn(function()
          local ok = store:with(key .. ":" .. i, function()
            loop.sleep(0.01)
          end)
          done = done + (ok and 1 or 0)
        end)
      end
      loop.run()
      assert.equal(100, done)
    end)

    timed("ends a wait by its timeout, by cancel and by a canceller", function()
      local held = assert(other:lock(key))
      local mutex, canceller = store:mutex(key), dlock.canceller()
      local codes = {}
      local function wait(i, opts)
        loop.spawn(function()
          codes[i] = select(3, mutex:acquire(opts))
        end)
      end
      wait(1, { timeout = 0.5 })
      wait(2, { timeout = 20, cancel = canceller })
      wait(3, { timeout = 20 })
      loop.spawn(function()
        loop.sleep(0.1)
        canceller:cancel()
        while not codes[1] do loop.sleep(0.05) end
        mutex:cancel()
      end)
      loop.run()
      assert.same({ "timeout", "cancelled", "cancelled" }, codes)
      held:release()
    end)

    timed("lets the loop end although a lease is held and renewed", function()
      local lease
      loop.spawn(function()
        lease = assert(store:lock(key, { ttl = 0.8 }))
      end)
      loop.run()
      uv.sleep(900)
      assert.is_true(lease:held())
      assert.equal("busy", (select(3, other:try_lock(key))))
    end)

    it("withdraws the wait of a coroutine that was dropped", function()
      local held = assert(other:lock(key))
      local ended
      do
        local co = kind == on_luv and coroutine.create(function()
          store:lock(key, { timeout = 30 })
          ended = true
        end)
        if co then
          coroutine.resume(co)
        else
          local queue = cqueues.new()
          queue:wrap(function()
            store:lock(key, { timeout = 30 })
            ended = true
          end)
          queue:step(0)
          queue:close()
        end
      end
      if kind == on_luv then -- the loop's own list of waiters has it
        held:release()
        loop.run()
        assert.is_true(ended)
        return
      end
      collectgarbage()
      collectgarbage()
      held:release()
      assert(other:lock(key, { timeout = 5 })):release()
      assert.is_nil(ended)
    end)

    it("wakes the waiters when the store is closed", function()
      local held, code = assert(other:lock(key)), nil
      loop.spawn(function()
        code = select(3, store:lock(key, { timeout = 30 }))
      end)
      loop.spawn(function()
        loop.sleep(0.05)
        assert(store:close(1))
      end)
      loop.run()
      assert.equal("cancelled", code)
      held:release()
    end)

    it("wakes the waiters also when the close was done at once", function()
      local held, code, closed = assert(other:lock(key)), nil, nil
      loop.spawn(function()
        code = select(3, store:lock(key, { timeout = 30 }))
      end)
      loop.spawn(function()
        loop.sleep(0.05)
        local _, client = next(store)
        local ticket = assert(client.engine:close(1))
        while not ticket:poll() do uv.sleep(1) end
        closed = waits.wait(client, ticket, assert(waits.ready(client)))
      end)
      loop.run()
      assert.is_true(closed)
      assert.equal("cancelled", code)
      held:release()
    end)

    timed("runs on_lost as soon as any coroutine waits", function()
      local lost
      loop.spawn(function()
        local lease = assert(store:lock(key, { ttl = 0.3, renew = false }))
        lease:on_lost(function(l) lost = l.key end)
        local mutex = store:mutex(key .. ":else")
        local blocker = assert(other:lock(key .. ":else"))
        assert.equal("timeout", (select(3, mutex:acquire { timeout = 0.6 })))
        assert.equal(key, lost)
        blocker:release_later()
      end)
      loop.run()
      assert.equal(key, lost)
    end)

    timed("runs on_lost before a wait for the loss ends", function()
      local url = "file://" .. os.getenv("DLOCK_TEST_DIR") .. "/loops"
      local a = assert(dlock.open { url = url, host = kind.host })
      local heard, ended, early = false, 0, 0
      loop.spawn(function()
        local lease = assert(a:lock(key, { ttl = 0.3, renew = false }))
        lease:on_lost(function() heard = true end)
        -- So many that the first goes on while the others are still told.
        for _ = 1, 2000 do
          loop.spawn(function()
            assert.is_true(lease:wait_lost())
            ended = ended + 1
            if not heard then early = early + 1 end
          end)
        end
      end)
      loop.run()
      assert.equal(2000, ended)
      assert.equal(0, early)
      loop.spawn(function() a:close(1) end)
      loop.run()
    end)

    it("passes errors of with on, and releases", function()
      local what = {}
      local ok, problem
      loop.spawn(function()
        ok, problem = protect.call(store.with, store, key, function()
          loop.sleep(0.01)
          error(what)
        end)
      end)
      loop.run()
      assert.is_false(ok)
      assert.equal(what, problem)
      assert(other:try_lock(key)):release()
    end)

    it("leaves no descriptor behind", function()
      loop.spawn(function() assert(store:ping()) end)
      loop.run()
      collectgarbage()
      collectgarbage()
      local before = leaks.snapshot()
      for _ = 1, 10 do
        local one = assert(dlock.open { url = URL, host = kind.host })
        loop.spawn(function()
          assert(assert(one:lock(key)):release())
          assert(one:close(1))
        end)
        loop.run()
      end
      assert.same({}, leaks.since(before))
    end)

    if coroutine.close then
      it("releases when a coroutine is closed (5.4)", function()
        local lease
        local hold = load([[
          local store, key, tell = ...
          local lease <close> = assert(store:try_lock(key))
          tell(lease)
          coroutine.yield("held")]])
        loop.spawn(function()
          local co = coroutine.create(hold)
          local function step(ok, ...)
            assert(ok, ...)
            if not lease then
              return step(coroutine.resume(co, coroutine.yield(...)))
            end
          end
          local function tell(l) lease = l end
          if kind == on_luv then -- the loop resumes co itself
            coroutine.resume(co, store, key, tell)
            while not lease do loop.sleep(0.01) end
          else
            step(coroutine.resume(co, store, key, tell))
          end
          assert.is_true(lease:held())
          assert(coroutine.close(co))
          assert.is_false(lease:held())
        end)
        loop.run()
        assert(other:lock(key, { timeout = 5 })):release()
      end)
    end
  end)
end

describe("hosts of event loops", function()
  it("answer unsupported where nothing can wait", function()
    for _, name in ipairs { "cqueues", "luv" } do
      local store = assert(dlock.open { url = URL, host = name })
      local got, message, code = store:lock("loops:main")
      assert.is_nil(got)
      assert.equal("unsupported", code)
      assert.matches("host = 'blocking'", message, 1, true)
      assert.matches(name == "luv" and "coroutine.wrap" or "cq:wrap", message,
        1, true)
      assert.equal("unsupported", (select(3, store:ping())))
    end
  end)

  it("block, with host = auto, outside of any coroutine", function()
    local store = assert(dlock.open(URL))
    local queue = cqueues.new()
    queue:wrap(function() assert(store:lock("loops:auto")):release() end)
    assert(queue:loop())
    local lease = assert(store:lock("loops:auto"))
    assert.is_true(lease:release())
    assert(store:close(1))
  end)

  it("work in nested cqueues controllers", function()
    local store, done = assert(dlock.open(URL)), {}
    local outer = cqueues.new()
    local held
    local function waiter(name)
      return function()
        local lease = assert(store:lock("loops:nest", { timeout = 10 }))
        done[#done + 1] = name
        assert(lease:release())
      end
    end
    outer:wrap(function()
      held = assert(store:lock("loops:nest"))
      outer:wrap(waiter("outer"))
      local inner = cqueues.new()
      inner:wrap(waiter("inner"))
      inner:wrap(function()
        cqueues.sleep(0.05)
        assert(held:release())
      end)
      assert(inner:loop())
    end)
    assert(outer:loop(20))
    assert.equal(2, #done)
    outer:wrap(function() store:close(1) end)
    assert(outer:loop(5))
  end)
end)
