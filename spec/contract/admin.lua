-- Inspection and administration: inspect, list, break_lock and revoke; and
-- guarded writes.

local assert = require "luassert"

local function code_of(_, _, code)
  return code
end

return function(t, it, timed)
  it("inspect of a free key", function()
    local store, key = t:open(), t:key()
    local found, message = store:inspect(key)
    assert.is_nil(found)
    assert.is_nil(message)
    assert(store:lock(key)):release()
    found, message = store:inspect(key)
    assert.is_nil(found)
    assert.is_nil(message)
    assert.are.equal("invalid", code_of(store:inspect("")))
    assert.has_error(function() store:inspect() end)
  end)

  it("inspect: the holder, and the waiters in order", function()
    local store, key, peers = t:open { name = "me" }, t:key(), {}
    local lease = assert(store:lock(key, { ttl = 20, value = "what\0for" }))
    for i, how in ipairs { "write", "read" } do
      peers[i] = t:peer()
      peers[i]:start("l = assert(store:rwlock('%s', { owner = 'peer%d' })"
        .. ":%s():acquire{ timeout = 20 })", key, i, how)
      t:queued(key, i)
    end
    local found = assert(store:inspect(key))
    assert.are.equal(key, found.key)
    assert.are.equal("exclusive", found.mode)
    assert.is_nil(found.permits)
    assert.are.equal(1, #found.holders)
    local holder = found.holders[1]
    assert.are.equal("me", holder.owner)
    assert.are.equal(lease.fence, holder.fence)
    assert.is_true(holder.ttl > 5 and holder.ttl <= 20.1, holder.ttl)
    assert.is_true(holder.since >= 0 and holder.since < 15, holder.since)
    assert.is_nil(holder.permits)
    assert.are.equal("what\0for", holder.value)
    assert.are.equal(2, #found.waiters)
    for i, mode in ipairs { "exclusive", "shared" } do
      local waiter = found.waiters[i]
      assert.are.equal("peer" .. i, waiter.owner)
      assert.are.equal(mode, waiter.mode)
      assert.is_true(waiter.waited >= 0 and waiter.waited < 15, waiter.waited)
    end
    lease:release()
    for i = 1, 2 do
      peers[i]:finish()
      peers[i]:run("l:release()")
    end
    t:expect_nothing_left()
  end)

  it("inspect: names as they were given, whatever bytes they have", function()
    local longest = "caf\195\169 / " .. ("x"):rep(87)
    for _, name in ipairs { "web 3", "b\195\188ro-1", "a~b:_%\255", longest } do
      local given = #name <= 64 and name or "me"
      local store, key = t:open { name = given }, t:key()
      local lease = assert(store:lock(key, { owner = name }))
      assert.are.equal(name, lease.owner)
      assert.are.equal(name, assert(store:inspect(key)).holders[1].owner)
      local peer = t:peer()
      peer:start("l = assert(store:lock(%q, { owner = %q, timeout = 20 }))",
        key, name)
      t:queued(key, 1)
      assert.are.equal(name, store:inspect(key).waiters[1].owner)
      if t.subject.portable then
        lease = assert(t:open():attach(assert(lease:detach())))
        assert.are.equal(name, lease.owner)
      end
      assert(lease:release())
      peer:finish()
      peer:run("l:release()")
      lease = assert(store:lock(key))
      assert.are.equal(given, store:inspect(key).holders[1].owner)
      local _, message = t:open():try_lock(key)
      assert.is_truthy(message:find("held by " .. given, 1, true), message)
      lease:release()
    end
    t:expect_nothing_left()
  end)

  if math.type then
    it("inspect: whole numbers are integers", function()
      local store, key = t:open(), t:key()
      local lease = assert(assert(store:semaphore(key, 3)):acquire())
      local found = assert(store:inspect(key))
      for _, number in ipairs { lease.fence, lease.permits, found.permits,
        found.holders[1].fence, found.holders[1].permits } do
        assert.are.equal("integer", math.type(number))
      end
      lease:release()
      t:expect_nothing_left()
    end)
  end

  it("inspect: a published value, and none where it is empty", function()
    local store, key = t:open(), t:key()
    for _, value in ipairs { "a", "" } do
      local lease = assert(store:lock(key, { value = value }))
      local holder = assert(store:inspect(key)).holders[1]
      assert.are.equal(value ~= "" and value or nil, holder.value)
      lease:release()
    end
    local lease = assert(assert(store:election(key)):campaign())
    assert.is_nil(assert(store:inspect(key)).holders[1].value)
    lease:release()
    t:expect_nothing_left()
  end)

  it("inspect: a semaphore's waiter, while a writer holds the key", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key))
    peer:start("l = store:semaphore('%s', 5):acquire{ permits = 2,"
      .. " timeout = 20 }", key)
    t:queued(key, 1)
    local found = assert(store:inspect(key))
    assert.are.equal("exclusive", found.mode)
    assert.are.equal("semaphore", found.waiters[1].mode)
    assert.are.equal(2, found.waiters[1].permits)
    lease:release()
    peer:finish()
    peer:run("l:release()")
  end)

  it("inspect of readers and of a semaphore", function()
    local store, key = t:open(), t:key()
    local rw = assert(store:rwlock(key, { owner = "r" })):read()
    local one, two = assert(rw:acquire()), assert(rw:acquire())
    local found = assert(store:inspect(key))
    assert.are.equal("shared", found.mode)
    assert.is_nil(found.permits)
    assert.are.equal(2, #found.holders)
    assert.is_nil(found.holders[1].permits)
    local fences = { [found.holders[1].fence] = true,
      [found.holders[2].fence] = true }
    assert.is_true(fences[one.fence] and fences[two.fence])
    one:release()
    assert.are.equal(1, #assert(store:inspect(key)).holders)
    two:release()
    local semaphore = assert(store:semaphore(key, 5, { owner = "s" }))
    local lease = assert(semaphore:acquire { permits = 3 })
    found = assert(store:inspect(key))
    assert.are.equal("semaphore", found.mode)
    assert.are.equal(5, found.permits)
    assert.are.equal(1, #found.holders)
    assert.are.equal(3, found.holders[1].permits)
    assert.are.equal("s", found.holders[1].owner)
    local peer = t:peer()
    peer:start("l = assert(store:semaphore('%s', 5):acquire"
      .. "{ permits = 4, timeout = 20 })", key)
    t:queued(key, 1)
    found = assert(store:inspect(key))
    assert.are.equal(1, #found.waiters)
    assert.are.equal("semaphore", found.waiters[1].mode)
    assert.are.equal(4, found.waiters[1].permits)
    lease:release()
    peer:finish()
    peer:run("l:release()")
    t:expect_nothing_left()
  end)

  it("list: keys that are held or waited for, page by page", function()
    local store, key, leases = t:open(), t:key(), {}
    for i, tail in ipairs { "/a", "*?[", "-%", "x{}", "\255\0", "x{}y" } do
      leases[i] = assert(store:lock(key .. tail))
    end
    leases[#leases + 1] =
      assert(assert(store:rwlock(key .. "r")):read():acquire())
    local function list(prefix, limit)
      local found, count, cursor, pages = {}, 0, nil, 0
      repeat
        local keys, more, code =
          store:list(prefix, { cursor = cursor, limit = limit })
        assert(keys, code and more)
        assert.is_nil(code)
        -- Redis gives what it finds in so many names, or a few more.
        assert.is_true(#keys <= (limit or 1000)
          or t.subject.name:find("^redis") ~= nil)
        for _, one in ipairs(keys) do
          count = count + (found[one] and 0 or 1)
          found[one] = true
        end
        cursor, pages = more, pages + 1
      until not cursor
      return count, found, pages
    end
    for _, limit in ipairs { 1, 2, 1000 } do
      local count, found = list(key, limit)
      assert.are.equal(#leases, count)
      for _, lease in ipairs(leases) do
        assert.is_true(found[lease.key], lease.key)
      end
    end
    assert.are.equal(2, (list(key .. "x")))
    assert.are.equal(1, (list(key .. "*")))
    assert.are.equal(0, (list(key .. "?")))
    assert.is_true(list() >= #leases)
    for _, lease in ipairs(leases) do lease:release() end
    assert.are.equal(0, (list(key)))
    assert.has_error(function() store:list(key, { count = 1 }) end)
    assert.has_error(function() store:list(1) end)
    for _, bad in ipairs { 0, 1001, 1.5 } do
      assert.are.equal("invalid", code_of(store:list(key, { limit = bad })))
    end
    t:expect_nothing_left()
  end)

  it("list: a cursor that no store gave", function()
    local store, key = t:open(), t:key()
    for _, bad in ipairs { "garbage", "/", "/%zz", "k", "-1", " 1", "1x", "1\0",
      ("9"):rep(40) } do
      local keys, message, code = store:list(key, { cursor = bad })
      assert.is_nil(keys, bad)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find("cursor", 1, true), message)
    end
  end)

  it("break_lock: the next one comes in, the holder sees lost", function()
    local a, b, key, peer = t:open(), t:open(), t:key(), t:peer()
    local lease = assert(a:lock(key, { ttl = 2 }))
    peer:start("l = assert(store:lock('%s', { timeout = 20 })) return l.fence",
      key)
    t:queued(key, 1)
    local told
    lease:on_lost(function(_, reason) told = reason end)
    assert.is_true(b:break_lock(key))
    assert.is_true(tonumber(peer:finish()) > lease.fence)
    assert.is_true(lease:wait_lost(5))
    assert.is_false(lease:held())
    t:eventually("on_lost", function()
      a:ping()
      return told
    end)
    assert.are.equal("lost", code_of(lease:release()))
    peer:run("assert(l:held()) assert(l:release())")
    t:expect_nothing_left()
  end)

  -- Held for a while before, so that what tells of a break is set up.
  it("break_lock: an extend that is called after it is lost", function()
    local a, b, keys, leases = t:open(), t:open(), {}, {}
    for i = 1, 30 do
      keys[i] = t:key()
      leases[i] = assert(a:lock(keys[i]))
    end
    t:sleep(0.4)
    assert(b:ping())
    for i, lease in ipairs(leases) do
      assert.is_true(b:break_lock(keys[i]))
      assert.are.equal("lost", code_of(lease:extend()))
      assert.is_false(lease:held())
    end
    t:expect_nothing_left()
  end)

  it("break_lock of readers, of permits, and of nothing", function()
    local a, b, key = t:open(), t:open(), t:key()
    assert.is_true(b:break_lock(key))
    local rw = assert(a:rwlock(key))
    local one = assert(rw:read():acquire { ttl = 2 })
    local two = assert(rw:read():acquire { ttl = 2 })
    assert.is_true(b:break_lock(key))
    local writer = assert(assert(b:rwlock(key)):write():acquire())
    assert.is_true(writer.fence > two.fence)
    assert.is_true(one:wait_lost(5) and two:wait_lost(5))
    writer:release()
    local semaphore = assert(a:semaphore(key, 4))
    local permits = assert(semaphore:acquire { permits = 4, ttl = 2 })
    assert.is_true(b:break_lock(key))
    assert(assert(b:semaphore(key, 9)):acquire { permits = 9 }):release()
    assert.is_true(permits:wait_lost(5))
    t:expect_nothing_left()
  end)

  timed("revoke: the holder is asked, and goes on", function()
    local a, b, key = t:open(), t:open(), t:key()
    assert.is_true(b:revoke(key)) -- nobody there
    local lease, told = assert(a:lock(key, { ttl = 2 })), 0
    assert.is_false(lease:revoked())
    lease:on_revoke(function(one, reason)
      assert.are.equal(lease, one)
      assert.are.equal("string", type(reason))
      told = told + 1
    end)
    assert.is_true(b:revoke(key))
    t:eventually("asked", function()
      a:ping()
      return told > 0
    end, 5)
    assert.is_true(lease:revoked())
    assert.is_true(lease:held())
    lease:on_revoke(function() told = told + 10 end) -- late, told all the same
    a:ping()
    assert.are.equal(11, told)
    assert.is_true(lease:release())
    lease = assert(a:lock(key))
    assert.is_false(lease:revoked()) -- the next holder was not
    lease:release()
    assert.has_error(function() lease:on_revoke(1) end)
    t:expect_nothing_left()
  end)

  it("revoke: heard of by an extension, and by a detach", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    assert.is_true(b:revoke(key))
    t:eventually("heard by extend", function()
      assert(lease:extend())
      return lease:revoked()
    end, 5)
    local told
    lease:on_revoke(function() told = true end)
    a:ping()
    assert.is_true(told)
    assert(lease:release())
    if t.subject.portable then
      lease = assert(a:lock(key))
      assert.is_true(b:revoke(key))
      local text = assert(lease:detach())
      assert.is_true(lease:revoked())
      assert(assert(b:attach(text)):release())
    end
    t:expect_nothing_left()
  end)

  it("revoke: heard of at once by who has on_revoke", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, opts in ipairs { {}, { renew = false } } do
      for _, before in ipairs { true, false } do
        local lease, told = assert(a:lock(key, opts)), 0
        if before then assert.is_true(b:revoke(key)) end
        lease:on_revoke(function() told = told + 1 end)
        if not before then assert.is_true(b:revoke(key)) end
        t:eventually("told", function()
          a:ping()
          return told > 0
        end, 5)
        assert.is_true(lease:held())
        assert(lease:release())
        assert.are.equal(1, told)
      end
    end
    t:expect_nothing_left()
  end)

  it("revoke: the release tells who has on_revoke", function()
    local a, b, key = t:open(), t:open(), t:key()
    for _, hear in ipairs { "lock", "read" } do
      local kind = hear == "lock" and assert(a:mutex(key))
        or assert(a:rwlock(key)):read()
      local lease, told = assert(kind:acquire()), 0
      assert.is_true(b:revoke(key))
      if not t.subject.hears_late then -- their notice comes by itself
        t:eventually("heard", function() return lease:revoked() end, 5)
      end
      lease:on_revoke(function(one) told = told + (one == lease and 1 or 5) end)
      assert.is_true(lease:release())
      assert.are.equal(1, told)
      assert.is_true(lease:revoked())
      a:ping()
      assert.are.equal(1, told)
    end
    t:expect_nothing_left()
  end)

  timed("revoke of all readers, also in other processes", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local mine = assert(assert(store:rwlock(key)):read():acquire { ttl = 2 })
    peer:run("l = assert(store:rwlock('%s'):read():acquire{ ttl = 2 })"
      .. " l:on_revoke(function() l:release() end)", key)
    local watcher = t:open()
    assert.is_true(watcher:revoke(key))
    peer:run("for i = 1, 500 do if not l:held() then return end"
      .. " l:wait_lost(0.01) end error('never asked')")
    t:eventually("asked", function() return mine:revoked() end, 5)
    mine:release()
    assert(store:try_lock(key)):release()
    t:expect_nothing_left()
  end)

  local rows = t.subject.rows
  if not rows then
    it("fence_sql, unsupported, with a way to go", function()
      local store, key = t:open(), t:key()
      local lease = assert(store:lock(key))
      local sql, message, code = lease:fence_sql()
      assert.is_nil(sql)
      assert.are.equal("unsupported", code)
      assert.is_truthy(message:find("fence", 1, true), message)
      lease:release()
    end)
  else
    it("fence_sql: gives a row until the lock is somebody else's", function()
      local store, key = t:open(), t:key() .. "'%\0\\"
      local old = assert(store:lock(key))
      local sql = assert(old:fence_sql())
      assert.are.equal(1, rows(sql))
      old:release()
      assert.are.equal(1, rows(sql)) -- nobody came
      local new = assert(store:lock(key))
      assert.are.equal(0, rows(sql))
      assert.are.equal(1, rows(new:fence_sql()))
      assert.is_true(store:break_lock(key))
      assert.are.equal(0, rows(new:fence_sql()))
    end)

    it("fence_sql: also of readers and permits", function()
      local store, key = t:open(), t:key()
      local rw = assert(store:rwlock(key))
      local writer = assert(rw:write():acquire())
      local as_writer = assert(writer:fence_sql())
      assert.is_true(writer:downgrade())
      local other = assert(rw:read():acquire())
      assert.are.equal(0, rows(as_writer))
      assert.are.equal(1, rows(writer:fence_sql()))
      assert.are.equal(1, rows(other:fence_sql()))
      local sql = other:fence_sql()
      other:release()
      assert.are.equal(0, rows(sql))
      assert.are.equal(1, rows(writer:fence_sql()))
      writer:release()
      local permit = assert(assert(store:semaphore(t:key(), 3)):acquire())
      assert.are.equal(1, rows(permit:fence_sql()))
      permit:release()
      t:expect_nothing_left()
    end)
  end

  local guarded = t.subject.guarded
  if not guarded then
    it("guard, unsupported, with a way to go", function()
      local store, key = t:open(), t:key()
      local lease = assert(store:lock(key))
      local ok, message, code = lease:guard("SET", "a", "b")
      assert.is_nil(ok)
      assert.are.equal("unsupported", code)
      assert.is_truthy(message:find("fence", 1, true), message)
      lease:release()
    end)
    return
  end

  it("guard: writes while the lease is ours", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key))
    guarded.begin(lease, key)
    assert.are.equal(1, guarded.write(lease, key))
    assert.are.equal(2, guarded.write(lease, key))
    assert.has_error(function() lease:guard() end)
    assert.has_error(function() lease:guard("SET", {}) end)
    lease:release()
    assert.are.equal("lost", code_of(guarded.write(lease, key)))
    local reader = assert(assert(b:rwlock(key)):read():acquire())
    assert.are.equal(3, guarded.write(reader, key))
    guarded.finish(reader, key)
    reader:release()
    t:expect_nothing_left()
  end)

  timed("guard: refuses the late write of a holder whose time is over",
    function()
      local a, b, key = t:open(), t:open(), t:key()
      local old = assert(a:lock(key, { ttl = 0.7, renew = false }))
      guarded.begin(old, key)
      assert.are.equal(1, guarded.write(old, key))
      local new = assert(b:lock(key, { timeout = 10 }))
      assert.are.equal(2, guarded.write(new, key))
      assert.are.equal("lost", code_of(guarded.write(old, key)))
      assert.are.equal(3, guarded.write(new, key))
      guarded.finish(new, key)
      new:release()
      t:expect_nothing_left()
    end)

  it("guard: refuses the write of a holder that was broken", function()
    local a, b, key = t:open(), t:open(), t:key()
    local old = assert(a:lock(key))
    guarded.begin(old, key)
    assert.are.equal(1, guarded.write(old, key))
    assert.is_true(b:break_lock(key))
    local new = assert(b:lock(key))
    assert.are.equal(2, guarded.write(new, key))
    assert.are.equal("lost", code_of(guarded.write(old, key)))
    assert.are.equal(3, guarded.write(new, key))
    assert.is_false(old:held())
    guarded.finish(new, key)
    new:release()
    t:expect_nothing_left()
  end)

  if t.subject.delete then
    it("guard: the server refuses it while we still believe", function()
      local a, b, key = t:open(), t:open(), t:key()
      local old = assert(a:lock(key))
      t.subject.delete(key) -- nobody is told
      local new = assert(b:lock(key))
      assert.is_true(old:held())
      assert.are.equal(1, guarded.write(new, key))
      assert.are.equal("lost", code_of(guarded.write(old, key)))
      assert.is_false(old:held())
      assert.are.equal(2, guarded.write(new, key))
      guarded.finish(new, key)
      new:release()
      t:expect_nothing_left()
    end)
  end
end
