-- min_hold on a real server behind a proxy: the server keeps the key from the
-- grant on, and what crosses that on its way.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local meanwhile = require "spec.support.meanwhile"
local private_redis = require "spec.support.private_redis"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"

local _, _, digests = require("spec.sim.redis_model").texts()

local LONG = 60 -- seconds

describe("Redis, min_hold:", function()
  local private, admin
  private_redis(function(...) private, admin = ... end)

  local p, store

  local function set_up()
    admin:call("FLUSHALL")
    p = proxy.start(private.url)
    store = assert(dlock.open { url = p.url, io_timeout = 0.5 })
    assert(store:ping())
  end

  local function tear_down()
    store:close(1)
    p:stop()
  end

  local it = steady(set_up, tear_down)

  -- How many seconds the server keeps the key for.
  local function left(key)
    return admin:call("PTTL", "dlock:" .. key) / 1000
  end

  local function expect_kept(key)
    assert.is_true(left(key) > LONG - 10, left(key))
  end

  it("the key outlives the ttl, renewals and extensions", function()
    local lease = assert(store:try_lock("a", { ttl = 0.4, min_hold = LONG }))
    expect_kept("a")
    eventually("renewals", 3, function()
      return store:stats().renewed >= 2
    end)
    expect_kept("a")
    assert(lease:extend(0.5))
    expect_kept("a")
    assert.is_true(lease:remaining() <= 0.5)
    assert(lease:release { early = true })
    assert.are.equal(-0.002, left("a"))
  end)

  it("it is kept for one that waited, too", function()
    local other = assert(dlock.open(private.url))
    local held = assert(other:lock("a"))
    local lease = assert(meanwhile.when(function()
      return admin:queued("dlock:a") == 1
    end, function() held:release() end, function()
      return store:lock("a", { timeout = 10, min_hold = LONG })
    end))
    expect_kept("a")
    assert(lease:release())
    expect_kept("a")
    other:close()
  end)

  -- After this the server has the script that grants and the one that has a
  -- hold kept (it renews).
  local function warm()
    for _ = 1, 2 do assert(assert(store:try_lock("a")):release()) end
    local kept = assert(store:try_lock("a", { min_hold = 0.1 }))
    assert(kept:release { early = true })
    return p:count(digests.renew)
  end

  it("an answer that is lost while it is being kept", function()
    warm()
    p:cut_after(digests.renew)
    local lease = assert(store:lock("a", { min_hold = LONG, timeout = 5 }))
    expect_kept("a")
    assert(lease:release { early = true })
    assert.are.equal(-0.002, left("a"))
  end)

  it("a latch's count whose answer is lost is made once", function()
    local direct = assert(dlock.open(private.url))
    local patient = assert(dlock.open { url = p.url, timeout = 1,
      io_timeout = 0.5 })
    for _, what in ipairs { "join", "renew" } do -- the grant, what keeps it
      local latch = assert(patient:latch("l " .. what, 9))
      local other = assert(direct:latch("l " .. what, 9))
      assert.is_true(latch:count_down())
      p:cut_after(digests[what])
      p:refuse(true)
      local ok, message, code = latch:count_down()
      p:refuse(false)
      assert.is_nil(ok, what)
      assert.are.equal("unavailable", code, message)
      eventually("the same again", 10, function()
        return latch:count_down()
      end)
      assert.are.equal(7, other:count())
      assert.is_true(latch:count_down())
      assert.are.equal(6, other:count())
    end
    patient:close()
    direct:close()
  end)

  it("a grant that is broken before it is kept is none", function()
    local before = warm()
    p:cut_before(digests.renew)
    p:refuse(true)
    local lease = assert(meanwhile.when(function()
      return p:count(digests.renew) > before
    end, function()
      admin:call("DEL", "dlock:a")
      p:refuse(false)
    end, function()
      return store:lock("a", { min_hold = LONG, timeout = 10 })
    end))
    assert.is_true(lease:held())
    expect_kept("a")
    assert(lease:extend())
    assert(lease:release { early = true })
  end)

  it("a grant that nobody was told of leaves nothing", function()
    warm()
    p:cut_after(digests.renew)
    p:refuse(true)
    assert.are.equal("unavailable",
      select(3, store:try_lock("a", { min_hold = LONG })))
    expect_kept("a")
    p:refuse(false)
    eventually("it is taken back", 10, function() return left("a") < 0 end)
  end)

  it("a release without an answer ends no min_hold", function()
    local opts = { min_hold = LONG, ttl = 20 }
    local kept = assert(store:try_lock("kept", opts))
    local early = assert(store:try_lock("early", opts))
    p:hold("up")
    assert.are.equal("unavailable", select(3, kept:release(0.1)))
    assert.are.equal("unavailable",
      select(3, early:release { timeout = 0.1, early = true }))
    p:discard("up")
    p:reset()
    -- What takes the one back would have come to the other by then.
    eventually("the other is taken back", 10, function()
      return left("early") < 0
    end)
    expect_kept("kept")
  end)
end)
