-- Two coroutines wait for one thing: a lease whose release one of them asked
-- for is released by the other too, while that is under way. Both are told.
local cqueues = require "cqueues"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local redis = require "spec.support.redis"

describe("a release that two coroutines ask for", function()
  local one, store

  setup(function() one = redis.start() end)

  teardown(function() one:stop() end)

  after_each(function() assert(store:close(5)) end)

  local function acquired(key)
    local lease
    loop.in_coroutine(function() lease = assert(store:lock(key)) end)
    return lease
  end

  -- Two that are in its release, as the server stands still.
  local function two_in_release(lease)
    local told, cos = {}, {}
    one:pause()
    for i = 1, 2 do
      cos[i] = coroutine.create(function() told[i] = lease:release() end)
      assert(coroutine.resume(cos[i]))
      assert.equal("suspended", coroutine.status(cos[i]))
    end
    return told, cos
  end

  local function close_in_coroutine()
    loop.in_coroutine(function() assert(store:close(5)) end)
    store = assert(dlock.open(one.url))
  end

  it("is told to both, in luv", function()
    store = assert(dlock.open { url = one.url, host = "luv" })
    local told = two_in_release(acquired "both")
    one:resume()
    assert(loop.wait(5, function() return told[1] and told[2] end))
    assert.same({ true, true }, told)
    close_in_coroutine()
  end)

  if coroutine.close then
    for gone = 1, 2 do
      it("is told to the one that is left, in luv: " .. 3 - gone, function()
        store = assert(dlock.open { url = one.url, host = "luv" })
        local told, cos = two_in_release(acquired("left" .. gone))
        assert(coroutine.close(cos[gone]))
        one:resume()
        assert(loop.wait(5, function() return told[3 - gone] end))
        assert.is_nil(told[gone])
        close_in_coroutine()
      end)
    end
  end

  it("is told to both, in two controllers of cqueues", function()
    store = assert(dlock.open { url = one.url, host = "cqueues" })
    local lease
    local first, second = cqueues.new(), cqueues.new()
    first:wrap(function() lease = assert(store:lock "controllers") end)
    assert(first:loop(10))
    one:pause()
    local told = {}
    for i, queue in ipairs { first, second } do
      queue:wrap(function() told[i] = lease:release() end)
      assert(queue:step(0))
      assert.is_nil(told[i])
    end
    one:resume()
    assert(second:loop(5))
    assert(first:loop(5))
    assert.same({ true, true }, told)
    second:wrap(function() assert(store:close(5)) end)
    assert(second:loop(10))
    store = assert(dlock.open(one.url))
  end)
end)
