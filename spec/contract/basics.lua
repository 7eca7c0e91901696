-- Acquire, release, try, time-out: what everybody uses.

local assert = require "luassert"
local dlock = require "dlock"

return function(t, it, timed)
  it("a lock that is acquired, held and released", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key))
    assert.is_true(lease:held())
    assert.is_true(lease:remaining() > 0.5 and lease:remaining() <= 30)
    assert.is_true(lease:release())
    assert.is_false(lease:held())
    assert.are.equal(0, lease:remaining())
    assert(store:lock(key)):release()
    t:expect_nothing_left()
  end)

  it("a lease's fields", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key, { ttl = 12, owner = "job 7" }))
    assert.are.equal(key, lease.key)
    assert.are.equal("job 7", lease.owner)
    assert.are.equal(12, lease.ttl)
    assert.are.equal("exclusive", lease.mode)
    assert.are.equal("number", type(lease.fence))
    assert.are.equal(lease.fence, math.floor(lease.fence))
    assert.is_true(lease.fence > 0 and lease.fence < 1e14)
    assert.is_truthy(tostring(lease.fence):match("^%d+$"))
    assert.is_nil(lease.no_such_field)
    assert.has_error(function() lease.fence = 5 end)
    lease:release()
  end)

  it("an owner that is host and pid by default", function()
    local store = t:open()
    local lease = assert(store:lock(t:key()))
    assert.is_truthy(lease.owner:match("^.+/%d+$"), lease.owner)
    lease:release()
    lease = assert(t:open({ name = "web-3" }):lock(t:key()))
    assert.are.equal("web-3", lease.owner)
    lease:release()
  end)

  it("tostring, before and after", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key))
    local text = tostring(lease)
    assert.is_truthy(text:find("^dlock%.lease: " .. key .. " fence="
      .. lease.fence .. " held [%d.]+s$"), text)
    lease:release()
    assert.is_nil(tostring(lease):find(" held ", 1, true))
    assert.are.equal("dlock.mutex: '" .. key .. "'",
      tostring(store:mutex(key)))
    assert.are.equal(1, (tostring(store):find("dlock.store: "
      .. t.subject.url():match("^[^:]+:"), 1, true)))
  end)

  timed("a key that this very process holds: the message says so", function()
    local a, b, key = t:open(), t:open(), t:key()
    local named = t:open({ name = "one-of-many" })
    local function says(store, text)
      for _, try in ipairs { false, true } do
        local message = t:in_vain(text, function(timeout)
          if try then return store:try_lock(key) end
          return store:lock(key, { timeout = timeout })
        end)
        assert.is_truthy(message:find(text, 1, true), message)
      end
    end
    local lease = assert(a:lock(key))
    says(a, lease.owner .. " (this very process)")
    says(b, lease.owner .. " (the name of this very process)")
    local _, message = named:try_lock(key)
    assert.is_nil(message:find("this very process", 1, true), message)
    assert(lease:release())
    lease = assert(named:lock(key))
    says(named, "one-of-many (this very process)")
    _, message = t:open({ name = "one-of-many" }):try_lock(key)
    assert.is_nil(message:find("this very process", 1, true), message)
    assert(lease:release())
  end)

  it("a key that is taken: try says busy", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    for _, store in ipairs { a, b } do
      local got, message, code = store:try_lock(key)
      assert.is_nil(got)
      assert.are.equal("busy", code)
      assert.is_truthy(message:find("^busy: "))
      assert.is_truthy(message:find(key, 1, true), message)
      assert.are.equal("busy", select(3, store:lock(key, { timeout = 0 })))
      assert.are.equal("busy", select(3, store:mutex(key):try_acquire()))
    end
    lease:release()
    assert(b:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  timed("a wait that times out, and leaves nothing behind", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    assert(b:ping()) -- connecting may take longer
    local start = t:now()
    local got, message, code = b:lock(key, { timeout = 0.3 })
    local took = t:now() - start
    assert.is_nil(got)
    assert.are.equal("timeout", code)
    assert.is_truthy(message:find("^timeout: "))
    assert.is_truthy(message:find(key, 1, true), message)
    assert.is_true(took >= 0.29 and took < 2.5, took)
    t:eventually("no waiter", function()
      return t.subject.waiters(key) == 0
    end)
    assert.is_true(lease:held())
    lease:release()
    t:expect_nothing_left()
  end)

  it("locked", function()
    local a, b, key = t:open(), t:open(), t:key()
    local mutex = assert(b:mutex(key))
    assert.is_false(mutex:locked())
    local lease = assert(a:lock(key))
    assert.is_true(mutex:locked())
    lease:release()
    assert.is_false(mutex:locked())
  end)

  it("fences that rise with every holder, of any process", function()
    local a, b, key, last = t:open(), t:open(), t:key(), 0
    for i = 1, 20 do
      local lease = assert((i % 3 == 0 and b or a):lock(key))
      assert.is_true(lease.fence > last)
      last = lease.fence
      lease:release()
    end
  end)

  it("a second release gives the first result", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key))
    assert.is_true(lease:release())
    local other = assert(store:lock(key))
    assert.is_true(lease:release())
    assert.is_true(other:held())
    assert.are.equal("busy", select(3, store:try_lock(key)))
    assert.is_true(other:release())
  end)

  it("a lease that another coroutine releases", function()
    local store, key = t:open(), t:key()
    local lease
    t:wrap(function() lease = assert(store:lock(key)) end)()
    assert.is_true(t:wrap(function() return lease:release() end)())
    assert(store:try_lock(key)):release()
  end)

  timed("a mutex whose options are defaults for its acquires", function()
    local store, key = t:open { ttl = 9 }, t:key()
    local mutex = assert(store:mutex(key, { ttl = 7, timeout = 0.3 }))
    local lease = assert(mutex:acquire { timeout = 20 })
    assert.are.equal(7, lease.ttl)
    assert.are.equal("timeout", select(3, mutex:acquire()))
    lease:release()
    lease = assert(mutex:acquire { ttl = 8, timeout = 20 })
    assert.are.equal(8, lease.ttl)
    lease:release()
    lease = assert(store:lock(key))
    assert.are.equal(9, lease.ttl)
    lease:release()
  end)

  if t:default_prefix() == "/dlock" then
    it("an empty prefix, which is no folder", function()
      local store, message, code = dlock.open { url = t.subject.url(),
        prefix = "" }
      assert.is_nil(store)
      assert.are.equal("invalid", code)
      assert.matches("prefix.*/dlock", message)
    end)
  end

  it("a prefix, under which keys are others", function()
    local prefix = "/" .. t:key()
    local a, b = t:open { prefix = prefix }, t:open()
    local c, key = t:open { prefix = prefix }, t:key()
    local lease = assert(a:lock(key))
    assert.are.equal(key, lease.key)
    assert(b:try_lock(key)):release()
    assert.are.equal("busy", select(3, c:try_lock(key)))
    lease:release()
  end)

  timed("who was in the way of a wait, in its message", function()
    local a, b, key = t:open { name = "web-3" }, t:open(), t:key()
    for owner, opts in pairs {
      ["web-3"] = {}, ["job-7"] = { owner = "job-7" },
    } do
      local lease = assert(a:lock(key, opts))
      local message = t:in_vain(owner, function(timeout)
        return b:lock(key, { timeout = timeout })
      end)
      assert.is_truthy(message:find(owner, 1, true), message)
      lease:release()
    end
  end)

  it("ping, in seconds", function()
    local trip = assert(t:open():ping())
    assert.is_true(trip >= 0 and trip < 2, trip)
  end)

  it("misuse, which raises and names what is wrong", function()
    local store = t:open()
    local mutex = assert(store:mutex(t:key()))
    local function raises(pattern, fn, ...)
      local args, n = { ... }, select("#", ...)
      local ok, problem = pcall(function()
        local result = fn((table.unpack or unpack)(args, 1, n))
        return result
      end)
      assert.is_false(ok)
      assert.is_truthy(tostring(problem):find(pattern), problem)
      -- It points here, not into dlock.
      assert.is_truthy(problem:find("contract/basics.lua:", 1, true), problem)
    end
    raises("ttl_ms", store.lock, store, t:key(), { ttl_ms = 5 })
    raises("timeout", store.try_lock, store, t:key(), { timeout = 5 })
    raises("must be a string", store.lock, store, 5)
    raises("must be a string", store.mutex, store)
    raises("colon", store.lock, t:key())
    raises("colon", mutex.acquire)
    raises("colon", mutex.acquire, store)
    raises("colon", store.ping, mutex)
    raises("function", mutex.with, mutex)
    raises("function", store.with, store, t:key(), {})
    raises("no fields", function() store.ttl = 5 end)
    raises("no fields", function() mutex.ttl = 5 end)
    local lease = assert(mutex:acquire())
    raises("number", lease.release, lease, "x")
    raises("number", lease.extend, lease, {})
    raises("function", lease.on_lost, lease)
    assert.are.equal("invalid", select(3, lease:release(-1)))
    assert.are.equal("invalid", select(3, lease:extend(0)))
    assert.is_true(lease:held())
    for _, name in ipairs { "held", "release", "remaining", "extend" } do
      assert.is_false((pcall(lease[name])))
      assert.is_false((pcall(lease[name], {})))
      assert.is_false((pcall(lease[name], io.stdout)))
    end
    lease:release()
  end)
end
