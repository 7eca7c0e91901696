-- What the file store shows of a hold is exact: it is what the holder has.

local dlock = require "dlock"
local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"

describe("a hold in files, after attempts that failed,", function()
  local base, a, b, c

  before_each(function()
    base = server.new_dir()
    local url = "file://" .. base .. "/locks"
    a = assert(dlock.open { url = url, name = "a" })
    b = assert(dlock.open { url = url, name = "b" })
    c = assert(dlock.open { url = url, name = "c" })
  end)

  after_each(function()
    a:close()
    b:close()
    c:close()
    server.remove_dir(base)
  end)

  local function fail(times)
    for _ = 1, times do
      local got, _, code = b:try_lock("key", { value = "not this", ttl = 7 })
      assert.are.same({ nil, "busy" }, { got, code })
      got, _, code = b:lock("key", { value = "nor this", timeout = 0.02 })
      assert.are.same({ nil, "timeout" }, { got, code })
    end
  end

  -- since is checked and taken out.
  local function holders(lease_since)
    local list = assert(c:inspect("key")).holders
    for _, h in ipairs(list) do
      assert.is_true(h.since >= lease_since, h.since)
      assert.is_true(h.since < lease_since + 10, h.since)
      h.since = nil
    end
    return list
  end

  it("is shown with its fence, value and time", function()
    local last = 0
    for i = 1, 3 do
      local lease = assert(a:lock("key", { value = "v" .. i, ttl = 20 }))
      assert.is_true(lease.fence > last)
      last = lease.fence
      fail(3)
      assert.are.same({ { owner = "a", fence = lease.fence, ttl = 20,
        value = "v" .. i } }, holders(0.06))
      assert.are.same({ owner = "a", fence = lease.fence, value = "v" .. i },
        c:election("key"):leader())
      assert.is_true(lease:release())
      assert.is_nil(c:inspect("key"))
      assert.is_nil((c:election("key"):leader()))
    end
  end)

  it("is shown with the ttl that it was extended to", function()
    local lease = assert(a:lock("key", { ttl = 20 }))
    fail(1)
    assert(lease:extend(50))
    assert.are.same({ { owner = "a", fence = lease.fence, ttl = 50 } },
      holders(0.02))
    assert(lease:downgrade())
    assert(lease:extend(60))
    assert.are.same({ { owner = "a", fence = lease.fence, ttl = 60 } },
      holders(0.02))
    assert(lease:release())
  end)

  it("is counted beside 998 others, and not beside more", function()
    local semaphore, leases = assert(a:semaphore("key", 2000)), {}
    for i = 1, 999 do leases[i] = assert(semaphore:acquire()) end
    assert.are.equal(1001, (c:semaphore("key", 2000):available()))
    leases[1000] = assert(semaphore:acquire())
    local count, message, code = c:semaphore("key", 2000):available()
    assert.is_nil(count)
    assert.are.equal("unsupported", code)
    assert.matches("^unsupported: 'key' has 1000 holders", message)
    assert.is_true(leases[1]:release())
    assert.are.equal(1001, (c:semaphore("key", 2000):available()))
  end)

  it("is shown beside others that share the key", function()
    local one = assert(a:semaphore("key", 5):acquire { permits = 2 })
    local two = assert(b:semaphore("key", 5):acquire { permits = 3,
      value = "second" })
    local got, _, code = c:semaphore("key", 5):try_acquire()
    assert.are.same({ nil, "busy" }, { got, code })
    assert.are.same({
      { owner = "a", fence = one.fence, ttl = 30, permits = 2 },
      { owner = "b", fence = two.fence, ttl = 30, permits = 3,
        value = "second" },
    }, holders(0))
    assert(one:release())
    assert(two:release())
  end)
end)

describe("a key in files that only the dead want", function()
  local dir

  before_each(function()
    dir = server.new_dir()
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  it("is in no list, whatever min_hold they asked for", function()
    local a, b, c = tool.start(dir), tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:acquire("b", "key", { timeout = 20, min_hold = 1e9 })
    c:wait_queue("key", 1)
    b:kill()
    assert.are.equal("list ok {{key} nil}", c:ask("list"))
    a:kill()
    assert.are.equal("list ok {{} nil}", c:ask("list"))
    assert.are.equal("inspect ok nil", c:ask("inspect", tool.hex("key")))
  end)
end)
