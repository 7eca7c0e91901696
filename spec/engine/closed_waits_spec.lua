-- Waits in event loops whose coroutine is closed (Lua 5.4), or killed by an
-- error: nobody takes what they get, so they keep nothing, not for a min_hold
-- either.
local dlock = require "dlock"
local loop = require "spec.support.loop"
local protect = require "dlock.protect"
local uv = require "luv"

local cqueues = require "cqueues"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

local LONG = { timeout = 60, min_hold = 60 }

local count = 0

describe("a wait whose coroutine is dead", function()
  local store, other, key, alive_before

  -- An earlier spec may have left something in the loop.
  local function alive()
    local n = 0
    uv.walk(function(handle)
      if handle:is_active() and handle:has_ref() then n = n + 1 end
    end)
    return n
  end

  before_each(function()
    alive_before = alive()
    store = assert(dlock.open { url = URL, host = "luv", ttl = 20 })
    other = assert(dlock.open { url = URL, host = "blocking" })
    count = count + 1
    key = ("dead%d:%d"):format(uv.os_getpid(), count)
  end)

  after_each(function()
    local closed
    coroutine.wrap(function() closed = store:close(1) end)()
    assert(loop.wait(5, function() return closed end))
    other:close(1)
  end)

  local function start(fn)
    local co = coroutine.create(fn)
    assert(coroutine.resume(co))
    assert.equal("suspended", coroutine.status(co))
    return co
  end

  local function is_waited_for(name)
    local seen = other:inspect(name)
    return seen and seen.waiters and #seen.waiters > 0
  end

  -- The loop runs meanwhile if `runs` says so.
  local function eventually(what, done, runs)
    local late = uv.hrtime() + 5e9
    while not done() do
      if runs then uv.run("nowait") end
      assert(uv.hrtime() < late, "never: " .. what)
      uv.sleep(5)
    end
  end

  local function expect_free(name, runs)
    eventually("it is free", function()
      local lease = other:try_lock(name)
      return lease and lease:release()
    end, runs)
  end

  -- LuaJIT has one hook for all coroutines.
  local function resume_with_error(co, inner)
    local function hook()
      if coroutine.running() == inner then
        debug.sethook()
        error("killed", 0)
      end
    end
    debug.sethook(inner, hook, "", 1)
    return coroutine.resume(co)
  end

  local function kill(co)
    local ok, problem = resume_with_error(co, co)
    assert.is_false(ok)
    assert.equal("killed", problem)
    assert.equal("dead", coroutine.status(co))
  end

  local function expect_quiet()
    assert.equal(0, store:stats().held)
    eventually("the loop ends", function()
      return alive() <= alive_before
    end, true)
  end

  it("gives back the lock once its event loop looks", function()
    local held = assert(other:lock(key))
    local co = start(function() store:lock(key, LONG) end)
    eventually("it queues", function() return is_waited_for(key) end)
    kill(co)
    held:release()
    expect_free(key, true)
    expect_quiet()
    assert.equal("dead", coroutine.status(co)) -- and was not collected
  end)

  it("wakes nobody who caught the error and waits for something else",
  function()
    local held = assert(other:lock(key))
    local inner, problem, woken
    local co = start(function()
      local _
      _, problem = protect.call(function()
        inner = coroutine.running()
        store:lock(key, LONG)
      end)
      woken = coroutine.yield("elsewhere") or "nothing"
    end)
    eventually("it queues", function() return is_waited_for(key) end)
    local ok, where = resume_with_error(co, inner)
    assert.is_true(ok)
    assert.equal("elsewhere", where)
    assert.equal("killed", problem)
    held:release()
    expect_free(key, true)
    expect_quiet()
    assert.is_nil(woken)
    assert(coroutine.resume(co, "its owner"))
    assert.equal("its owner", woken)
  end)

  -- On 5.1 each of the two calls has a coroutine of its own, and the error ends
  -- the one between: the one that waits stays as it is, and nobody resumes it.
  it("wakes nobody from whom an error between cut it off", function()
    local held = assert(other:lock(key))
    local between, problem, woken, ended
    local co = start(function()
      local _, outer
      _, outer = protect.call(function()
        between = coroutine.running()
        local _, inner = protect.call(function()
          store:lock(key, LONG)
          ended = true
        end)
        problem = inner
      end)
      problem = problem or outer
      woken = coroutine.yield("elsewhere") or "nothing"
    end)
    eventually("it queues", function() return is_waited_for(key) end)
    local ok, where = resume_with_error(co, between)
    assert.is_true(ok)
    assert.equal("elsewhere", where)
    assert.equal("killed", problem)
    held:release()
    expect_free(key, true)
    expect_quiet()
    assert.is_nil(woken)
    assert.is_nil(ended)
    assert(coroutine.resume(co, "its owner"))
    assert.equal("its owner", woken)
  end)

  local function release(lease)
    local released
    coroutine.wrap(function() released = assert(lease:release()) end)()
    eventually("it is released", function() return released end, true)
  end

  -- A coroutine whose wait was ended by an error, which it caught. Then it does
  -- the next step.
  local function start_after_error(next_step)
    local inner
    local co = start(function()
      protect.call(function()
        inner = coroutine.running()
        store:lock(key, LONG)
      end)
      next_step()
    end)
    eventually("it queues", function() return is_waited_for(key) end)
    assert(resume_with_error(co, inner))
    return co
  end

  it("gives back the lock although its coroutine waits for another one",
  function()
    local held, later = assert(other:lock(key)), key .. "later"
    local held_later = assert(other:lock(later))
    local lease
    start_after_error(function() lease = store:lock(later, LONG) end)
    eventually("it queues", function() return is_waited_for(later) end)
    held:release()
    expect_free(key, true)
    assert.is_nil(lease)
    held_later:release()
    eventually("it has it", function() return lease end, true)
    release(lease)
    expect_quiet()
  end)

  it("gives back the lock although its coroutine runs the loop", function()
    local held = assert(other:lock(key))
    local over
    start_after_error(function()
      held:release()
      expect_free(key, true)
      over = true
    end)
    assert.is_true(over)
    expect_quiet()
  end)

  it("is none of who runs the loop in a debug hook", function()
    local held = assert(other:lock(key))
    local lease
    local co = start(function() lease = store:lock(key, { timeout = 60 }) end)
    eventually("it queues", function() return is_waited_for(key) end)
    held:release()
    eventually("it has it", function() return not is_waited_for(key) end)
    debug.sethook(co, function()
      if coroutine.running() == co then
        debug.sethook()
        eventually("the loop ends", function()
          return alive() <= alive_before
        end, true)
      end
    end, "", 1)
    assert(coroutine.resume(co))
    debug.sethook()
    release(lease)
    expect_quiet()
  end)

  if not coroutine.close then return end -- Lua 5.4 has it

  local WAYS = {
    lock = function(name) store:lock(name, { timeout = 60 }) end,
    with = function(name)
      store:with(name, { timeout = 60 }, function() error("never") end)
    end,
    reader = function(name)
      store:rwlock(name):read():acquire { timeout = 60 }
    end,
    all = function(name)
      dlock.all { store:mutex(name .. "!"), store:mutex(name),
        store:mutex("0" .. name) }:acquire { timeout = 60, min_hold = 60 }
    end,
  }

  for name, wait in pairs(WAYS) do
    it("leaves the queue when that is closed: " .. name, function()
      local held = assert(other:lock(key))
      local co = start(function() wait(key) end)
      eventually("it queues", function() return is_waited_for(key) end, true)
      assert.is_true(coroutine.close(co))
      eventually("it left", function() return not is_waited_for(key) end)
      held:release()
      for _, free in ipairs { key, key .. "!", "0" .. key } do
        expect_free(free)
      end
      expect_quiet()
      assert.equal("dead", coroutine.status(co))
    end)
  end

  it("gives back its lease when that is closed", function()
    local held = assert(other:lock(key))
    local co = start(function() store:lock(key, LONG) end)
    eventually("it queues", function() return is_waited_for(key) end)
    held:release()
    eventually("it has it", function()
      local seen = other:inspect(key)
      return seen and #seen.holders == 1 and #seen.waiters == 0
    end)
    assert.is_true(coroutine.close(co))
    expect_free(key)
    expect_quiet()
  end)

  it("gives the lock of a with back when that is closed", function()
    local co = coroutine.create(function()
      store:with(key, function() coroutine.yield("inside") end)
    end)
    local _, inside = coroutine.resume(co)
    while not inside do
      uv.run("once")
      _, inside = nil, other:inspect(key) and store:stats().held == 1
    end
    assert.is_true(coroutine.close(co))
    expect_free(key)
  end)

  it("leaves the queue of a lock in cqueues", function()
    local mine = assert(dlock.open { url = URL })
    local held, queue, co = assert(other:lock(key)), cqueues.new(), nil
    queue:wrap(function()
      co = coroutine.running()
      mine:lock(key, { timeout = 60 })
    end)
    eventually("it queues", function()
      queue:step(0)
      return is_waited_for(key)
    end)
    assert.is_true(coroutine.close(co))
    eventually("it left", function() return not is_waited_for(key) end)
    held:release()
    expect_free(key)
    assert.is_true(mine:close(1))
  end)
end)
