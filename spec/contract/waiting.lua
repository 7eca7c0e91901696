-- Waiting in the queue, and all the ways in which a wait ends.

local assert = require "luassert"
local dlock = require "dlock"

return function(t, it, timed)
  it("a waiter that gets the lock when it is released", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key))
    peer:start("l = assert(store:lock('%s')); return l.fence", key)
    t:queued(key, 1)
    assert.is_true(lease:release())
    local fence = tonumber(peer:finish())
    assert.is_true(fence > lease.fence)
    assert.are.equal("busy", select(3, store:try_lock(key)))
    peer:run("l:release()")
    t:expect_nothing_left()
  end)

  it("first come, first served", function()
    local store, key, peers = t:open(), t:key(), {}
    local lease = assert(store:lock(key))
    for i = 1, 4 do
      peers[i] = t:peer()
      peers[i]:start("l = assert(store:lock('%s', { timeout = 60 }))"
        .. " local f = l.fence; l:release(); return f", key)
      t:queued(key, i)
    end
    lease:release()
    local last = lease.fence
    for i = 1, 4 do
      local fence = tonumber(peers[i]:finish())
      assert.is_true(fence > last, "out of order at " .. i)
      last = fence
    end
    t:expect_nothing_left()
  end)

  it("a try that does not push in before the waiters", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key))
    peer:start("l = assert(store:lock('%s', { timeout = 60 }))", key)
    t:queued(key, 1)
    lease:release()
    assert.are.equal("busy", select(3, store:try_lock(key)))
    peer:finish()
    peer:run("l:release()")
    assert(store:try_lock(key)):release()
  end)

  it("500 waiters who are killed: the next that lives holds soon",
    function()
      local store, key, dying = t:open(), t:key(), {}
      local lease = assert(store:lock(key))
      for i = 1, 5 do -- below the blocking API, which waits for one at a time
        dying[i] = t:peer(2)
        dying[i]:run("tickets = {} local _, client = next(store)"
          .. " local engine = require 'spec.support.engine'"
          .. " for i = 1, 100 do tickets[i] = engine.acquire(client.engine,"
          .. " '%s', { timeout = 60 }) end store:ping()", key)
      end
      t:queued(key, 500)
      local live = t:peer()
      live:start("l = assert(store:lock('%s', { timeout = 60 }))", key)
      t:queued(key, 501)
      for _, peer in ipairs(dying) do peer:kill() end
      t.subject.buried(key, 500)
      local start = t:now()
      assert(lease:release())
      live:finish()
      assert.is_true(t:now() - start < 4)
      live:run("l:release()")
      t:expect_nothing_left()
    end)

  it("a waiter that is killed and does not hold up the next", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key))
    local dead, live = t:peer(2), t:peer()
    dead:start("store:lock('%s', { timeout = 30 })", key)
    t:queued(key, 1)
    live:start("l = assert(store:lock('%s', { timeout = 30 }))", key)
    t:queued(key, 2)
    dead:kill()
    lease:release()
    live:finish(10)
    live:run("l:release()")
    t:expect_nothing_left(10)
  end)

  it("mutex:cancel()", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    local mutex = assert(b:mutex(key, { timeout = 20 }))
    for _, wait in ipairs {
      function() return mutex:acquire { timeout = 20 } end,
      function() return mutex:acquire() end,
    } do
      local stop = t:later(0.1, function() mutex:cancel() end)
      local got, message, code = wait()
      stop()
      assert.is_nil(got)
      assert.are.equal("cancelled", code, message)
      assert.is_truthy(message:find("^cancelled: .*" .. key), message)
    end
    lease:release()
    assert(mutex:acquire()):release()
    t:expect_nothing_left()
  end)

  timed("mutex:cancel() ends only the waits of that object", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    assert(b:ping()) -- connecting may take longer than the time-out
    local waiting, other = assert(b:mutex(key)), assert(b:mutex(key))
    local stop = t:later(0.1, function() other:cancel() end)
    local _, message, code = waiting:acquire { timeout = 0.5 }
    stop()
    assert.are.equal("timeout", code, message)
    lease:release()
  end)

  it("a canceller", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    local canceller = dlock.canceller()
    assert.is_false(canceller:cancelled())
    local stop = t:later(0.1, function() canceller:cancel() end)
    local got, _, code = b:lock(key, { timeout = 20, cancel = canceller })
    stop()
    assert.is_nil(got)
    assert.are.equal("cancelled", code)
    assert.is_true(canceller:cancelled())
    lease:release()
    -- It stays used: no wait begins, not even for a free lock.
    local message
    got, message, code = b:lock(key, { cancel = canceller })
    assert.is_nil(got)
    assert.are.equal("cancelled", code)
    assert.is_truthy(message:find(key, 1, true))
    assert.is_truthy(message:find("was used before", 1, true), message)
    assert(b:lock(key)):release()
    t:expect_nothing_left()
  end)

  local only_blocking = t.host.blocks and timed or function() end

  only_blocking("an error of a debug hook, as Ctrl-C raises it", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    local interrupt = setmetatable({}, { __tostring = function()
      return "interrupted!"
    end })
    local stop
    collectgarbage("stop") -- it is not the collector that withdraws it
    local start = t:now()
    local ok, problem = pcall(function()
      stop = t:later(0.1, function()
        debug.sethook()
        error(interrupt)
      end)
      assert(b:lock(key, { timeout = 20 }))
    end)
    local took = t:now() - start
    stop()
    local withdrawn = pcall(t.eventually, t, "no waiter", function()
      return t.subject.waiters(key) == 0
    end, 2)
    collectgarbage("restart")
    assert.is_false(ok)
    assert.are.equal(interrupt, problem)
    assert.is_true(took < 20, took) -- it was not its timeout that ended it
    assert.is_true(withdrawn)
    lease:release()
    assert(b:lock(key)):release()
    t:expect_nothing_left()
  end)

  it("a wait that outlasts many time-outs of others", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer()
    local lease = assert(a:lock(key))
    peer:start("l = assert(store:lock('%s', { timeout = math.huge }))", key)
    t:queued(key, 1)
    assert(b:ping())
    local timeouts = 0
    repeat
      local code = select(3, b:lock(key, { timeout = 0.02 }))
      -- A server that is slow just now may not have answered at all by then.
      assert.is_true(code == "timeout" or code == "unavailable", code)
      timeouts = timeouts + (code == "timeout" and 1 or 0)
    until timeouts == 10
    lease:release()
    peer:finish()
    peer:run("l:release()")
    t:expect_nothing_left()
  end)
end
