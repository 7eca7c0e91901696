-- A store that is closed while coroutines of event loops wait: each of them is
-- answered, and none is left with a descriptor that was closed under it.
local assert = require "luassert"
local dlock = require "dlock"
local events = require "dlock.events"
local leaks = require "spec.support.leaks"
local loop = require "spec.support.loop"
local uv = require "luv"

local cqueues = require "cqueues"

local URL = "file://" .. assert(os.getenv("DLOCK_TEST_DIR"),
  "run `make test`") .. "/loops_close"

-- Everything has happened before the first of them goes on: the closer is the
-- first that hears of it, and the others are still to leave their polls.
local function done_at_once(client)
  local ticket = assert(client.engine:close(1))
  while not ticket:poll() do end
  return ticket
end

describe("closing a store", function()
  local store, other, held

  before_each(function()
    store = assert(dlock.open(URL))
    other = assert(dlock.open { url = URL, host = "blocking" })
    held = assert(other:lock("k"))
  end)

  after_each(function()
    held:release()
    other:close(1)
    store:close(1)
  end)

  local function wait_in(queue, codes, count)
    for _ = 1, count do
      queue:wrap(function()
        local _, _, code = store:lock("k", { timeout = 30 })
        codes[#codes + 1] = code
      end)
    end
    assert(queue:step(0)) -- now they wait
  end

  local function expect_all(codes, count)
    assert.equal(count, #codes)
    for _, code in ipairs(codes) do
      assert.equal("cancelled", code)
    end
  end

  it("answers the other coroutines of a cqueues loop", function()
    local queue, codes, ticks = cqueues.new(), {}, 0
    wait_in(queue, codes, 10)
    queue:wrap(function()
      for _ = 1, 10 do
        cqueues.sleep(0.001)
        ticks = ticks + 1
      end
    end)
    queue:wrap(function()
      local _, client = next(store)
      done_at_once(client)
      assert.is_true(store:close(1))
    end)
    assert(queue:loop(10))
    assert.is_true(queue:empty())
    expect_all(codes, 10)
    assert.equal(10, ticks)
  end)

  it("ends the waits of a loop that is run from outside of it", function()
    local queue, codes = cqueues.new(), {}
    wait_in(queue, codes, 10)
    assert.is_true(store:close(1))
    assert(queue:loop(10))
    assert.is_true(queue:empty())
    expect_all(codes, 10)
  end)

  it("ends the waits of two loops, one inside of the other", function()
    local outer, inner, codes = cqueues.new(), cqueues.new(), {}
    wait_in(outer, codes, 5)
    outer:wrap(function()
      wait_in(inner, codes, 5)
      inner:wrap(function() assert.is_true(store:close(1)) end)
      assert(inner:loop(10))
    end)
    assert(outer:loop(10))
    expect_all(codes, 10)
  end)

  it("keeps no descriptor of a wait", function()
    local function once()
      local mine = assert(dlock.open(URL))
      local queue = cqueues.new()
      for _ = 1, 5 do
        queue:wrap(function() mine:lock("k", { timeout = 30 }) end)
      end
      assert(queue:step(0))
      assert.is_true(mine:close(1))
      assert(queue:loop(10))
      return mine -- not collected yet
    end
    once()
    local before, kept = leaks.snapshot(), {}
    for i = 1, 5 do kept[i] = once() end
    collectgarbage()
    collectgarbage()
    assert.same({}, leaks.since(before))
    assert.equal(5, #kept)
  end)

  -- One that was closed (Lua 5.4), or dropped with its controller, polls no
  -- longer; another one polls after it, and is the last.
  local function end_of(way, mine)
    local queue, co = cqueues.new(), nil
    queue:wrap(function()
      co = coroutine.running()
      mine:lock("k", { timeout = 30 })
    end)
    assert(queue:step(0))
    way(queue, co)
  end

  local ways = { dropped = function(queue) queue:close() end }
  if coroutine.close then
    function ways.closed(queue, co)
      assert(coroutine.close(co))
      queue:close()
    end
  end

  for name, way in pairs(ways) do
    it("keeps no descriptor of a wait that was " .. name, function()
      local function once()
        local mine = assert(dlock.open(URL))
        -- Of a stack that is over nothing is left in ours.
        coroutine.wrap(end_of)(way, mine)
        if name == "dropped" then
          collectgarbage()
          collectgarbage()
        end
        local queue, code = cqueues.new(), nil
        queue:wrap(function()
          code = select(3, mine:lock("k", { timeout = 30 }))
        end)
        assert(queue:step(0)) -- it polls, however slow the machine is
        assert.is_true(mine:close(1))
        assert(queue:loop(10))
        assert.equal("cancelled", code)
        return mine -- not collected yet
      end
      once()
      local before, kept = leaks.snapshot(), {}
      for i = 1, 5 do kept[i] = once() end
      collectgarbage()
      collectgarbage()
      assert.same({}, leaks.since(before))
      assert.equal(5, #kept)
    end)
  end

  it("keeps no descriptor of a dropped wait, closed outside of loops",
      function()
    local function once()
      local mine = assert(dlock.open(URL))
      coroutine.wrap(end_of)(ways.dropped, mine)
      collectgarbage()
      collectgarbage()
      assert.is_true(mine:close(1))
      return mine -- not collected yet
    end
    once()
    local before, kept = leaks.snapshot(), {}
    for i = 1, 5 do kept[i] = once() end
    assert.same({}, leaks.since(before))
    assert.equal(5, #kept)
  end)

  it("answers the other coroutines of luv", function()
    store:close(1)
    store = assert(dlock.open { url = URL, host = "luv" })
    local codes, closed = {}, nil
    for _ = 1, 10 do
      coroutine.wrap(function()
        local _, _, code = store:lock("k", { timeout = 30 })
        codes[#codes + 1] = code
      end)()
    end
    coroutine.wrap(function()
      local _, client = next(store)
      done_at_once(client)
      closed = store:close(1)
    end)()
    assert(loop.wait(10, function()
      return #codes == 10 and closed ~= nil
    end))
    assert.is_true(closed)
    expect_all(codes, 10)
  end)
end)

-- Each runs fn where its host can wait, until it has ended.
local run_on = {
  blocking = function(fn) fn() end,
  cqueues = function(fn)
    local queue = cqueues.new()
    queue:wrap(fn)
    assert(queue:loop(20))
    assert.is_true(queue:empty())
  end,
  luv = loop.in_coroutine,
}

describe("a call for a lock in which a callback closes the store", function()
  for host, run in pairs(run_on) do
    it("says closed, and leaves nothing (" .. host .. ")", function()
      local store = assert(dlock.open { url = URL, host = host })
      local other = assert(dlock.open { url = URL, host = "blocking" })
      local lost, closed, got, message, code = 0, nil, nil, nil, nil
      run(function()
        local lease = assert(store:lock("first", { ttl = 0.1, renew = false }))
        lease:on_lost(function()
          lost = lost + 1
          closed = assert(store:close(1))
        end)
        local _, client = next(store)
        while not events.may_be_due(client, client.engine:has_events()) do
          uv.sleep(1)
        end
        got, message, code = store:lock("second", { timeout = 10 })
      end)
      assert(host ~= "luv" or loop.wait(10, function() return closed end))
      assert.equal(1, lost)
      -- In an event loop the callback may come before the grant, and cancel;
      -- and the grant may come between the call of close and its beginning,
      -- which then gives it back.
      if host == "blocking" or not got then
        assert.is_nil(got)
        assert(code == "closed" or host ~= "blocking" and code == "cancelled",
          message)
      else
        assert.is_false(got:held())
      end
      assert.is_nil(other:inspect("second"))
      other:close(1)
    end)
  end
end)
