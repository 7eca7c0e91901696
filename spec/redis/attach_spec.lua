-- Detached leases on Redis: a string is good for one attach, whatever happens
-- to its reply, and what is attached is the attacher's in every way.

local core = require "dlock.core"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"

local URL = os.getenv("DLOCK_TEST_REDIS")
local _, _, digests = require("spec.sim.redis_model").texts()

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
      local a, b, c = open { name = "who has it now" }, open(), open()
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
      assert.are.equal("who has it now", holders[1].owner)
      assert.are.equal("who has it now", first.owner)
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
      local next_one = assert(b:lock(key, { timeout = 10 }))
      got = next_one.fence
      next_one:release_later()
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
    between:cut_after(digests.attach)
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

  -- A detached lease has its whole ttl, whatever its max_hold was.
  it("max_hold does not follow a lease to whoever attaches it", function()
    local a, b = open(), open()
    for _, lockable in pairs(KINDS) do
      local text = assert(assert(lockable(a):acquire { ttl = 20, max_hold = 5 })
        :detach())
      local lease = assert(b:attach(text, { max_hold = 9 }))
      assert.is_true(lease:remaining() > 8 and lease:remaining() <= 9)
      assert(lease:release())
    end
  end)
end)
