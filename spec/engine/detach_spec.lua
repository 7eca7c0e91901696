-- A detach whose string nobody gets: the call was interrupted, its ticket was
-- dropped, its request ended. The handle has given the lease up, so nobody
-- would release it any more: the engine does.
local core = require "dlock.core"
local dlock = require "dlock"
local meanwhile = require "spec.support.meanwhile"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local resident = require "spec.support.resident"
local uv = require "luv"

local ask, close, finish = resident.ask, resident.close, resident.finish
local free_soon, open = resident.free_soon, resident.open

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")
local RUN = ("detach%d:"):format(uv.os_getpid())

describe("a detach whose string is not taken", function()
  local e

  -- An extension that the store does not answer is under way until it is
  -- cancelled.
  before_each(function() e = open(true, 10) end)

  after_each(function()
    assert.is_true(close(e))
    e = nil
    collectgarbage()
  end)

  local function collect()
    collectgarbage()
    collectgarbage()
  end

  it("gives the lease back when it is dropped", function()
    local lease = assert(finish(e, ask(e, "a")))
    local detach = core.detach(lease)
    repeat until detach:poll()
    detach = nil -- luacheck: ignore
    collect()
    assert.is_true(free_soon(e, "a"))
  end)

  -- An extension that is not answered keeps it from beginning.
  it("gives the lease back when it is dropped before it began", function()
    local lease = assert(finish(e, ask(e, "stuck:a")))
    local extension = core.extend(lease, 60)
    local detach = core.detach(lease) -- luacheck: ignore
    detach = nil -- luacheck: ignore
    collect()
    assert.is_true(free_soon(e, "stuck:a"))
    extension:cancel()
  end)

  it("gives the lease back when it is cancelled and not looked at", function()
    local lease = assert(finish(e, ask(e, "stuck:a")))
    local extension, detach = core.extend(lease, 60), core.detach(lease)
    detach:cancel()
    repeat until detach:poll()
    assert.is_true(free_soon(e, "stuck:a"))
    assert.equal("cancelled", (select(3, detach:take())))
    assert.is_false(core.held(lease))
    extension:cancel()
    finish(e, extension)
  end)

  it("gives the lease back at the end of its scope", function()
    local scope = resident.scope()
    local lease = assert(finish(e, ask(e, "a"), scope))
    local detach = core.detach(lease)
    repeat until detach:poll()
    scope:own(detach)
    scope:finish()
    assert.is_true(free_soon(e, "a"))
    assert.equal("cancelled", (select(3, detach:take())))
  end)

  it("gives the lease back at the end of its scope, under way", function()
    local scope = resident.scope()
    local lease = assert(finish(e, ask(e, "stuck:a"), scope))
    local extension, detach = core.extend(lease, 60), core.detach(lease)
    scope:own(detach)
    scope:finish()
    assert.is_true(free_soon(e, "stuck:a"))
    assert.equal("cancelled", (select(3, finish(e, detach))))
    extension:cancel()
    finish(e, extension)
  end)

  it("belongs to the caller as soon as the string was taken", function()
    local scope = resident.scope()
    local lease = assert(finish(e, ask(e, "a"), scope))
    local text = assert(finish(e, core.detach(lease), scope))
    scope:finish()
    collect()
    local again = assert(finish(e, e:attach(text)))
    assert.is_true(core.held(again))
    assert.is_true(finish(e, core.release(again)))
  end)
end)

describe("a detach that is interrupted", function()
  local between, store, other, r

  setup(function() r = assert(redis.connect()) end)

  teardown(function() r:close() end)

  before_each(function()
    between = proxy.start(URL)
    store = assert(dlock.open { url = between.url, prefix = RUN })
    other = assert(dlock.open { url = URL, prefix = RUN })
  end)

  after_each(function()
    store:close()
    other:close()
    between:stop()
  end)

  for way, what in pairs { up = "never arrived", down = "was answered" } do
    it("does not keep the lock when its request " .. what, function()
      local lease = assert(store:lock("k" .. way, { ttl = 60 }))
      between:hold(way)
      meanwhile.interrupt(function() lease:detach() end)
      between:release()
      assert.is_false(lease:held())
      assert(other:lock("k" .. way, { timeout = 10 })):release()
    end)
  end
end)
