-- Barriers and latches.

local assert = require "luassert"
local lockable = require "dlock.lockable"
local proxy = require "spec.support.proxy"

local function code_of(_, _, code)
  return code
end

return function(t, it, timed)
  -- How many are at a barrier.
  local function members(store, key)
    local found, message, code = store:inspect(key)
    assert.is_nil(code, message)
    return found and #found.holders or 0
  end

  local function come(store, key, n)
    t:eventually(n .. " members", function()
      return members(store, key) == n
    end)
  end

  -- Other processes, each with a barrier of that many.
  local function others(key, count, n, session)
    local peers = {}
    for i = 1, count do
      peers[i] = t:peer(session)
      peers[i]:run("b = assert(store:barrier('%s', %d))", key, n)
    end
    return peers
  end

  it("a barrier: all begin together, and end together", function()
    local store, key = t:open(), t:key()
    local barrier, peers = assert(store:barrier(key, 3)), others(key, 2, 3)
    assert.are.equal("dlock.barrier: '" .. key .. "'", tostring(barrier))
    for round = 1, 2 do
      for i, peer in ipairs(peers) do
        peer:start("return b:enter(60)")
        come(store, key, i)
      end
      if round == 1 then
        local ok, message, code = barrier:enter(0)
        -- One of the three is a moment too late, or all are in.
        assert.is_true(ok == true or code == "timeout", message)
        if not ok then assert.is_true(barrier:enter(60)) end
      else
        assert.is_true(barrier:enter(60))
      end
      for _, peer in ipairs(peers) do
        assert.are.equal("true", (peer:finish()))
      end
      assert.are.equal(3, members(store, key))
      peers[1]:start("return b:leave(60)")
      come(store, key, 2)
      assert.are.equal("timeout", peers[2]:run("local _, _, code = b:leave(0.1)"
        .. " return code"))
      assert.is_true(barrier:leave(60))
      assert.are.equal("true", (peers[1]:finish()))
    end
    t:expect_nothing_left()
  end)

  timed("a time-out at a barrier, which leaves nothing", function()
    local store, key = t:open { timeout = 0.1 }, t:key()
    local barrier = assert(store:barrier(key, 2))
    assert(store:ping()) -- connecting may take longer than the time-out
    for _, timeout in ipairs { 0.2, 0, false } do
      local ok, message, code = barrier:enter(timeout or nil)
      assert.is_nil(ok)
      assert.are.equal("timeout", code)
      assert.matches("^timeout: 1 of 2 were at the barrier '" .. key, message)
      assert.are.equal(0, members(store, key))
    end
    t:expect_nothing_left()
  end)

  -- It is stopped before it can see that all are there.
  it("a slow one, which gets in although the others leave", function()
    local store, key = t:open(), t:key()
    local barrier, slow = assert(store:barrier(key, 2)), others(key, 1, 2)[1]
    slow:start("return b:enter(60)")
    come(store, key, 1)
    slow.process:kill("sigstop")
    assert.is_true(barrier:enter(10))
    local seen
    local stop = t:later(0.3, function()
      seen = true
      slow.process:kill("sigcont")
    end)
    -- It begins to leave when it is in.
    slow:start("return b:leave(60)")
    assert.is_true(barrier:leave(20))
    stop()
    assert.is_true(seen)
    assert.are.equal("true", (slow:finish()))
    assert.are.equal("true", (slow:finish()))
    t:expect_nothing_left()
  end)

  timed("a next round, which does not begin with the last one's members",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local one, two = assert(a:barrier(key, 2)), assert(b:barrier(key, 2))
      local peer = others(key, 1, 2)[1]
      peer:start("return b:enter(60)")
      come(a, key, 1)
      assert.is_true(one:enter(20))
      assert.are.equal("true", (peer:finish()))
      assert.are.equal("timeout", code_of(two:enter(0.3))) -- the third
      peer:start("return b:leave(60)")
      come(a, key, 1)
      assert.are.equal("timeout", code_of(two:enter(0.3))) -- one leaves
      assert.is_true(one:leave(20))
      assert.are.equal("true", (peer:finish()))
      peer:start("return b:enter(60)")
      come(a, key, 1)
      assert.is_true(two:enter(20))
      assert.are.equal("true", (peer:finish()))
      peer:start("return b:leave(60)")
      assert.is_true(two:leave(20))
      assert.are.equal("true", (peer:finish()))
      t:expect_nothing_left()
    end)

  -- It reads the members while another one is in, and the passes behind the end
  -- of that one's leave (I3).
  it("one that comes while the last one leaves, which does not enter alone",
    function()
      local store, key = t:open(), t:key()
      local one, two = assert(store:barrier(key, 2)),
        assert(store:barrier(key, 2))
      local peer = others(key, 1, 2)[1]
      peer:start("return b:enter(60)")
      come(store, key, 1)
      assert.is_true(one:enter(20))
      assert.are.equal("true", (peer:finish()))
      peer:start("return b:leave(60)")
      come(store, key, 1)
      local inspect, left = lockable.inspect, nil
      lockable.inspect = function(state)
        if state.key == key .. ":ready" then
          lockable.inspect = inspect
          left = one:leave(20) and peer:finish() -- all passes are gone
        end
        return inspect(state)
      end
      local ok, message, code = two:enter(0.5)
      lockable.inspect = inspect
      assert.are.equal("true", left)
      assert.is_nil(ok)
      assert.are.equal("timeout", code, message)
      t:expect_nothing_left()
    end)

  -- What a lost answer leaves until the store takes it back: a second permit.
  it("a member that was granted twice, which is not two", function()
    local store, key = t:open(), t:key()
    local barrier = assert(store:barrier(key, 2))
    local acquire, other = lockable.acquire, nil
    lockable.acquire = function(...)
      lockable.acquire = acquire
      other = assert(acquire(...))
      return acquire(...)
    end
    local ok, message, code = barrier:enter(0.3)
    lockable.acquire = acquire
    assert.is_nil(ok)
    assert.are.equal("timeout", code, message)
    assert.is_true(other:release())
    t:expect_nothing_left()
  end)

  it("a member that is killed, which has left", function()
    local store, key = t:open(), t:key()
    local barrier, peer = assert(store:barrier(key, 2)), t:peer(2)
    peer:run("short = assert(dlock.open { url = arg[1], ttl = 1,"
      .. " session_timeout = 2, sentinel_username = arg[3],"
      .. " sentinel_password = arg[4] })"
      .. " b = assert(short:barrier('%s', 2))", key)
    peer:start("return b:enter(60)")
    come(store, key, 1)
    assert.is_true(barrier:enter(20))
    assert.are.equal("true", (peer:finish()))
    peer:kill()
    assert.is_true(barrier:leave(40))
    -- On Consul the dead one's key goes when somebody looks.
    t:eventually("the end of its pass", function()
      return not store:inspect(key .. ":ready")
    end, 40)
    t:expect_nothing_left(10)
  end)

  it("a crowd at a barrier, round after round", function()
    local store, key = t:open(), t:key()
    local peers = others(key, 8, 9)
    local barrier = assert(store:barrier(key, 9))
    for _, peer in ipairs(peers) do
      peer:start("for round = 1, 3 do assert(b:enter(60)) assert(b:leave(60))"
        .. " end")
    end
    for _ = 1, 3 do
      assert.is_true(barrier:enter(60))
      assert.is_true(barrier:leave(60))
    end
    for _, peer in ipairs(peers) do peer:finish(60) end
    t:expect_nothing_left()
  end)

  it("barriers of different numbers, which are not one", function()
    local a, b, key = t:open(), t:open(), t:key()
    local one, two = assert(a:barrier(key, 1)), assert(b:barrier(key, 2))
    assert.is_true(one:enter())
    local ok, message, code = two:enter(1)
    assert.is_nil(ok)
    assert.are.equal("invalid", code)
    assert.matches("another number than 2", message)
    assert.are.equal("invalid", code_of(b:semaphore(key, 1):try_acquire()))
    assert.is_true(one:leave())
    assert.are.equal("timeout", code_of(two:enter(0)))
    t:expect_nothing_left()
  end)

  it("a barrier's calls out of turn, and after a break", function()
    local store, key = t:open(), t:key()
    local barrier = assert(store:barrier(key, 1))
    assert.are.equal("lost", code_of(barrier:leave()))
    assert.is_true(barrier:enter())
    assert.are.equal("invalid", code_of(barrier:enter()))
    assert.is_true(barrier:leave())
    assert.are.equal("lost", code_of(barrier:leave()))
    assert.is_true(barrier:enter())
    assert.is_true(store:break_lock(key))
    assert.are.equal("lost", code_of(barrier:leave()))
    assert.is_true(barrier:enter())
    assert.is_true(barrier:leave())
    t:expect_nothing_left()
  end)

  it("a barrier of a store whose locks have other times", function()
    local store, key = t:open { min_hold = 60, max_hold = 0.1, renew = false,
      ttl = 1 }, t:key()
    local barrier = assert(store:barrier(key, 1))
    assert.is_true(barrier:enter())
    t:sleep(1.5)
    assert.is_true(barrier:leave())
    t:expect_nothing_left()
  end)

  if t.host.blocks then
    it("an error while a barrier is waited for, which leaves nothing",
      function()
        local store, key = t:open(), t:key()
        local barrier = assert(store:barrier(key, 2))
        local stop = t:later(0.3, function() error("stop", 0) end)
        local ok, problem = t:pcall(barrier.enter, barrier, 20)
        stop()
        assert.is_false(ok)
        assert.are.equal("stop", problem)
        assert.are.equal(0, members(store, key))
        t:expect_nothing_left()
      end)
  end

  if t.host.name == "luv" and coroutine.close then
    it("a closed coroutine that waited at a barrier, which leaves nothing",
      function()
        local store, key = t:open(), t:key()
        local barrier = assert(store:barrier(key, 2))
        local co = coroutine.create(function() barrier:enter(60) end)
        assert(coroutine.resume(co))
        come(store, key, 1)
        assert.is_true(coroutine.close(co))
        come(store, key, 0)
        assert.are.equal("timeout", code_of(barrier:enter(0)))
        t:expect_nothing_left()
      end)
  end

  it("a barrier whose store is closed while it waits", function()
    local a, b, key = t:open(), t:open(), t:key()
    local barrier = assert(a:barrier(key, 2))
    local stop = t:later(0.2, function() a:close() end)
    local ok, message, code = barrier:enter(20)
    stop()
    assert.is_nil(ok)
    assert.is_true(code == "cancelled" or code == "closed", message)
    t:eventually("nobody", function() return members(b, key) == 0 end)
    t:expect_nothing_left()
  end)

  it("barriers that cannot be", function()
    local store, key = t:open(), t:key()
    for _, bad in ipairs { 0, -1, 1.5, 501, 0 / 0, math.huge } do
      local got, message, code = store:barrier(key, bad)
      assert.is_nil(got)
      assert.are.equal("invalid", code)
      assert.matches("^invalid: n is ", message)
    end
    for _, wrong in ipairs { "", ("k"):rep(501), ("k"):rep(513) } do
      assert.are.equal("invalid", code_of(store:barrier(wrong, 2)))
    end
    assert(store:barrier(("k"):rep(500), 500))
    assert.has_error(function() store:barrier(key) end)
    assert.has_error(function() store:barrier(key, "2") end)
    assert.has_error(function() store:barrier(key, 2, { ttl = 5 }) end)
    local barrier = assert(store:barrier(key, 2))
    for _, call in ipairs { "enter", "leave" } do
      assert.are.equal("invalid", code_of(barrier[call](barrier, -1)))
      assert.has_error(function() barrier[call](barrier, "1") end)
      assert.has_error(function() barrier[call](barrier, { timeout = 1 }) end)
    end
    t:expect_nothing_left()
  end)

  -- ---- latches

  -- A latch's counts stay: an admin ends them.
  local function sweep(store, key)
    assert(store:break_lock(key))
    assert(store:break_lock(key .. ":open"))
    t:expect_nothing_left(10)
  end

  it("a latch, which opens when all have counted", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer()
    local here, there = assert(a:latch(key, 3)), assert(b:latch(key, 3))
    assert.are.equal("dlock.latch: '" .. key .. "'", tostring(here))
    assert.are.equal(3, there:count())
    peer:start("return store:latch('%s', 3):wait(60)", key)
    assert.is_true(here:count_down())
    assert.are.equal(2, there:count())
    assert.is_true(here:count_down()) -- the same one again
    assert.are.equal(1, here:count())
    assert.are.equal(1, there:count())
    local ok, message, code = there:wait(0)
    assert.is_nil(ok)
    assert.are.equal("timeout", code)
    assert.matches("^timeout: 1 of 3 counts were missing for the latch '"
      .. key, message)
    assert.are.equal("timeout", code_of(here:wait(0.2)))
    assert.is_true(there:count_down())
    assert.are.equal("true", (peer:finish()))
    assert.is_true(here:wait())
    assert.is_true(here:wait(0))
    assert.are.equal(0, here:count())
    local holders = #assert(a:inspect(key)).holders
    assert.is_true(here:count_down()) -- it is open
    assert.are.equal(0, there:count())
    assert.are.equal(holders, #assert(a:inspect(key)).holders)
    assert(b:break_lock(key))
    assert.are.equal(0, here:count()) -- by the mark alone
    sweep(b, key)
    assert.are.equal(3, here:count())
  end)

  it("counts of programs that ended, or were killed, or closed their store",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local peer, other = t:peer(2), t:peer(2)
      assert.is_true(assert(a:latch(key, 4)):count_down())
      assert.is_true(a:close())
      for _, one in ipairs { peer, other } do
        assert.are.equal("true",
          (one:run("return store:latch('%s', 4):count_down()", key)))
      end
      peer:kill()
      other.process:close()
      local there = assert(b:latch(key, 4))
      t:sleep(3) -- the session of the killed one is over
      assert.are.equal(1, there:count())
      assert.is_true(there:count_down())
      assert.is_true(there:wait(0))
      sweep(b, key)
    end)

  timed("a latch's counts, and the open latch, which end", function()
    local store, key = t:open(), t:key()
    local latch = assert(store:latch(key, 2, { ttl = 2 }))
    local start = t:now()
    assert.is_true(latch:count_down())
    assert.are.equal(1, latch:count())
    t:eventually("the end of the count", function()
      return latch:count() == 2
    end, 20)
    assert.is_true(t:now() - start >= 1.99)
    start = t:now()
    assert.is_true(latch:count_down())
    assert.is_true(latch:count_down())
    assert.are.equal(0, latch:count())
    t:eventually("the end of the open latch", function()
      return latch:count() == 2
    end, 20)
    assert.is_true(t:now() - start >= 1.99)
    t:expect_nothing_left(10)
  end)

  it("a count whose answer was lost, which is made once", function()
    local store, key = t:open(), t:key()
    local latch = assert(store:latch(key, 3))
    local other = assert(store:latch(key, 3))
    -- What a lost answer leaves: the count is made, and the call does not know.
    local acquire = lockable.acquire
    local lose = true
    lockable.acquire = function(...)
      local lease, message, code = acquire(...)
      if lease and lose then
        lose = false
        lease:release()
        return nil, "unavailable: the answer is lost", "unavailable"
      end
      return lease, message, code
    end
    local ok, _, code = latch:count_down()
    lockable.acquire = acquire
    assert.is_nil(ok)
    assert.are.equal("unavailable", code)
    assert.are.equal(2, other:count()) -- it was made
    assert.is_true(other:count_down())
    assert.are.equal(1, other:count())
    assert.is_true(latch:count_down()) -- the same again
    assert.are.equal(1, other:count())
    assert.is_true(latch:count_down()) -- another one
    assert.are.equal(0, other:count())
    sweep(store, key)
  end)

  it("a latch's waiter, which sees for itself that nobody set the mark",
    function()
      local store, key, peer = t:open(), t:key(), t:peer()
      local latch = assert(store:latch(key, 2))
      peer:start("return store:latch('%s', 2):wait(60)", key)
      assert.is_true(latch:count_down())
      assert.is_true(latch:count_down())
      assert(store:break_lock(key .. ":open"))
      assert.are.equal("true", (peer:finish()))
      sweep(store, key)
    end)

  -- The last program that counts dies before it is told of its count. The store
  -- keeps that for no longer than a lease: min_hold begins when it is told.
  it("a latch that somebody saw open, which stays open", function()
    local calls = {
      count = function(latch) return latch:count() == 0 end,
      wait = function(latch) return latch:wait(0) end,
      count_down = function(latch) return latch:count_down() end,
    }
    for name, call in pairs(calls) do
      local store, key = t:open(), t:key()
      local latch = assert(store:latch(key, 2))
      assert.is_true(latch:count_down())
      local limit = assert(store:inspect(key)).permits
      local untold = assert(store:semaphore(key, limit):try_acquire {
        value = "token" })
      assert.is_true(call(assert(store:latch(key, 2))), name)
      assert.is_true(untold:release())
      assert.are.equal(0, latch:count(), name)
      assert.is_true(latch:wait(0), name)
      sweep(store, key)
    end
  end)

  it("a latch and a barrier of one number on a key, which are not one",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local latch, barrier = assert(a:latch(key, 2)), assert(b:barrier(key, 2))
      assert.is_true(latch:count_down())
      assert.are.equal("invalid", code_of(barrier:enter(0)))
      sweep(a, key)
      local one = assert(b:barrier(key, 1))
      assert.is_true(one:enter())
      assert.are.equal("invalid", code_of(a:latch(key, 1):count_down()))
      assert.is_true(one:leave())
      t:expect_nothing_left()
    end)

  it("a crowd that counts a latch down", function()
    local store, key, peers = t:open(), t:key(), {}
    for i = 1, 6 do
      peers[i] = t:peer()
      peers[i]:start("local l = assert(store:latch('%s', 24))"
        .. " for i = 1, 4 do assert(l:count_down()) end return l:wait(60)", key)
    end
    assert.is_true(assert(store:latch(key, 24)):wait(60))
    for _, peer in ipairs(peers) do
      assert.are.equal("true", (peer:finish(60)))
    end
    sweep(store, key)
  end)

  it("latches of different numbers, which are not one", function()
    local a, b, key = t:open(), t:open(), t:key()
    local one, two = assert(a:latch(key, 2)), assert(b:latch(key, 3))
    assert.is_true(one:count_down())
    for _, call in ipairs { "count_down", "count", "wait" } do
      local ok, message, code = two[call](two)
      assert.is_nil(ok)
      assert.are.equal("invalid", code)
      assert.matches("another number than 3", message)
    end
    assert.are.equal(1, one:count())
    assert(a:break_lock(key))
    local lease = assert(b:lock(key))
    assert.are.equal("invalid", code_of(one:count()))
    lease:release()
    t:expect_nothing_left(10)
  end)

  it("a latch whose store is closed while it waits", function()
    local a, key = t:open(), t:key()
    local latch = assert(a:latch(key, 2))
    local stop = t:later(0.2, function() a:close() end)
    local ok, message, code = latch:wait(20)
    stop()
    assert.is_nil(ok)
    assert.is_true(code == "cancelled" or code == "closed", message)
    t:expect_nothing_left()
  end)

  local function returns_true(peer)
    local ok, message = peer:finish(60)
    assert.are.equal("true", ok, message)
  end

  if t.host.blocks and t.on_network then
    it("an outage, which ends no wait for a latch or at a barrier", function()
      local p = proxy.start(t.subject.url())
      local store, key, peer = t:open(), t:key(), t:peer()
      local latch = assert(store:latch(key .. "l", 1))
      local barrier = assert(store:barrier(key, 2))
      peer:run("far = assert(dlock.open { url = '%s', io_timeout = 1 })"
        .. " l = assert(far:latch('%s', 1)) b = assert(far:barrier('%s', 2))",
        p.url, key .. "l", key)
      local function outage()
        p:refuse(true)
        p:reset()
        t:sleep(2.5) -- longer than an answer may take
        p:refuse(false)
      end
      peer:start("return l:wait(60)")
      t:eventually("answers", function() return p:stats().down > 0 end)
      outage()
      assert.is_true(latch:count_down())
      returns_true(peer)
      peer:start("return b:enter(60)")
      come(store, key, 1)
      outage()
      assert.is_true(barrier:enter(60))
      returns_true(peer)
      peer:start("return b:leave(60)")
      come(store, key, 1)
      outage()
      assert.is_true(barrier:leave(60))
      returns_true(peer)
      p:stop()
      sweep(store, key .. "l")
    end)
  end

  it("latches that cannot be", function()
    local store, key = t:open(), t:key()
    for _, bad in ipairs { 0, -1, 1.5, 501, 0 / 0, math.huge } do
      local got, message, code = store:latch(key, bad)
      assert.is_nil(got)
      assert.are.equal("invalid", code)
      assert.matches("^invalid: n is ", message)
    end
    assert.are.equal("invalid", code_of(store:latch(key, 2, { ttl = 0 })))
    for _, wrong in ipairs { "", ("k"):rep(501), ("k"):rep(513) } do
      assert.are.equal("invalid", code_of(store:latch(wrong, 2)))
    end
    assert(store:latch(("k"):rep(500), 500, { ttl = 31536000 }))
    assert.has_error(function() store:latch(key) end)
    assert.has_error(function() store:latch(key, "2") end)
    assert.has_error(function() store:latch(key, 2, { timeout = 5 }) end)
    local latch = assert(store:latch(key, 2))
    assert.are.equal("invalid", code_of(latch:wait(-1)))
    assert.has_error(function() latch:wait("1") end)
    assert.has_error(function() latch:count {} end)
    assert.has_error(function() latch:count_down {} end)
    t:expect_nothing_left()
  end)
end
