-- What the ZooKeeper store can do beside exclusive locks: shared holds,
-- semaphores, downgrade, guarded writes, administration. Through the
-- engine's own calls.

local common = require "spec.zookeeper.common"
local steady = require "spec.support.steady"
local uv = require "luv"
local zk = require "spec.support.zk"

local EXCLUSIVE, SHARED = { 0, 0 }, { 1, 0 }
local key, open = common.key, common.open

local function busy(engine, k, want)
  local lease, _, code = engine.acquire(k, want, { timeout = 0 })
  if lease then lease:release() end
  return code == "busy"
end

describe("on ZooKeeper", function()
  local timed = steady(nil, common.clean_up)

  -- With so many holders it waits on the list of all of them.
  timed("a semaphore's waiter that waited for longer than its ttl stays ahead "
    .. "of those that came later", function()
    local e, k, ttl, held = common.engine(open()), key(), 1, {}
    for i = 1, 20 do held[i] = assert(e.acquire(k, { 1, 20 })) end
    local function wait_for_one()
      return e.start(k, { 1, 20 }, 20, ttl)
    end
    local first = wait_for_one()
    common.queued(k, 21)
    uv.sleep(1000 * ttl)
    local later = wait_for_one()
    common.queued(k, 22)
    assert(held[1]:release())
    assert(held[2]:release())
    first, later = assert(e.finish(first)), assert(e.finish(later))
    assert.is_true(first.fence < later.fence)
    first:release()
    later:release()
    for i = 3, 20 do held[i]:release() end
  end)

  timed("500 waiters are woken once each, in order", function()
    local k, n = key(), 500
    local holder = common.engine(open { session_timeout = 10 })
    local waiters = common.engine(open { session_timeout = 10 })
    local lease, tickets = assert(holder.acquire(k, EXCLUSIVE)), {}
    for i = 1, n do tickets[i] = waiters.start(k, EXCLUSIVE, 60) end
    waiters.locked(k) -- answered after all that was sent before
    common.queued(k, n + 1)
    local function reads()
      return zk.stats()["zk_cnt_dlock_read_per_namespace"] or 0
    end
    common.eventually("all watch", function()
      waiters.locked(k)
      return zk.stats()["zk_watch_count"] >= n
    end)
    local function events()
      return zk.stats()["zk_sum_node_deleted_watch_count"]
    end
    local before, last, fired = reads(), lease.fence, events()
    assert(lease:release())
    for i = 1, n do
      local l = assert(waiters.finish(tickets[i]))
      assert.is_true(l.fence > last, "out of order at " .. i)
      last = l.fence
      assert(l:release())
    end
    -- A list for each; some are read once more because they are held.
    local used = reads() - before
    assert.is_true(used >= n and used <= n + 50, used)
    -- Each release fires one watch; who holds it for a moment watches its own
    -- node besides.
    fired = events() - fired
    assert.is_true(fired >= n and fired <= n + 50, fired)
  end)

  it("a semaphore of many waits on the list of children", function()
    local e, k, held = common.engine(open()), key(), {}
    for i = 1, 20 do held[i] = assert(e.acquire(k, { 1, 20 })) end
    local ticket = e.start(k, { 20, 20 })
    common.queued(k, 21)
    for i = 1, 20 do assert(held[i]:release()) end
    assert(assert(e.finish(ticket)):release())
  end)

  it("a reader that tries sees a downgraded hold", function()
    local a, b, k = common.engine(open()), common.engine(open()), key()
    local lease = assert(a.acquire(k, EXCLUSIVE))
    assert.is_true(busy(b, k, SHARED))
    assert(common.downgrade(lease))
    local r = assert(b.acquire(k, SHARED, { timeout = 0 }))
    local late = assert(common.engine(open()).acquire(k, SHARED,
      { timeout = 0 }))
    late:release()
    r:release()
    lease:release()
  end)

  it("a guarded write happens only while the lease is ours", function()
    local store, k = open(), key()
    local lease = assert(store:lock(k))
    local path = "/" .. k .. "-data"
    assert(common.guard(lease, "CREATE", path, "one"))
    assert.are.equal(1, assert(common.guard(lease, "SET", path, "two")))
    assert.are.equal("invalid",
      select(3, common.guard(lease, "SET", path, "x", "0")))
    assert.are.equal("invalid", select(3, common.guard(lease, "SET", path)))
    assert.are.equal("invalid",
      select(3, common.guard(lease, "SET", "no-path", "x")))
    assert.are.equal("invalid", select(3, common.guard(lease, "DROP", path)))
    -- The node that is missing is not the holder's own.
    assert.are.equal("invalid",
      select(3, common.guard(lease, "SET", path .. "-none", "x")))
    assert.is_true(lease:held())
    -- Broken behind its back, before any notice of it can be read.
    local other = common.engine(open())
    assert.is_true(other.break_lock(k))
    assert.are.equal("lost", select(3, common.guard(lease, "SET", path, "3")))
    assert.is_false(lease:held())
    local again = assert(store:lock(k))
    assert.are.equal(2, assert(common.guard(again, "SET", path, "four")))
    assert(common.guard(again, "DELETE", path))
    again:release()
  end)

  -- A server would cut the connection, and with it end all leases of the store.
  it("a guarded write that is too long for a server is not sent", function()
    local store = open()
    local lease = assert(store:lock(key()))
    local path = "/" .. key() .. "-data"
    local function create(where, length)
      return common.guard(lease, "CREATE", where, ("x"):rep(length))
    end
    local long = path .. ("x"):rep(2^20)
    for _, try in ipairs { { path, 1100000 }, { long, 0 } } do
      local ok, text, code = create(try[1], try[2])
      assert.is_nil(ok)
      assert.are.equal("invalid", code)
      assert.matches("longer than 1047000 bytes %(a server's jute", text)
    end
    -- The longest that is not refused is done by the server.
    local length = 1048576
    local ok, text, code
    repeat
      length = length - 16
      ok, text, code = create(path, length)
    until code ~= "invalid"
    assert.is_true(ok, text)
    assert.is_true(length > 1046000 - #path, length)
    assert(common.guard(lease, "DELETE", path))
    assert.is_true(lease:release())
  end)

  it("a guarded write stays below the chroot", function()
    local chroot = "/" .. key()
    local store = open { url = common.url .. chroot }
    local lease = assert(store:lock(key()))
    assert.are.equal("invalid",
      select(3, common.guard(lease, "CREATE", "beside", "x")))
    assert(common.guard(lease, "CREATE", "/below", "x"))
    assert(common.guard(lease, "DELETE", "/below"))
    lease:release()
  end)

  it("extend is answered while another of the same store waits", function()
    local store, k = open(), key()
    local e = common.engine(store)
    local lease = assert(store:lock(k))
    local waits = e.start(k, EXCLUSIVE, 10)
    common.queued(k, 2)
    assert(store:ping()) -- the waiter's watch is set before this is answered
    assert(lease:extend(5))
    lease:release()
    assert(e.finish(waits)):release()
  end)

  timed("leases beyond the first hundreds have no watch and hear of it at "
    .. "their renewals", function()
    local store, k, n, held = open(), key(), 400, {}
    for i = 1, n do held[i] = assert(store:lock(k .. "-" .. i, { ttl = 3 })) end
    local other = common.engine(open())
    local own = ("/%s-"):format(k):gsub("%-", "%%-")
    local function watched()
      return select(2, zk.four("wchp"):gsub(own, ""))
    end
    common.eventually("the first are watched", function()
      return watched() == 250
    end)
    assert.is_true(other.revoke(k .. "-" .. n - 1))
    assert.is_true(other.break_lock(k .. "-" .. n))
    assert(held[n]:wait_lost(5))
    common.eventually("revoked", function()
      store:ping()
      return held[n - 1]:revoked()
    end, 5)
    assert(held[n - 2]:extend())
    assert.are.equal(250, watched())
    for i = 1, n - 1 do
      assert.is_true(held[i]:held())
      assert(held[i]:release())
    end
  end)

  it("inspect is exact for a hold that others only tried to get", function()
    local store, k = open(), key()
    local e = common.engine(store)
    local other, start = open(), common.now()
    local lease = assert(e.acquire(k, { 0, 0 }, { value = "v=1\n%" }))
    for _ = 1, 3 do
      assert.are.equal("busy", select(3, other:try_lock(k)))
    end
    local seen = assert(other:inspect(k)).holders[1]
    assert.are.equal(lease.fence, seen.fence)
    assert.are.equal("v=1\n%", seen.value)
    assert.is_true(seen.since >= 0 and seen.since <= common.now() - start + 1)
    lease:release()
  end)
end)
