-- The host of luv, when others resume a coroutine that waits: it goes on
-- waiting, and nothing of ours resumes it in a yield of its own.
local dlock = require "dlock"
local loop = require "spec.support.loop"
local uv = require "luv"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

local count = 0

describe("host luv, when others resume its coroutines,", function()
  local store, other, key

  before_each(function()
    store = assert(dlock.open { url = URL, host = "luv" })
    other = assert(dlock.open { url = URL, host = "blocking" })
    count = count + 1
    key = ("resumes%d:%d"):format(uv.os_getpid(), count)
  end)

  after_each(function()
    local closed
    coroutine.wrap(function() closed = store:close(1) end)()
    assert(loop.wait(5, function() return closed end))
    other:close(1)
  end)

  -- A coroutine that takes the lock and then yields by itself; `seen` gets what
  -- that yield was resumed with.
  local function locker(name, seen, between)
    return coroutine.create(function()
      local lease = assert(store:lock(name, { timeout = 10 }))
      if between then between() end
      seen.yields = true
      seen.got = coroutine.yield("its own") or "somebody else"
      lease:release_later()
    end)
  end

  local function resume(co, ...)
    assert(coroutine.resume(co, ...))
  end

  local function expect_own(co, seen)
    local at_rest = uv.new_timer()
    local passed
    at_rest:start(50, 0, function() passed = true end)
    assert(loop.wait(5, function() return passed end))
    at_rest:close()
    assert.is_nil(seen.got)
    resume(co, "its owner")
    assert.equal("its owner", seen.got)
  end

  it("a wait that is not over goes on", function()
    local held, seen = assert(other:lock(key)), {}
    local co = locker(key, seen)
    resume(co)
    for _ = 1, 3 do
      resume(co)
      assert.is_nil(seen.yields)
    end
    held:release()
    assert(loop.wait(5, function() return seen.yields end))
    expect_own(co, seen)
  end)

  it("a wait that was ended so is not ended again", function()
    local held, seen = assert(other:lock(key)), {}
    local co = locker(key, seen)
    resume(co)
    held:release()
    -- The native thread takes the lock; the loop does not run.
    local until_then = uv.hrtime() + 5e9
    while not seen.yields and uv.hrtime() < until_then do
      uv.sleep(5)
      resume(co)
    end
    assert.is_true(seen.yields)
    expect_own(co, seen)
  end)

  it("nor is one that another waiter ended in the same turn", function()
    local held = { assert(other:lock(key .. 1)), assert(other:lock(key .. 2)) }
    local seen, list = { {}, {} }, {}
    for i = 1, 2 do
      list[i] = locker(key .. i, seen[i], function()
        local second = list[3 - i]
        if not seen[3 - i].yields and coroutine.status(second) == "suspended"
        then
          resume(second)
        end
      end)
    end
    for i = 1, 2 do resume(list[i]) end
    for i = 1, 2 do held[i]:release() end
    uv.sleep(100) -- both are done before the loop runs
    assert(loop.wait(5, function()
      return seen[1].yields and seen[2].yields
    end))
    for i = 1, 2 do expect_own(list[i], seen[i]) end
  end)

  it("a callback that sleeps keeps no other", function()
    local told = {}
    local function short(name)
      return assert(store:lock(name, { ttl = 0.2, renew = false }))
    end
    local first
    coroutine.wrap(function()
      for i = 1, 2 do
        local lease = short(key .. i)
        lease:on_lost(function()
          told[i] = true
          first = first or coroutine.running()
          if coroutine.running() == first then coroutine.yield() end
        end)
        told["lease" .. i] = lease
      end
      assert(other:lock(key .. "held"))
      store:lock(key .. "held", { timeout = 1 })
    end)()
    assert(loop.wait(5, function() return told[1] and told[2] end))
    resume(first)
  end)

  it("a callback that nobody resumes keeps no release", function()
    local told, code, released, sleeper = {}, nil, nil, nil
    coroutine.wrap(function()
      local lease = assert(store:lock(key))
      lease:on_lost(function()
        sleeper = coroutine.running()
        told[#told + 1] = "first"
        coroutine.yield()
        told[#told + 1] = "late"
      end)
      lease:on_lost(function() told[#told + 1] = "second" end)
      assert(other:break_lock(key))
      code, released = select(3, lease:release()), coroutine.running()
    end)()
    assert(loop.wait(5, function() return released end))
    assert.equal("lost", code)
    assert.are.same({ "first", "second" }, told)
    assert.are_not.equal(released, sleeper)
    resume(sleeper)
    assert.equal("late", told[3])
  end)
end)
