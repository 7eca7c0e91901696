-- What a store without queue, readers and permits (Redlock) says instead.
-- CASES are those of the contract that need them.

local assert = require "luassert"

local CASES = {}
for name in ([[
first come, first served
a try that does not push in before the waiters
500 waiters who are killed: the next that lives holds soon
a lease with min_hold that was broken is lost at its release
a ttl of more than a day that nothing renews, which is told once
inspect: the holder, and the waiters in order
inspect: names as they were given, whatever bytes they have
inspect: whole numbers are integers
inspect: a semaphore's waiter, while a writer holds the key
inspect of readers and of a semaphore
list: keys that are held or waited for, page by page
break_lock of readers, of permits, and of nothing
revoke: the release tells who has on_revoke
revoke of all readers, also in other processes
all of them, in the order given
detach and attach without renewal, which add no time
waiters of one process that let another process in
those who waited first, then another process, then the others
nobody who came later passes those who waited first
release { early = true }, which gives min_hold up
min_hold, also when its store is closed
min_hold, of which nothing is left though nobody comes
what min_hold keeps, which is seen as held and can be broken
permits that min_hold keeps, and those beside them
]]):gmatch("[^\n]+") do CASES[name] = true end

local function cases(t, it)
  local function refused(what, instead)
    return function(ok, message, code)
      assert.is_nil(ok, what)
      assert.are.equal("unsupported", code, message)
      assert(message:find(instead, 1, true), message)
    end
  end

  it("readers, writers, permits, guards, with what to use instead", function()
    local store, key = t:open(), t:key()
    local rw, some = store:rwlock(key), store:semaphore(key, 2)
    for _, how in ipairs { "acquire", "try_acquire" } do
      local one = rw:read()
      refused("a reader", "use a mutex")(one[how](one))
      refused("permits", "key#1")(some[how](some))
    end
    refused("permits", "redis://")(some:available())
    refused("a barrier", "redis://")(store:barrier(key, 2))
    refused("a latch", "redis://")(store:latch(key, 2))
    local lease = assert(rw:write():acquire())
    refused("downgrade", "use a mutex")(lease:downgrade())
    refused("guard", "check the fence")(lease:guard("SET", key, "x"))
    assert.is_true(lease:held())
    assert(lease:release())
    refused("fair", "redis://")(store:mutex(key, { fair = true }))
    refused("fair", "redis://")(store:lock(key, { fair = true }))
    assert(store:mutex(key, { fair = false }))
    t:expect_nothing_left()
  end)

  it("detach and attach without renewal, which add no time", function()
    local a, b, key = t:open(), t:open(), t:key()
    local lease = assert(a:lock(key, { ttl = 3, renew = false }))
    local before, left = t:now(), lease:remaining()
    lease = assert(b:attach(assert(lease:detach())))
    assert.is_true(t:now() + lease:remaining() <= before + left + 0.01)
    assert.is_truthy(lease:wait_lost(10))
    assert(a:lock(key, { timeout = 5 })):release()
    t:expect_nothing_left(5)
  end)

  it("nobody waits: inspect shows the holder only", function()
    local store, key, peer = t:open(), t:key(), t:peer()
    local lease = assert(store:lock(key))
    peer:start("l = assert(store:lock('%s', { timeout = 20 }))", key)
    t:queued(key, 1)
    local seen = assert(store:inspect(key))
    assert.are.equal(lease.fence, seen.holders[1].fence)
    assert.are.same({}, seen.waiters)
    assert(lease:release())
    peer:finish()
    peer:run("l:release()")
    t:expect_nothing_left()
  end)

  it("list: each key once, page by page", function()
    local store, key, cursor = t:open(), t:key(), nil
    local leases, seen = {}, {}
    for i = 1, 20 do leases[i] = assert(store:lock(key .. "-" .. i)) end
    repeat
      local page
      page, cursor = store:list(key, { cursor = cursor, limit = 3 })
      for _, one in ipairs(assert(page, cursor)) do seen[one] = true end
    until not cursor
    for i = 1, 20 do
      assert.is_true(seen[key .. "-" .. i], i)
      assert(leases[i]:release())
    end
    assert.are.same({}, (store:list(key)))
    local _, _, code = store:list(key, { cursor = "x" })
    assert.are.equal("invalid", code)
  end)

  it("min_hold keeps each vote, until it is given up or broken", function()
    local store, key = t:open(), t:key()
    local lease = assert(store:lock(key, { min_hold = 20 }))
    assert(lease:release())
    local _, _, code = store:try_lock(key)
    assert.are.equal("busy", code)
    assert.is_true(store:break_lock(key))
    lease = assert(store:lock(key, { min_hold = 20 }))
    assert(lease:release { early = true })
    assert(assert(store:try_lock(key)):release())
    t:expect_nothing_left()
  end)
end

return { CASES = CASES, cases = cases }
