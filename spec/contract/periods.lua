-- What keeps a key beyond the work itself: min_hold, and once_per, which is
-- made of it.

local assert = require "luassert"

local LONG = 60 -- seconds; longer than any wait here

return function(t, it, timed)
  local zookeeper = t.subject.name:find("zookeeper", 1, true)

  local function kinds(store, key)
    return {
      assert(store:mutex(key)),
      assert(store:rwlock(key)):write(),
      assert(store:rwlock(key)):read(),
      assert(store:semaphore(key, 2)),
    }
  end

  it("release { early = true }, which gives min_hold up", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, one in ipairs(kinds(a, key)) do
      for _, given in ipairs { { early = true },
          { early = true, timeout = 1 } } do
        local lease = assert(one:acquire { min_hold = LONG })
        assert.is_true(lease:release(given))
        assert.is_true(lease:release())
        assert(b:try_lock(key), tostring(one)):release()
      end
    end
    t:expect_nothing_left()
  end)

  it("release with a table that does not end it early", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, given in ipairs { {}, { timeout = 1 }, { early = false } } do
      local lease = assert(a:lock(key, { min_hold = LONG }))
      assert.is_true(lease:release(given))
      assert.are.equal("busy", select(3, b:try_lock(key)))
      assert.is_true(b:break_lock(key))
    end
    local lease = assert(a:lock(key))
    local bad, message, code = lease:release { timeout = -1 }
    assert.is_nil(bad)
    assert.are.equal("invalid", code)
    assert.matches("timeout", message)
    for _, given in ipairs { { late = true }, { early = 1 }, { ttl = 1 } } do
      assert.has_error(function() lease:release(given) end)
    end
    assert.is_true(lease:held())
    assert.is_true(lease:release())
    t:expect_nothing_left()
  end)

  it("an early release of a reentrant hold, which is its last lease's",
  function()
    local a, b, key = t:open(), t:open(), t:key()
    local mutex = assert(a:mutex(key, { reentrant = true }))
    local outer = assert(mutex:acquire { min_hold = LONG })
    assert.is_true(assert(mutex:acquire()):release { early = true })
    assert.is_true(outer:release())
    assert.are.equal("busy", select(3, b:try_lock(key)))
    assert.is_true(b:break_lock(key))
    outer = assert(mutex:acquire { min_hold = LONG })
    assert.is_true(assert(mutex:acquire()):release())
    assert.is_true(outer:release { early = true })
    assert(b:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  -- Kept without a lease: seen by others, over in time, and broken by admins.
  timed("min_hold, also when its store is closed", function()
    local a, b, key = t:open(), t:open(), t:key()
    local start = t:now()
    local keys = {}
    for i = 1, 4 do
      keys[i] = key .. i
      assert(kinds(a, keys[i])[i]:acquire { min_hold = 1.5 })
    end
    assert.is_true(a:close())
    for i = 1, 4 do
      t:is_kept(b:mutex(keys[i]), start, 1.49)
    end
    for i = 1, 4 do
      assert(b:lock(keys[i], { timeout = 5 })):release()
      assert.is_true(t:now() - start >= 1.49)
    end
    t:expect_nothing_left()
  end)

  it("min_hold, of which nothing is left though nobody comes", function()
    local a, key = t:open(), t:key()
    for i = 1, 4 do
      local one = kinds(a, key .. i)[i]
      assert.is_true(assert(one:acquire { min_hold = 0.3 }):release())
    end
    t:expect_nothing_left(5)
  end)

  timed("min_hold, also when its holder is killed", function()
    local b, key = t:open(), t:key()
    local peer = t:peer(2) -- a dead session lasts for 4 s at most
    local span = zookeeper and 6 or 1.5
    local start = t:now()
    assert.are.equal("true", peer:run("lease = store:lock(%q, { ttl = 0.3,"
      .. " min_hold = %g }) return lease ~= nil", key, span))
    peer:kill()
    local other = assert(b:lock(key, { timeout = 20 }))
    assert.is_true(t:now() - start >= span - 0.01, t:now() - start)
    other:release()
    t:expect_nothing_left()
  end)

  it("what min_hold keeps, which is seen as held and can be broken",
  function()
    local a, b, key = t:open(), t:open(), t:key()
    for i = 1, 4 do
      local lease = assert(kinds(a, key)[i]:acquire { min_hold = LONG })
      local fence, owner = lease.fence, lease.owner
      assert.is_true(lease:release())
      if i == 1 then
        assert.is_true(a:close())
      end
      assert.is_true(assert(b:mutex(key)):locked())
      local seen = assert(b:inspect(key))
      assert.are.equal(1, #seen.holders)
      assert.are.equal(0, #seen.waiters)
      assert.are.equal(fence, seen.holders[1].fence)
      assert.are.equal(owner, seen.holders[1].owner)
      assert.are.same({ key }, (b:list(key)))
      local _, message, code = b:try_lock(key)
      assert.are.equal("busy", code)
      assert.matches(i < 3 and owner or key, message, 1, true)
      assert.is_true(b:break_lock(key))
      local next_one = assert(b:lock(key, { timeout = 5 }))
      assert.is_true(next_one.fence > fence)
      assert.is_true(next_one:release())
      if i == 1 then
        a = t:open()
      end
    end
    t:expect_nothing_left()
  end)

  it("permits that min_hold keeps, and those beside them", function()
    local a, b, key = t:open(), t:open(), t:key()
    local mine, other = assert(a:semaphore(key, 3)), assert(b:semaphore(key, 3))
    assert.is_true(assert(mine:acquire { permits = 2, min_hold = LONG })
      :release())
    assert.are.equal("busy", select(3, other:try_acquire { permits = 2 }))
    local beside = assert(other:try_acquire())
    assert.are.equal("busy", select(3, other:try_acquire()))
    assert.is_true(beside:release())
    assert.is_true(b:break_lock(key))
    assert(other:acquire { permits = 3, timeout = 5 }):release()
    t:expect_nothing_left()
  end)

  it("a waiter behind what min_hold keeps, let in by a break", function()
    local a, b, key = t:open(), t:open(), t:key()
    assert.is_true(assert(a:lock(key, { min_hold = LONG })):release())
    local stop = t:later(0.3, function() assert(a:break_lock(key)) end)
    assert(b:lock(key, { timeout = 20 })):release()
    stop()
    t:expect_nothing_left()
  end)

  -- ---- once_per

  timed("once_per: one run that succeeds in each period", function()
    local a, b, key = t:open(), t:open(), t:key()
    local function count(...) return select("#", ...), ... end
    local runs, start = 0, t:now()
    local function job(lease)
      assert.are.equal(key, lease.key)
      assert.is_true(lease:held())
      runs = runs + 1
      return runs, nil, "x"
    end
    assert.are.same({ 4, true, 1, nil, "x", n = 5 },
      { n = 5, count(a:once_per(key, 1, job)) })
    for _, store in ipairs { a, b } do
      local ok, message, code = store:once_per(key, 1, job)
      if t:now() - start < 0.99 then
        assert.is_nil(ok)
        assert.are.equal("busy", code)
        assert.matches("^busy: ", message)
        assert.are.equal(1, runs)
      end
    end
    t:eventually("the next period", function()
      return b:once_per(key, LONG, job)
    end)
    assert.is_true(t:now() - start >= 0.99)
    assert.are.equal("busy", select(3, a:once_per(key, 1, job)))
    assert.is_true(a:break_lock(key))
    t:expect_nothing_left()
  end)

  it("once_per: busy while it is being done", function()
    local a, b, key = t:open(), t:open(), t:key()
    local inner
    assert.is_true((a:once_per(key, 0.1, function()
      t:sleep(0.2) -- the period is over, the run is not
      inner = select(3, b:once_per(key, 0.1, function() end))
    end)))
    assert.are.equal("busy", inner)
    assert.is_true((b:once_per(key, LONG, function() end)))
    assert.is_true(a:break_lock(key))
    t:expect_nothing_left()
  end)

  it("once_per: the rest of a period that is done is seen and told", function()
    local a, b, key = t:open(), t:open(), t:key()
    assert.is_true((a:once_per(key, LONG, function() end)))
    for _, store in ipairs { a, b } do
      local left = store:inspect(key).holders[1].ttl
      -- On ZooKeeper by the server's clock, give or take a request's time.
      assert.is_true(left > LONG - 20 and left <= LONG + 2, left)
      local _, message = store:once_per(key, LONG, print)
      assert.matches("^busy: .*: this period's run is done", message)
    end
    assert.is_true(b:break_lock(key))
    t:expect_nothing_left()
  end)

  it("once_per: a run that fails, which opens the period at once", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, value in ipairs { {}, "text", 5, false } do
      local ok, problem = t:pcall(a.once_per, a, key, LONG, function()
        error(value, 0)
      end)
      assert.is_false(ok)
      assert.are.equal(value, problem)
      assert.are.same({ true, nil, "no disk", 28 },
        { b:once_per(key, LONG, function() return nil, "no disk", 28 end) })
    end
    assert.are.same({ true }, { b:once_per(key, LONG, function() end) })
    assert.are.equal("busy", select(3, a:once_per(key, LONG, print)))
    assert.is_true(a:break_lock(key))
    assert.are.same({ true, false, "so it is" },
      { b:once_per(key, LONG, function() return false, "so it is" end) })
    assert.are.equal("busy", select(3, a:once_per(key, LONG, print)))
    assert.is_true(a:break_lock(key))
    t:expect_nothing_left()
  end)

  it("once_per: a lease that is lost while it runs", function()
    local a, b, key = t:open(), t:open(), t:key()
    local ok, message, code, result = a:once_per(key, LONG, function(lease)
      assert.is_true(b:break_lock(key))
      lease:extend()
      return 7
    end)
    assert.is_nil(ok)
    assert.matches("^lost: ", message)
    assert.are.equal("lost", code)
    assert.are.equal(7, result)
    t:expect_nothing_left()
  end)

  it("once_per: what it is given", function()
    local store, key = t:open(), t:key()
    for _, seconds in ipairs { 0, -1, 0 / 0, math.huge, 1e9 } do
      local ok, message, code = store:once_per(key, seconds, print)
      assert.is_nil(ok)
      assert.are.equal("invalid", code)
      assert.matches("period", message)
    end
    assert.are.equal("invalid", select(3, store:once_per("", 1, print)))
    for _, wrong in ipairs { { 5, 1, print }, { key, "1", print },
        { key, 1 }, { key, 1, {} }, { key, nil, print },
        { key, 1, print, { ttl = 5 } } } do
      assert.has_error(function()
        store:once_per(wrong[1], wrong[2], wrong[3], wrong[4])
      end)
    end
    t:expect_nothing_left()
  end)
end
