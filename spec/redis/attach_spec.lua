-- Detached leases on Redis: a string is good for one attach, whatever happens
-- to its reply, and what is attached is the attacher's in every way.

local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local uv = require "luv"

local URL = os.getenv("DLOCK_TEST_REDIS")

describe("attaching on redis:", function()
  local stores, r, key, between = {}, nil, nil, nil
  local count = 0

  local function open(opts)
    opts = opts or {}
    opts.url = opts.url or URL
    stores[#stores + 1] = assert(dlock.open(opts))
    return stores[#stores]
  end

  local function set_up()
    r = redis.connect()
    count = count + 1
    key = ("attach-%d-%d"):format(r:call("CLIENT", "ID"), count)
  end

  local function tear_down()
    for _, store in ipairs(stores) do store:close(1) end
    stores = {}
    if between then between:stop() end
    between = nil
    r:close()
  end

  local timed = steady(set_up, tear_down)

  local KINDS = {
    mutex = function(store) return store:mutex(key) end,
    reader = function(store) return store:rwlock(key):read() end,
    semaphore = function(store) return store:semaphore(key, 2) end,
  }

  for name, lockable in pairs(KINDS) do
    it("a string is attached once: " .. name, function()
      local a, b, c = open(), open(), open()
      local lease = assert(lockable(open()):acquire { ttl = 20 })
      local fence, text = lease.fence, assert(lease:detach())
      local first = assert(a:attach(text))
      local second, message, code = b:attach(text)
      assert.is_nil(second)
      assert.are.equal("lost", code, message)
      assert.are.equal("lost", select(3, a:attach(text)))
      assert.are.equal(fence, first.fence)
      local holders = assert(c:inspect(key)).holders
      assert.are.equal(1, #holders)
      assert.are.equal(fence, holders[1].fence)
      assert.are.equal(lease.owner, holders[1].owner)
      assert.are.equal(name == "semaphore" and 1 or nil,
        name == "semaphore" and holders[1].permits or nil)
      assert(first:extend(10))
      local text2 = assert(first:detach())
      assert.are.equal("lost", select(3, b:attach(text)))
      assert(assert(b:attach(text2)):release())
      assert(assert(c:try_lock(key)):release())
      assert.is_true(r:has_nothing_of("dlock:" .. key))
    end)
  end

  it("a string whose min_hold is no number of ms is none", function()
    local a = open()
    local lease = assert(a:lock(key, { ttl = 20, min_hold = 0.2 }))
    local text = assert(lease:detach())
    assert.matches("^r,%d+:", text)
    for _, bad in ipairs { ",", ",x", ",-1", ",1,1", ",999999999999999" } do
      assert.are.equal("invalid",
        select(3, a:attach((text:gsub(",%d+", bad, 1)))), bad)
    end
    assert(assert(a:attach(text)):release())
    assert(a:lock(key, { timeout = 5 })):release()
  end)

  it("an attach that nobody takes leaves the rest of min_hold", function()
    local a, b = open(), open()
    local lease = assert(a:lock(key, { ttl = 20, min_hold = 60 }))
    local engine = core.client(lease).engine
    local ticket = engine:attach(assert(lease:detach()))
    repeat until core.drive(ticket, 0.2)
    ticket:abandon()
    assert(a:close(1))
    assert.are.equal("busy", select(3, b:try_lock(key)))
  end)

  timed("the new holder is told of a break and of a wish", function()
    local a, b = open(), open()
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    assert(b:ping())
    assert.are.equal("timeout", select(3, b:lock(key, { timeout = 0.5 })))
    local lease = assert(b:attach(text)) -- it waited, so it listens
    assert(a:revoke(key))
    eventually("it hears of the wish", 5, function()
      b:ping()
      return lease:revoked()
    end)
    assert(a:break_lock(key))
    assert.is_truthy(lease:wait_lost(5))
  end)

  it("the waiters queued behind it are served", function()
    local a, b = open(), open { host = "luv" }
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    local got
    coroutine.wrap(function()
      got = assert(b:lock(key, { timeout = 10 })).fence
    end)()
    eventually("it queues", 5, function()
      return #assert(a:inspect(key)).waiters == 1
    end)
    local lease = assert(a:attach(text))
    assert.are.equal(1, #assert(a:inspect(key)).waiters)
    assert(lease:release())
    eventually("it is served", 5, function() return got end)
    assert.is_true(got > lease.fence)
  end)

  it("the reply to an attach is lost: it asks again and has it", function()
    local a = open()
    between = proxy.start(URL)
    local b = open { url = between.url }
    local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
    assert(b:ping())
    between:cut_after("EVALSHA")
    local lease = assert(b:attach(text))
    assert.are.equal("lost", select(3, a:attach(text)))
    assert(lease:release())
  end)

  it("an attach that is given up leaves the string as good as it was",
    function()
      local a = open()
      between = proxy.start(URL)
      local b = open { url = between.url, io_timeout = 0.3 }
      local text = assert(assert(a:lock(key, { ttl = 20 })):detach())
      eventually("it is connected", 20, function() return b:ping() end)
      between:hold("down")
      assert.are.equal("unavailable", select(3, b:attach(text)))
      between:release("down")
      eventually("it can be attached", 20, function()
        local lease = a:attach(text)
        return lease and lease:release()
      end)
    end)

  -- ---- max_hold ----

  -- A string of a lease that may be held for `most` seconds more, and the
  -- moment at which that is over. The ttl is so long that its margin alone is
  -- more than that.
  local function limited(lockable, most)
    local lease = assert(lockable:acquire { ttl = 3600, max_hold = most })
    local ends = core.now() + most
    return assert(lease:detach()), ends
  end

  local function ends_by(lease, ends)
    local now = core.now() -- before: we may stand still in between
    local left = lease:remaining()
    assert.is_true(left > 0, left)
    assert.is_true(now + left <= ends, now + left - ends)
  end

  for name, lockable in pairs(KINDS) do
    timed("max_hold goes on while it is detached: " .. name, function()
      local a, b, c = open(), open(), open()
      local text, ends = limited(lockable(a), 1.5)
      uv.sleep(300)
      local lease = assert(b:attach(text))
      ends_by(lease, ends)
      text = assert(lease:detach())
      assert(c:lock(key, { timeout = 15 })):release()
      assert.is_true(core.now() < ends + 5)
      assert.are.equal("lost", select(3, b:attach(text)))
    end)
  end

  timed("max_hold goes on when the reply to an attach is lost", function()
    local a = open()
    between = proxy.start(URL)
    local b = open { url = between.url }
    local text, ends = limited(a:mutex(key), 5)
    assert(b:ping())
    uv.sleep(500)
    between:cut_after("EVALSHA")
    local lease = assert(b:attach(text))
    ends_by(lease, ends)
    assert(lease:release())
  end)

  timed("max_hold goes on when an attach is given up", function()
    local a = open()
    between = proxy.start(URL)
    local b = open { url = between.url, io_timeout = 0.3 }
    local text, ends = limited(a:mutex(key), 10)
    eventually("it is connected", 20, function() return b:ping() end)
    uv.sleep(300)
    between:hold("down")
    assert.are.equal("unavailable", select(3, b:attach(text)))
    between:release("down")
    local lease
    eventually("it can be attached", 20, function()
      lease = a:attach(text)
      return lease
    end)
    ends_by(lease, ends)
    assert(lease:release())
  end)

  -- As if it had been under way for so long.
  it("a lease whose max_hold is over is given back by who attaches it",
    function()
      local a, b = open(), open()
      local text = limited(a:mutex(key), 5)
      local old, changed = text:gsub(":1 3600000 (%d+) 0 0 %d+ %d+ ",
        ":1 3600000 %1 0 0 1000 9000 ")
      assert.are.equal(1, changed)
      assert.are.equal("lost", select(3, b:attach(old)))
      assert(a:lock(key, { timeout = 4 })):release()
    end)

  it("a string whose max_hold is no time is none", function()
    local a = open()
    local text = limited(a:mutex(key), 5)
    local function with(rest)
      return (text:gsub(":1 3600000 (%d+) 0 0 %d+ %d+ ",
        ":1 3600000 %1 0 0 " .. rest))
    end
    for _, bad in ipairs { "", "5000 ", "5000 0 ", "-1 5000 ", "x 5000 ",
        "999999999999999 5000 ", "5000 999999999999999 " } do
      assert.are.equal("invalid", select(3, a:attach(with(bad))), bad)
    end
    local most = ("%.0f"):format(2 ^ 63 / 1e6 / 4 - 1e6)
    local lease = assert(a:attach(with(most .. " 5000 ")))
    assert.is_true(lease:remaining() > 0)
    assert(lease:release())
  end)
end)
