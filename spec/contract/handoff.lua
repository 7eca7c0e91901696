-- In an event loop a released lock may go from coroutine to coroutine: to those
-- who waited before anybody else did, and with fair = false also to later
-- ones, at most local_handoffs times; another process gets in then.

local assert = require "luassert"
local loop = require "spec.support.loop"
local protect = require "dlock.protect"

local LIMIT, WAITERS = 3, 20

-- Runs fn in coroutines, n of them, and returns when all have ended.
local function together(n, fn)
  local left, problem = n, nil
  for i = 1, n do
    coroutine.wrap(function()
      local ok, err = protect.call(fn, i)
      left, problem = left - 1, problem or not ok and err
    end)()
  end
  assert(loop.wait(30, function() return left == 0 or problem end), "too long")
  if problem then error(problem, 0) end
end

-- Who came when, for a case that fails.
local function shown(store, theirs, fences)
  local out = {}
  for i = 1, WAITERS do
    out[i] = fences[i] and ("%d"):format(fences[i] - theirs) or "none"
  end
  return ("fences, from the other process's on: %s; %d local hand-offs")
    :format(table.concat(out, " "), store:stats().local_handoffs)
end

local function is_waiting(store, key, pid)
  local found = assert(store:inspect(key))
  for _, waiter in ipairs(found.waiters) do
    if waiter.owner:find("/" .. pid, 1, true) then return true end
  end
  return false
end

return function(t, it, timed)
  -- A cluster's release lifts a counter that nobody raised for a quarter of a
  -- second up to the clock, and no fence is set aside past that: so a moment
  -- later only a part of those who waited first goes along.
  local all_go_along = t.subject.hands_over and not t.subject.lifts

  -- These bring a loop of their own.
  local only_outside = t.host.blocks and timed or function() end

  -- The stores connect first: that may take longer than the time-out.
  only_outside("time-outs of many waiters of one process that say who holds it",
  function()
    local store, key, peer = t:open { host = "luv" }, t:key(), t:peer()
    local lease
    together(1, function() assert(store:ping()) end)
    for _, holds in ipairs { "another", "this one" } do
      local owner
      if holds == "another" then
        owner = peer:run("l = assert(store:lock('%s')) return l.owner", key)
      else
        peer:run("l:release()")
        together(1, function() lease = assert(store:lock(key)) end)
        owner = lease.owner .. " (this very process)"
      end
      -- The first of them has to see the holder before its time is over.
      local timeout, ignorant = 0.4
      repeat
        ignorant = nil
        together(WAITERS, function()
          local _, message, code = store:lock(key, { timeout = timeout })
          assert(code == "timeout" or code == "unavailable", message)
          if not message:find("held by " .. owner, 1, true) then
            ignorant = message
          end
        end)
        timeout = timeout * 4
      until not ignorant or timeout > 7
      assert.is_nil(ignorant)
    end
    together(1, function() assert.is_true(lease:release()) end)
    t:expect_nothing_left()
  end)

  only_outside("waiters of one process that let another process in", function()
    local store, key, peer = t:open { host = "luv" }, t:key(), t:peer()
    local mutex = store:mutex(key,
      { fair = false, local_handoffs = LIMIT, timeout = 30 })
    local fences, inside, since = {}, 0, nil
    together(WAITERS, function()
      local lease = assert(mutex:acquire())
      inside = inside + 1
      assert.are.equal(1, inside)
      fences[#fences + 1] = lease.fence
      if #fences == 4 then
        peer:start("l = assert(store:lock('%s', { timeout = 30 }))"
          .. " local f = l.fence; l:release(); return f", key)
        repeat until is_waiting(store, key, peer.pid)
        since = lease.fence
      end
      inside = inside - 1
      assert.is_true(lease:release())
    end)
    local theirs, before = tonumber(peer:finish()), 0
    for i, fence in ipairs(fences) do
      assert.is_true(i == 1 or fence > fences[i - 1])
      assert.are_not.equal(theirs, fence)
      if fence > since and fence < theirs then before = before + 1 end
    end
    assert.is_true(theirs > since)
    assert.is_true(before <= LIMIT + 1, before .. " came first")
    assert.are.equal(t.subject.hands_over == true,
      store:stats().local_handoffs > 0)
    t:expect_nothing_left()
  end)

  only_outside("those who waited first, then another process, then the others",
    function()
      local store, key, peer = t:open { host = "luv" }, t:key(), t:peer()
      local mutex, fences = store:mutex(key, { timeout = 30 }), {}
      local function enter(i)
        local lease = assert(mutex:acquire())
        fences[i] = lease.fence
        return lease
      end
      local function pass(i)
        assert.is_true(enter(i):release())
      end
      local first
      together(1, function() first = enter(1) end)
      together(WAITERS, function(i)
        if i == 3 then
          t:queued(key, 1) -- the second one asked, alone
          local lease = enter(i) -- asked together with all that wait by then
          peer:start("l = assert(store:lock('%s', { timeout = 30 }))"
            .. " local f = l.fence; l:release(); return f", key)
          repeat until is_waiting(store, key, peer.pid)
          coroutine.wrap(pass)(WAITERS) -- comes last of all
          assert.is_true(lease:release())
        elseif i == WAITERS then
          assert.is_true(first:release())
        elseif i > 1 then
          pass(i)
        end
      end)
      assert(loop.wait(30, function() return fences[WAITERS] end))
      local theirs = tonumber(peer:finish())
      for i = 2, WAITERS do
        assert.is_true(fences[i] > fences[i - 1])
      end
      if all_go_along then
        assert.is_true(theirs > fences[WAITERS - 1],
          shown(store, theirs, fences))
        assert.is_true(store:stats().local_handoffs >= WAITERS - 6)
      end
      assert.is_true(theirs < fences[WAITERS])
      t:expect_nothing_left()
    end)

  -- Nobody can know that before it is asked for in the store's queue.
  only_outside("nobody who came later passes those who waited first",
    function()
      local store, key, peer = t:open { host = "luv" }, t:key(), t:peer()
      local mutex, fences, first = store:mutex(key, { timeout = 30 }), {}, nil
      together(1, function() first = assert(mutex:acquire()) end)
      local function pass(i)
        local lease = assert(mutex:acquire())
        fences[i] = lease.fence
        assert.is_true(lease:release())
      end
      together(WAITERS, function(i)
        if i == 2 then
          t:queued(key, 1) -- the first one asked, alone
        elseif i == WAITERS then
          -- Since when another one waits is known only as well as the server
          -- is quick to say it, so these came earlier by more than that.
          if all_go_along then
            loop.wait(0.55, function() return false end)
          end
          peer:start("l = assert(store:lock('%s', { timeout = 30 }))"
            .. " local f = l.fence; l:release(); return f", key)
          repeat until is_waiting(store, key, peer.pid)
          coroutine.wrap(pass)(WAITERS)
          assert.is_true(first:release())
        else
          pass(i)
        end
      end)
      assert(loop.wait(30, function() return fences[WAITERS] end))
      local theirs = tonumber(peer:finish())
      assert.is_true(theirs < fences[WAITERS])
      if all_go_along then
        for i = 3, WAITERS - 1 do
          assert.is_true(fences[i] < theirs, shown(store, theirs, fences))
        end
        assert.are.equal(WAITERS - 3, store:stats().local_handoffs)
      end
      t:expect_nothing_left()
    end)

  only_outside("a grant by message is handed on locally", function()
    local store, key = t:open { host = "luv" }, t:key()
    local mutex, order = store:mutex(key, { timeout = 30 }), {}
    local first
    together(1, function() first = assert(mutex:acquire()) end)
    together(6, function(i)
      if i == 6 then
        t:queued(key, 1)
        assert.is_true(first:release())
        return
      end
      local lease = assert(mutex:acquire())
      order[#order + 1] = i
      assert.is_true(lease:held())
      assert.is_true(lease:release())
    end)
    assert.are.same({ 1, 2, 3, 4, 5 }, order)
    if t.subject.hands_over then
      assert.are.equal(4, store:stats().local_handoffs)
    end
    t:expect_nothing_left()
  end)

  only_outside("what inspect shows, right after a renewal", function()
    local store, key = t:open { host = "luv" }, t:key()
    local mutex = store:mutex(key, { fair = false, ttl = 1.2, timeout = 30 })
    local fences = {}
    together(4, function(i)
      local lease = assert(mutex:acquire())
      fences[i] = lease.fence
      repeat until i < 4
          or assert(store:inspect(key)).holders[1].fence == lease.fence
      assert.is_true(lease:release())
    end)
    assert.is_true(fences[4] > fences[3])
    t:expect_nothing_left()
  end)

  it("local_handoffs that is no number of turns", function()
    local store, key = t:open(), t:key()
    for _, bad in ipairs { -1, 1001, 0.5, math.huge, 0 / 0 } do
      local got, message, code = store:mutex(key,
        { fair = false, local_handoffs = bad })
      assert.is_nil(got)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find("local_handoffs", 1, true))
    end
    assert.has_error(function()
      store:mutex(key, { local_handoffs = "many" })
    end)
    local lease = assert(store:lock(key, { fair = false, local_handoffs = 0 }))
    assert.is_true(lease:release())
  end)
end
