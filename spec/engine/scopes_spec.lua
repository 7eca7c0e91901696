-- The scopes of requests: found by an address, ended from outside of Lua by the
-- call that is left for it, and used again. Runs on LuaJIT only, whose FFI they
-- are for.
if not rawget(_G, "jit") then
  return
end

local core = require "dlock.core"
local direct = require "dlock.host.direct"
local ffi = require "ffi"
local resident = require "spec.support.resident"

local ask, close, finish = resident.ask, resident.close, resident.finish
local free_soon, open = resident.free_soon, resident.open

local find, begin = direct.find, direct.begin
local number, own = direct.number, direct.own
local Cleanup = ffi.typeof "struct { void (*handler)(void *); void *data; }"

local function address(n)
  return ffi.cast("void *", 4096 * n)
end

describe("scopes of requests", function()
  local e, scopes

  before_each(function()
    e, scopes = open(), core.scopes()
  end)

  after_each(function()
    assert.is_true(close(e))
    e, scopes = nil, nil
    collectgarbage()
  end)

  local function start(n)
    local cleanup = Cleanup()
    local scope = begin(scopes, address(n), cleanup)
    assert.is_true(scope ~= nil)
    return scope, cleanup
  end

  local function stop(cleanup)
    cleanup.handler(cleanup.data)
  end

  local function take(scope, key)
    local ticket = ask(e, key)
    own(scope, ticket)
    return assert(finish(e, ticket))
  end

  it("are found from their beginning to their end", function()
    assert.is_true(find(scopes, address(1)) == nil)
    local scope, cleanup = start(1)
    assert.is_true(find(scopes, address(1)) == scope)
    assert.is_true(find(scopes, address(2)) == nil)
    stop(cleanup)
    assert.is_true(find(scopes, address(1)) == nil)
  end)

  it("have another number each, at the same address too", function()
    local seen = {}
    for _ = 1, 100 do
      local scope, cleanup = start(1)
      assert.is_nil(seen[number(scope)])
      seen[number(scope)] = true
      stop(cleanup)
    end
  end)

  it("end their own leases and waits only", function()
    local one, end_one = start(1)
    local two, end_two = start(2)
    local mine, others = take(one, "a"), take(two, "b")
    local waiting = ask(e, "b", { timeout = 60 })
    own(one, waiting)
    stop(end_one)
    assert.is_false(core.held(mine))
    assert.equal("cancelled", (select(3, finish(e, waiting))))
    assert.is_true(core.held(others))
    stop(end_two)
    assert.is_true(free_soon(e, "a"))
    assert.is_true(free_soon(e, "b"))
  end)

  it("know nothing of the request before", function()
    local scope, cleanup = start(1)
    take(scope, "a")
    stop(cleanup)
    assert.is_true(free_soon(e, "a"))
    local lease = assert(finish(e, ask(e, "a"))) -- nobody's
    scope, cleanup = start(1)
    local mine = take(scope, "b")
    assert.is_true(core.held(mine))
    stop(cleanup)
    assert.is_false(core.held(mine))
    assert.is_true(core.held(lease))
  end)

  it("keep as many leases as there are", function()
    local scope, cleanup = start(1)
    local leases = {}
    for i = 1, 100 do
      leases[i] = take(scope, "k" .. i)
      if i % 3 == 0 then
        assert.is_true(finish(e, core.release(leases[i])))
      end
    end
    stop(cleanup)
    for i = 1, 100 do
      assert.is_false(core.held(leases[i]))
    end
  end)

  it("are found by their request among thousands", function()
    local list = {}
    for i = 1, 5000 do
      local scope, cleanup = start(i)
      list[i] = { scope = scope, cleanup = cleanup }
    end
    for i = 1, 5000, 2 do stop(list[i].cleanup) end
    for i = 1, 5000 do
      local found = find(scopes, address(i))
      if i % 2 == 1 then
        assert.is_true(found == nil)
      else
        assert.is_true(found == list[i].scope)
      end
    end
    for i = 2, 5000, 2 do stop(list[i].cleanup) end
  end)

  it("may end after Lua let go of them", function()
    local scope, cleanup = start(1)
    local lease = take(scope, "a")
    local other = select(2, start(2))
    scopes = nil
    collectgarbage()
    collectgarbage()
    stop(other)
    assert.is_true(core.held(lease))
    stop(cleanup)
    assert.is_false(core.held(lease))
    assert.is_true(free_soon(e, "a"))
  end)
end)
