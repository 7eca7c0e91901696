-- dlock.all, from outside: half of the processes name two locks in one order,
-- half in the other, and all of them get through. With DLOCK_LONG=1 they go on
-- for 60 s.

local context = require "spec.contract.context"
local core = require "dlock.core"
local dlock = require "dlock"
local lockable = require "dlock.lockable"
local lot = require "spec.support.lot"
local loop = require "spec.support.loop"
local meanwhile = require "spec.support.meanwhile"
local process = require "spec.support.process"
local protect = require "dlock.protect"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"
local uv = require "luv"

local PROCESSES, TURNS = 8, 15
local SECONDS = os.getenv("DLOCK_LONG") == "1" and 60 or 0

local function run(first, second)
  local dir = server.new_dir()
  local path = dir .. "/number"
  server.write_file(path, ("%012d"):format(0))
  local a, b = context.new(first):key(), context.new(second):key() .. "b"
  local workers, sum = {}, 0
  for i = 1, PROCESSES do
    local args = i % 2 == 0 and { first.url(), a, second.url(), b }
      or { second.url(), b, first.url(), a }
    for _, more in ipairs { path, TURNS, SECONDS } do args[#args + 1] = more end
    workers[i] =
      process.spawn { file = "spec/contract/philosopher.lua", args = args }
  end
  for _, worker in ipairs(workers) do worker:write("go\n") end
  for _, worker in ipairs(workers) do
    local line = assert(worker:read_line(60 + SECONDS))
    sum = sum + assert(tonumber(line:match("^done (%d+)$")), line)
    assert.are.equal(0, (worker:wait()))
  end
  local last = tonumber(server.read_file(path))
  server.remove_dir(dir)
  return sum, last
end

describe("dlock.all in 8 processes, in opposite order", function()
  after_each(process.close_all)

  local queued = {} -- a Redlock has no queue: a crowd there is not in time
  for _, subject in ipairs(subjects) do
    if not subject.plain then queued[#queued + 1] = subject end
  end
  local stores = lot.two_stores(queued)
  for i, subject in ipairs(stores) do
    local other = stores[i % #stores + 1]
    it("on " .. subject.name, function()
      local sum, last = run(subject, subject)
      assert.is_true(sum >= PROCESSES * TURNS)
      assert.are.equal(sum, last)
    end)

    it("on " .. subject.name .. " and " .. other.name, function()
      local sum, last = run(subject, other)
      assert.is_true(sum >= PROCESSES * TURNS)
      assert.are.equal(sum, last)
    end)
  end
end)

describe("dlock.all, between two members,", function()
  it("notices a cancel", function()
    local store = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    local key = ("all:%d"):format(uv.os_getpid())
    local first, second = assert(store:mutex(key .. "1")),
      assert(store:mutex(key .. "2"))
    local both = dlock.all { first, second }
    local state = lockable.state(second)
    local take = state.take
    function state.take(...)
      both:cancel()
      return take(...)
    end
    local lease, message, code = both:acquire()
    assert.is_nil(lease)
    assert.are.equal("cancelled", code, message)
    state.take = take
    assert(both:try_acquire()):release() -- nothing of it was kept
    assert(store:close(1))
  end)

  it("keeps the min_hold of a member that was entered meanwhile", function()
    local store = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    local key = ("all:%d"):format(uv.os_getpid())
    local nested = { reentrant = true, min_hold = 60 }
    local first, second = assert(store:mutex(key .. "e", nested)),
      assert(store:mutex(key .. "f"))
    local state = lockable.state(second)
    local take, inner = state.take, nil
    function state.take(...)
      inner = inner or assert(first:try_acquire())
      return take(...)
    end
    local held = assert(store:lock(key .. "f"))
    local both = dlock.all { first, second }
    assert.are.equal("busy", (select(3, both:try_acquire())))
    assert(inner:release())
    assert.is_true(first:locked())
    assert(held:release())
    -- The same by another dlock.all: neither was given it.
    assert(store:break_lock(key .. "e"))
    held = assert(store:lock(key .. "f"))
    function state.take(...)
      state.take = take
      assert.are.equal("busy", (select(3, both:try_acquire())))
      return take(...)
    end
    assert.are.equal("busy", (select(3, both:try_acquire())))
    assert.is_false(first:locked())
    assert(held:release())
    assert(store:close(1))
  end)

  it("takes them in one order, whether a prefix is spelled or left out",
  function()
    local url = os.getenv("DLOCK_TEST_REDIS")
    local key, stores = ("all:%d"):format(uv.os_getpid()), {}
    local function open(prefix)
      local store = assert(dlock.open { url = url, prefix = prefix })
      stores[#stores + 1] = store
      return store
    end
    -- The prefixes, as they were taken.
    local function order(prefix)
      local taken, list = {}, {}
      for name, store in pairs { a = open("a:"), dlock = open(prefix) } do
        list[#list + 1] = assert(store:mutex(key))
        local state = lockable.state(list[#list])
        local take = state.take
        function state.take(...)
          taken[#taken + 1] = name
          return take(...)
        end
      end
      assert(dlock.all(list):acquire()):release()
      return taken
    end
    assert.are.same({ "a", "dlock" }, order("dlock:"))
    assert.are.same({ "a", "dlock" }, order(nil))
    for _, store in ipairs(stores) do assert(store:close(1)) end
  end)

  it("waits for as long as the member that waits longest", function()
    local store = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    local key = ("all:%d"):format(uv.os_getpid())
    local held = assert(store:lock(key .. "2"))
    local both = dlock.all { store:mutex(key .. "1", { timeout = 0.01 }),
      store:mutex(key .. "2", { timeout = 0.7 }) }
    local begun = core.now()
    local _, message, code = both:acquire()
    assert.are.equal("timeout", code, message)
    assert.is_true(core.now() - begun >= 0.7)
    assert(held:release())
    assert(store:close(1))
  end)

  it("is a try, and busy when one was lost meanwhile", function()
    local store = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    local key = ("all:%d"):format(uv.os_getpid())
    local first, second = assert(store:mutex(key .. "1")),
      assert(store:mutex(key .. "2"))
    local state = lockable.state(second)
    local take, taken = state.take, 0
    function state.take(...)
      taken = taken + 1
      uv.sleep(150)
      return take(...)
    end
    local lease, message, code = dlock.all { first, second }:try_acquire {
      ttl = 0.1, renew = false }
    assert.is_nil(lease)
    assert.are.equal("busy", code)
    assert.matches("^busy: ", message)
    assert.are.equal(1, taken) -- it was one try
    assert(store:lock(key .. "2")):release()
    assert(store:close(1))
  end)
end)

-- Of two stores, of which one does not answer when it is released first.
describe("the release of several, interrupted in its first wait,", function()
  local one, live, deaf, key

  local it = steady(function()
    one = redis.start()
    live = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    deaf = assert(dlock.open { url = one.url, io_timeout = 5 })
    key = ("all:%d:"):format(uv.os_getpid())
    collectgarbage("stop") -- that would give them back, too
  end, function()
    collectgarbage("restart")
    one:resume()
    deaf:close(1)
    live:close(1)
    one:stop()
  end)

  local function both()
    return dlock.all { assert(live:mutex(key .. "a")),
      assert(deaf:mutex(key .. "b")) }
  end

  local function expect_free()
    local other = assert(dlock.open(os.getenv("DLOCK_TEST_REDIS")))
    assert(other:lock(key .. "a", { timeout = 10 })):release()
    other:close(1)
  end

  local ways = {
    release = function(whole) whole:release() end,
    resign = function(whole) whole:resign() end,
    ["to-be-closed"] = function(whole)
      debug.getmetatable(whole).__close(whole)
    end,
  }
  for how, call in pairs(ways) do
    it("releases the rest: " .. how, function()
      local whole = assert(both():acquire())
      one:pause()
      meanwhile.interrupt(function() call(whole) end)
      assert.is_false(whole.leases[1]:held())
      expect_free()
    end)
  end

  it("releases the rest: with", function()
    local whole
    meanwhile.interrupt(function(begin)
      both():with(function(given)
        whole = given
        one:pause()
        begin()
      end)
    end, true)
    assert.is_false(whole.leases[1]:held())
    expect_free()
  end)

  if protect.closes then
    it("releases the rest: a coroutine that is closed", function()
      local slow, whole = assert(dlock.open { url = one.url, host = "luv",
        io_timeout = 5 }), nil
      coroutine.wrap(function()
        whole = assert(dlock.all { assert(live:mutex(key .. "a")),
          assert(slow:mutex(key .. "b")) }:acquire())
      end)()
      assert(loop.wait(20, function() return whole end))
      one:pause()
      local co = coroutine.create(function() whole:release() end)
      assert(coroutine.resume(co))
      assert.are.equal("suspended", coroutine.status(co))
      assert(coroutine.close(co))
      assert.is_false(whole.leases[1]:held())
      expect_free()
      one:resume()
      local closed
      coroutine.wrap(function() closed = slow:close(1) end)()
      assert(loop.wait(20, function() return closed end))
    end)
  end

  it("releases the rest: what was taken, when another is busy", function()
    local held = assert(live:lock(key .. "c"))
    local last = assert(live:mutex(key .. "c"))
    local state = lockable.state(last)
    local take, begin = state.take, nil
    function state.take(...)
      one:pause()
      begin()
      return take(...)
    end
    local three = dlock.all { assert(live:mutex(key .. "a")),
      assert(deaf:mutex(key .. "b")), last }
    meanwhile.interrupt(function(fn)
      begin = fn
      three:try_acquire()
    end, true)
    expect_free()
    assert(held:release())
  end)
end)

-- Of two stores, of which one can wait in coroutines only.
describe("the lease of dlock.all where not every member can wait", function()
  local key, plain, looping

  before_each(function()
    key = ("all:%d:close"):format(uv.os_getpid())
    local url = os.getenv("DLOCK_TEST_REDIS")
    plain = assert(dlock.open { url = url, host = "blocking" })
    looping = assert(dlock.open { url = url, host = "luv" })
  end)

  after_each(function()
    loop.in_coroutine(function() assert(looping:close(1)) end)
    assert(plain:close(1))
  end)

  local function acquire(first, second)
    local both, lease = dlock.all { assert(first:mutex(key .. "1")),
      assert(second:mutex(key .. "2")) }, nil
    loop.in_coroutine(function()
      lease = assert(both:acquire { timeout = 10, ttl = 3 })
    end)
    return lease
  end

  local function expect_free()
    for i = 1, 2 do
      assert(plain:lock(key .. i, { timeout = 10 })):release()
    end
  end

  it("can be released later by who was refused", function()
    local lease = acquire(looping, looping)
    assert.are.equal("unsupported", (select(3, lease:release())))
    assert.is_true(lease:held())
    assert.matches("held %d", tostring(lease))
    loop.in_coroutine(function() assert.is_true(lease:release()) end)
    assert.are.equal("dlock.leases: released",
      (tostring(lease):gsub("{.*} ", "")))
    assert.is_true(lease:release()) -- the first result
    expect_free()
  end)

  local function state_of(lease)
    return (tostring(lease):gsub("^.*} ", ""):gsub("%d+%.%ds$", "?"))
  end

  it("is partly held while one member was refused", function()
    local lease = acquire(looping, plain)
    assert.are.equal("unsupported", (select(3, lease:release())))
    assert.is_false(lease.leases[2]:held())
    assert.is_true(lease.leases[1]:held())
    assert.are.equal("partly held", state_of(lease))
    loop.in_coroutine(function() assert.is_true(lease:release()) end)
    assert.are.equal("released", state_of(lease))
    expect_free()
  end)

  it("is not to release what was detached", function()
    local lease = acquire(plain, plain)
    local text = assert(lease.leases[1]:detach())
    assert.is_false(lease:held())
    assert.are.equal("partly held", state_of(lease))
    assert.is_true(lease:release())
    assert.are.equal("released", state_of(lease))
    assert.is_true(lease:release_later())
    assert(plain:lock(key .. "2")):release()
    assert.are.equal("busy", select(3, plain:try_lock(key .. "1")))
    assert.is_true(assert(plain:attach(text)):release())
    expect_free()
  end)

  it("is lost in `with` by a lost member, not by one that is silent", function()
    local one = redis.start()
    local deaf = assert(dlock.open { url = one.url, io_timeout = 0.3 })
    local both = dlock.all { assert(plain:mutex(key .. "1")),
      assert(deaf:mutex(key .. "2")) }
    local ok, text = both:with({ timeout = 10 }, function(lease)
      one:pause()
      return assert(lease.leases[1]:detach())
    end)
    assert.is_true(ok, text)
    one:resume()
    assert.is_true(assert(plain:attach(text)):release())
    local got, message, code = both:with({ timeout = 10 }, function(lease)
      assert.is_true(plain:break_lock(key .. "1"))
      assert.is_true(lease:wait_lost(20))
      return assert(lease.leases[2]:detach())
    end)
    assert.is_nil(got)
    assert.are.equal("lost", code, message)
    deaf:close(1)
    one:stop()
    expect_free()
  end)

  it("does not keep a refusal while another coroutine releases it", function()
    local one = redis.start()
    local slow = assert(dlock.open { url = one.url, host = "luv" })
    local lease, first, over
    loop.in_coroutine(function()
      lease = assert(dlock.all { assert(slow:mutex(key .. "1")) }:acquire())
    end)
    one:pause()
    coroutine.wrap(function()
      first = lease:release()
      over = true
    end)()
    assert.is_nil(over)
    assert.are.equal("unsupported", (select(3, lease:release())))
    one:resume()
    assert(loop.wait(20, function() return over end))
    assert.is_true(first)
    loop.in_coroutine(function() assert.is_true(lease:release()) end)
    assert.is_true(lease:release())
    loop.in_coroutine(function() assert(slow:close(1)) end)
    one:stop()
  end)

  it("says first what is still held", function()
    local lease = acquire(looping, plain)
    assert.is_true(plain:break_lock(key .. "2"))
    assert.is_true(lease.leases[2]:wait_lost(10))
    assert.are.equal("unsupported", (select(3, lease:release())))
    loop.in_coroutine(function()
      assert.are.equal("lost", (select(3, lease:release())))
      assert.are.equal("lost", (select(3, lease:release())))
    end)
    expect_free()
  end)

  -- What Lua 5.4 does with `local lease <close>`.
  local function close(lease)
    debug.getmetatable(lease).__close(lease)
  end

  it("has each of its leases closed, however the first can wait", function()
    for _, stores in ipairs { { plain, looping }, { looping, plain } } do
      local lease = acquire(stores[1], stores[2])
      close(lease)
      assert.is_false(lease.leases[1]:held())
      assert.is_false(lease.leases[2]:held())
      assert.is_true(lease:release())
      expect_free()
    end
  end)

  it("is released in the time of one, when the store stands still", function()
    local one = redis.start()
    local store = assert(dlock.open { url = one.url, io_timeout = 1.5 })
    for _, how in ipairs { "release", "release(1.5)", "close" } do
      local locks = {}
      for i = 1, 12 do locks[i] = assert(store:mutex(how .. i)) end
      local lease = assert(dlock.all(locks):acquire())
      one:pause()
      local began = core.now()
      if how == "close" then
        close(lease)
      else
        local code = select(3, lease:release(how ~= "release" and 1.5 or nil))
        assert.are.equal("unavailable", code)
      end
      local took = core.now() - began -- each by itself: 18 s
      one:resume()
      assert.is_true(took >= 1.4 and took < 9, how .. " " .. took)
      assert.is_false(lease:held())
      for i = 1, 12 do
        assert(store:lock(how .. i, { timeout = 20 })):release()
      end
    end
    store:close(1)
    one:stop()
  end)

  it("is resigned as a single lease is", function()
    local lease = acquire(plain, plain)
    assert.has_error(function() lease:resign("soon") end,
      "the timeout of lease:resign must be a number of seconds, not a"
        .. " string")
    assert.is_true(lease:resign())
    assert.is_false(lease:held())
    assert.is_true(lease:resign())
    expect_free()
  end)
end)
