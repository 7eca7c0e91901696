-- Read-write locks and semaphores.

local assert = require "luassert"
local dlock = require "dlock"

local function code_of(_, _, code)
  return code
end

return function(t, it, timed)
  local function read(store, key, opts)
    return assert(store:rwlock(key)):read():acquire(opts)
  end

  local function write(store, key, opts)
    return assert(store:rwlock(key)):write():acquire(opts)
  end

  local function try_read(store, key)
    return code_of(read(store, key, { timeout = 0 }))
  end

  local function try_write(store, key)
    return code_of(write(store, key, { timeout = 0 }))
  end

  it("a read-write lock: readers share, writers are alone", function()
    local a, b, key = t:open(), t:open(), t:key()
    local one, two = assert(read(a, key)), assert(read(b, key))
    assert.are.equal("shared", one.mode)
    assert.is_nil(one.permits)
    assert.is_true(two.fence > one.fence)
    assert.is_true(one:held() and two:held())
    assert.are.equal("busy", try_write(a, key))
    assert.are.equal("busy", code_of(b:try_lock(key))) -- a mutex writes too
    assert.is_true(assert(a:rwlock(key)):write():locked())
    assert.is_true(one:release())
    assert.are.equal("busy", try_write(a, key))
    assert.is_true(two:release())
    local writer = assert(write(a, key))
    assert.are.equal("exclusive", writer.mode)
    assert.is_true(writer.fence > two.fence)
    assert.are.equal("busy", try_read(b, key))
    assert.are.equal("busy", try_write(b, key))
    writer:release()
    t:expect_nothing_left()
  end)

  it("first come, first served, readers and writers", function()
    local store, key, peers = t:open(), t:key(), {}
    local lease = assert(write(store, key))
    for i, how in ipairs { "read", "read", "write", "read" } do
      peers[i] = t:peer()
      peers[i]:start("l = assert(store:rwlock('%s'):%s():acquire"
        .. "{ timeout = 60 }) return l.fence", key, how)
      t:queued(key, i)
    end
    lease:release()
    local first = tonumber(peers[1]:finish())
    local second = tonumber(peers[2]:finish())
    assert.is_true(lease.fence < math.min(first, second))
    -- Nobody passes the writer that waits, reader or not.
    assert.are.equal("busy", try_read(store, key))
    peers[1]:run("l:release()")
    assert.are.equal("busy", try_read(store, key))
    peers[2]:run("l:release()")
    local third = tonumber(peers[3]:finish())
    assert.is_true(third > math.max(first, second))
    assert.are.equal("busy", try_read(store, key))
    peers[3]:run("l:release()")
    assert.is_true(tonumber(peers[4]:finish()) > third)
    assert(read(store, key)):release() -- nobody else waits
    peers[4]:run("l:release()")
    t:expect_nothing_left()
  end)

  it("a writer that gets in although readers never pause", function()
    local store, key, peers = t:open(), t:key(), {}
    for i = 1, 3 do
      peers[i] = t:peer()
      peers[i]:run("rw = store:rwlock('%s'):read()", key)
    end
    for i = 1, 3 do
      -- They go on until they have seen that the writer is in.
      peers[i]:start("local n, seen = 0 repeat n = n + 1"
        .. " local l = assert(rw:acquire{ timeout = 60 })"
        .. " seen = store:mutex('%s-in'):locked() l:release()"
        .. " until seen or n >= 1000000 return n", key)
    end
    t:eventually("readers", function()
      return assert(store:rwlock(key)):read():locked()
    end)
    local lease = assert(write(store, key, { timeout = 15 }))
    local mark = assert(store:lock(key .. "-in"))
    lease:release()
    for i = 1, 3 do
      assert.is_true(tonumber((peers[i]:finish())) < 1000000)
    end
    mark:release()
    t:expect_nothing_left()
  end)

  it("the end of readers who were killed", function()
    local store, key, peer = t:open(), t:key(), t:peer(2)
    local mine = assert(read(store, key))
    peer:run("l = assert(store:rwlock('%s'):read():acquire{ ttl = 1 })", key)
    peer:kill()
    mine:release()
    assert(write(store, key, { timeout = 10 })):release()
    t:expect_nothing_left(10)
  end)

  timed("a time-out of a writer, which leaves nothing", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(read(a, key))
    assert(b:ping()) -- connecting may take longer than the time-out
    assert.are.equal("timeout", code_of(write(b, key, { timeout = 0.2 })))
    local other = assert(read(b, key, { timeout = 0 }))
    other:release()
    lease:release()
    t:expect_nothing_left()
  end)

  it("a cancel of a writer, which leaves nothing", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(read(a, key))
    local rw = assert(b:rwlock(key))
    local stop = t:later(0.1, function()
      rw:read():cancel() -- is another object
      rw:write():cancel()
    end)
    assert.are.equal("cancelled",
      code_of(rw:write():acquire { timeout = 60 }))
    stop()
    assert(read(b, key, { timeout = 0 })):release()
    lease:release()
    t:expect_nothing_left()
  end)

  timed("min_hold of a reader", function()
    local a, b, key = t:open(), t:open(), t:key()
    local start = t:now()
    assert(read(a, key, { min_hold = 0.7 })):release()
    t:is_kept(b:rwlock(key):write(), start, 0.69)
    assert(write(b, key, { timeout = 10 })):release()
    assert.is_true(t:now() - start >= 0.69)
    t:expect_nothing_left()
  end)

  it("reading again while a writer waits", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local rw = assert(store:rwlock(key, { reentrant = true }))
    local outer = assert(rw:read():acquire())
    peer:start("l = assert(store:rwlock('%s'):write():acquire"
      .. "{ timeout = 60 })", key)
    t:queued(key, 1)
    local inner = assert(rw:read():acquire { timeout = 0 })
    assert.are.equal(outer.fence, inner.fence)
    -- It would wait for itself.
    local got, message, code = rw:write():acquire()
    assert.is_nil(got)
    assert.are.equal("unsupported", code)
    assert.is_truthy(message:find("downgrade", 1, true), message)
    outer:release()
    assert.is_true(inner:held())
    inner:release()
    peer:finish()
    peer:run("l:release()")
    t:expect_nothing_left()
  end)

  it("reading by the process that holds the writer", function()
    local store, key = t:open(), t:key()
    local rw = assert(store:rwlock(key, { reentrant = true }))
    local writer = assert(rw:write():acquire())
    local reader = assert(rw:read():acquire { timeout = 0 })
    local ok, message, code = writer:downgrade()
    assert.is_nil(ok)
    assert.are.equal("unsupported", code, message)
    reader:release()
    assert.is_true(writer:downgrade())
    local again = assert(rw:read():acquire { timeout = 0 })
    assert.are.equal(writer.fence, again.fence)
    assert.are.equal("unsupported", code_of(rw:write():acquire()))
    again:release()
    writer:release()
    t:expect_nothing_left()
  end)

  it("with, reading and writing", function()
    local store, key = t:open(), t:key()
    local rw = assert(store:rwlock(key))
    local ok, mode = rw:read():with(function(lease)
      assert.are.equal("busy", try_write(store, key))
      return lease.mode
    end)
    assert.is_true(ok)
    assert.are.equal("shared", mode)
    ok, mode = rw:write():with({ ttl = 5 }, function(lease)
      return lease.mode
    end)
    assert.is_true(ok)
    assert.are.equal("exclusive", mode)
    assert.are.equal("dlock.rwlock: '" .. key .. "'", tostring(rw))
    assert.are.equal(rw:read(), rw:read())
    t:expect_nothing_left()
  end)

  it("downgrade, without a gap", function()
    local store, key = t:open(), t:key()
    local reader, writer = t:peer(), t:peer()
    local lease = assert(write(store, key))
    reader:start("l = assert(store:rwlock('%s'):read():acquire"
      .. "{ timeout = 60 }) return l.fence", key)
    t:queued(key, 1)
    writer:start("l = assert(store:rwlock('%s'):write():acquire"
      .. "{ timeout = 60 }) return l.fence", key)
    t:queued(key, 2)
    assert.is_true(lease:downgrade())
    assert.are.equal("shared", lease.mode)
    assert.is_true(lease:held())
    local fence = tonumber(reader:finish()) -- came in beside us
    assert.is_true(fence > lease.fence)
    assert.is_true(lease:held())
    assert(lease:extend())
    assert.are.equal("unsupported", code_of(lease:downgrade()))
    reader:run("l:release()")
    assert.are.equal("busy", try_write(store, key))
    assert.is_true(lease:release())
    assert.is_true(tonumber(writer:finish()) > fence)
    writer:run("l:release()")
    t:expect_nothing_left()
  end)

  it("downgrade of a lease that was lost", function()
    local store, key = t:open(), t:key()
    local lease = assert(write(store, key))
    lease:release()
    assert.are.equal("lost", code_of(lease:downgrade()))
    local short = assert(write(store, key, { ttl = 0.2, renew = false }))
    t:sleep(0.3)
    assert.are.equal("lost", code_of(short:downgrade()))
    local permit = assert(assert(store:semaphore(key, 2)):acquire())
    local _, message, code = permit:downgrade()
    assert.are.equal("unsupported", code)
    assert.is_truthy(message:find("rw:write()", 1, true), message)
    permit:release()
    t:expect_nothing_left()
  end)

  timed("a semaphore, as many as it has permits", function()
    local a, b, key = t:open(), t:open(), t:key()
    local here, there = assert(a:semaphore(key, 3)), assert(b:semaphore(key, 3))
    local two = assert(here:acquire { permits = 2 })
    assert.are.equal("semaphore", two.mode)
    assert.are.equal(2, two.permits)
    assert.are.equal("busy", code_of(there:try_acquire { permits = 2 }))
    local one = assert(there:acquire())
    assert.are.equal(1, one.permits)
    assert.is_true(one.fence > two.fence)
    assert.are.equal("busy", code_of(here:try_acquire()))
    assert.are.equal("busy", code_of(a:try_lock(key)))
    assert.are.equal("timeout", code_of(there:acquire { timeout = 0.1 }))
    two:release()
    assert(here:acquire { permits = 2 }):release()
    one:release()
    assert(there:acquire { permits = 3 }):release()
    t:expect_nothing_left()
  end)

  it("permits that nobody holds", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer(2)
    local here, there = assert(a:semaphore(key, 5)), assert(b:semaphore(key, 5))
    assert.are.equal(5, here:available())
    local two = assert(there:acquire { permits = 2 })
    local one = assert(here:acquire())
    assert.are.equal(2, here:available())
    assert.are.equal(2, there:available())
    peer:start("l = assert(store:semaphore('%s', 5):acquire"
      .. "{ permits = 4, timeout = 60 })", key)
    t:queued(key, 1)
    assert.are.equal(2, here:available()) -- a waiter has none
    two:release()
    peer:finish()
    assert.are.equal(0, here:available())
    one:release()
    assert.are.equal(1, here:available())
    peer:kill()
    t:eventually("the end of a killed holder's permits", function()
      return here:available() == 5
    end, 40)
    for _, other in ipairs { a:mutex(key), a:rwlock(key):read() } do
      local lease = assert(other:acquire())
      assert.are.equal(0, there:available())
      lease:release()
    end
    assert.has_error(function() here:available {} end)
    t:expect_nothing_left(10)
  end)

  it("permits of another number by resize, once the old holds are over",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local here, there = assert(a:semaphore(key, 2)),
        assert(b:semaphore(key, 2))
      local one, two = assert(here:acquire()), assert(here:acquire())
      assert.is_true(here:resize(1))
      assert.are.equal(0, here:available())
      assert.are.equal(0, there:available())
      assert.is_true(one:held() and two:held())
      assert.are.equal("invalid", code_of(here:try_acquire()))
      assert.are.equal("busy", code_of(there:try_acquire()))
      one:release()
      assert.are.equal("invalid", code_of(here:try_acquire()))
      assert.are.equal(1, there:available())
      two:release()
      one = assert(here:acquire())
      assert.are.equal("busy", code_of(here:try_acquire()))
      assert.are.equal("invalid", code_of(there:try_acquire()))
      assert.are.equal("invalid", code_of(here:try_acquire { permits = 2 }))
      assert.is_true(there:resize(1))
      assert.are.equal("busy", code_of(there:try_acquire()))
      one:release()
      assert.is_true(there:resize(3))
      assert(there:acquire { permits = 3 }):release()
      t:expect_nothing_left()
    end)

  it("a wait for permits, which goes on with the old number of them",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local semaphore = assert(a:semaphore(key, 2))
      local writer = assert(write(b, key))
      local stop = t:later(0.2, function()
        assert(semaphore:resize(3))
        assert(b:break_lock(key))
      end)
      local lease = assert(semaphore:acquire { timeout = 60 })
      stop()
      assert.are.equal("invalid", code_of(semaphore:try_acquire()))
      assert(assert(b:semaphore(key, 2)):try_acquire()):release()
      lease:release()
      writer:release()
      assert(semaphore:acquire { permits = 3 }):release()
      t:expect_nothing_left()
    end)

  it("permits that cannot be", function()
    local store, key = t:open(), t:key()
    for _, bad in ipairs { 0, -1, 1.5, 2147483648, 0 / 0, math.huge } do
      for _, call in ipairs { function() return store:semaphore(key, bad) end,
          function() return store:semaphore(key, 2):resize(bad) end } do
        local got, message, code = call()
        assert.is_nil(got)
        assert.are.equal("invalid", code)
        assert.is_truthy(message:find("permits", 1, true), message)
      end
    end
    local semaphore = assert(store:semaphore(key, 2))
    assert.has_error(function() semaphore:resize() end)
    assert.has_error(function() semaphore:resize("2") end)
    assert.has_error(function() semaphore:resize(2, {}) end)
    for _, bad in ipairs { 3, 0, 0.5 } do
      local got, message, code = semaphore:acquire { permits = bad }
      assert.is_nil(got)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find("permits", 1, true), message)
    end
    assert.has_error(function() store:semaphore(key) end)
    assert.has_error(function() store:semaphore(key, "2") end)
    assert.has_error(function() semaphore:acquire { permits = "1" } end)
    assert.has_error(function() store:lock(key, { permits = 1 }) end)
    assert.has_error(function()
      store:semaphore(key, 2, { reentrant = true })
    end)
    local most = assert(store:semaphore(key, 2147483647))
    assert(most:acquire { permits = 2147483647 }):release()
    t:expect_nothing_left()
  end)

  it("a semaphore's queue: a large request is not passed by", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local semaphore = assert(store:semaphore(key, 3))
    local lease = assert(semaphore:acquire())
    peer:start("l = assert(store:semaphore('%s', 3):acquire"
      .. "{ permits = 3, timeout = 60 })", key)
    t:queued(key, 1)
    assert.are.equal("busy", code_of(semaphore:try_acquire()))
    lease:release()
    peer:finish()
    peer:run("l:release()")
    t:expect_nothing_left()
  end)

  timed("each hold of a semaphore, which ends by itself", function()
    local store, key, peer = t:open(), t:key(), t:peer(2)
    local semaphore = assert(store:semaphore(key, 3))
    local mine = assert(semaphore:acquire { ttl = 1 })
    peer:run("l = assert(store:semaphore('%s', 3):acquire"
      .. "{ permits = 2, ttl = 1 })", key)
    assert.are.equal("busy", code_of(semaphore:try_acquire()))
    peer:kill()
    local two = assert(semaphore:acquire { permits = 2, timeout = 10 })
    assert.is_true(mine:held())
    two:release()
    mine:release()
    t:expect_nothing_left(10)
  end)

  it("another number of permits, which is invalid while others are there",
    function()
      local store, key = t:open(), t:key()
      local three, five = assert(store:semaphore(key, 3)),
        assert(store:semaphore(key, 5))
      local lease = assert(three:acquire())
      for _, timeout in ipairs { 0, 1 } do
        local got, message, code = five:acquire { timeout = timeout }
        assert.is_nil(got)
        assert.are.equal("invalid", code, message)
        assert.is_truthy(message:find("limit", 1, true), message)
        assert.is_truthy(message:find("'" .. key .. "'", 1, true), message)
      end
      assert.are.equal("invalid", code_of(read(store, key)))
      assert(three:acquire()):release()
      lease:release()
      lease = assert(five:acquire { permits = 5 })
      lease:release()
      t:expect_nothing_left()
    end)

  it("another number of permits, which is invalid while others wait",
    function()
      local store, key, peer = t:open(), t:key(), t:peer()
      local lease = assert(store:lock(key))
      peer:start("l = assert(store:semaphore('%s', 3):acquire"
        .. "{ timeout = 60 })", key)
      t:queued(key, 1)
      assert.are.equal("invalid", code_of(assert(store:semaphore(key, 5))
        :acquire { timeout = 60 }))
      assert.are.equal("invalid", try_read(store, key))
      assert.are.equal("busy",
        code_of(assert(store:semaphore(key, 3)):try_acquire()))
      lease:release()
      peer:finish()
      peer:run("l:release()")
      t:expect_nothing_left()
    end)

  it("another number of permits, which is invalid once no writer is between",
    function()
      local store, key = t:open(), t:key()
      local writer, five, same = t:peer(), t:peer(), t:peer()
      local lease = assert(assert(store:semaphore(key, 3)):acquire())
      -- While the writer waits the others have to come.
      for _, peer in ipairs { writer, five, same } do
        peer:run("assert(store:ping())")
      end
      writer:start("return select(3, store:rwlock('%s'):write():acquire"
        .. "{ timeout = 3 })", key)
      t:queued(key, 1)
      for i, peer in ipairs { five, same } do
        peer:start("return select(3, store:semaphore('%s', 5):acquire"
          .. "{ timeout = 60 })", key)
        t:queued(key, 1 + i)
      end
      assert.are.equal("timeout", writer:finish())
      assert.are.equal("invalid", five:finish())
      assert.are.equal("invalid", same:finish())
      lease:release()
      t:expect_nothing_left()
    end)

  it("permits asked of a lock that becomes a reader's", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(write(store, key))
    peer:start("return select(3, store:semaphore('%s', 3):acquire"
      .. "{ timeout = 60 })", key)
    t:queued(key, 1)
    assert.is_true(lease:downgrade())
    assert.are.equal("invalid", peer:finish())
    assert.are.equal("invalid",
      code_of(assert(store:semaphore(key, 3)):try_acquire()))
    lease:release()
    t:expect_nothing_left()
  end)

  it("a canceller of a wait for permits", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(assert(a:semaphore(key, 2)):acquire { permits = 2 })
    local canceller = dlock.canceller()
    local stop = t:later(0.1, function() canceller:cancel() end)
    assert.are.equal("cancelled", code_of(assert(b:semaphore(key, 2)):acquire {
      timeout = 20, cancel = canceller,
    }))
    stop()
    assert.are.equal(0, t.subject.waiters(key))
    lease:release()
    t:expect_nothing_left()
  end)

  if t.subject.foreign then
    timed("foreign clients, who stay out while readers are in", function()
      local a, b, key = t:open(), t:open(), t:key()
      local one, two = assert(read(a, key)), assert(read(b, key))
      assert.is_false(t.subject.foreign(key))
      one:release()
      assert.is_false(t.subject.foreign(key))
      two:release()
      local writer = assert(write(a, key))
      assert.is_true(writer:downgrade())
      assert.is_false(t.subject.foreign(key))
      writer:release()
      local start = t:now()
      assert.is_true(t.subject.foreign(key)) -- for 300 ms
      t:is_kept(a:rwlock(key):read(), start, 0.29)
      assert(read(a, key, { timeout = 10 })):release()
      t:expect_nothing_left()
    end)
  end
end
