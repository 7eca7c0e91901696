-- store:once: one runs the function, the others get its result.
local cqueues = require "cqueues"
local dlock = require "dlock"
local lockable = require "dlock.lockable"
local once = require "dlock.kinds.once"
local steady = require "spec.support.steady"
local uv = require "luv"

local URL = assert(os.getenv("DLOCK_TEST_REDIS"), "run `make test`")

describe("store:once", function()
  local store, other, queue, key
  local count = 0

  local function set_up()
    store = assert(dlock.open(URL))
    other = assert(dlock.open(URL))
    queue = cqueues.new()
    count = count + 1
    key = ("once%d:%d"):format(uv.os_getpid(), count)
  end

  local function tear_down()
    queue:wrap(function() store:close(1) end)
    assert(queue:loop(10))
    other:close(1)
  end

  local timed = steady(set_up, tear_down)

  local function run()
    assert(queue:loop(20))
    assert(queue:empty())
  end

  it("runs the function once for a hundred callers at a time", function()
    local runs, results = 0, {}
    for i = 1, 100 do
      queue:wrap(function()
        results[i] = store:once(key, function()
          runs = runs + 1
          cqueues.sleep(0.05)
          return "made " .. runs
        end)
      end)
    end
    run()
    assert.equal(1, runs)
    for i = 1, 100 do assert.equal("made 1", results[i]) end
    local acquires = store:stats().acquires
    assert.same({ 1, 99, 0 },
      { acquires.granted, acquires.served, acquires.cancelled })
    assert(other:try_lock(key)):release()
  end)

  it("runs it once for callers that open a store each", function()
    local runs = 0
    local function open(opts)
      opts.url = URL
      local its = assert(dlock.open(opts))
      queue:wrap(function()
        assert.equal("made", its:once(key, function()
          runs = runs + 1
          cqueues.sleep(0.05)
          return "made"
        end))
        its:close(1)
      end)
    end
    for _ = 1, 20 do open {} end
    run()
    assert.equal(1, runs)
    for i = 1, 2 do open { name = "n" .. i } end -- not the same options
    run()
    assert.equal(3, runs)
  end)

  it("runs it again for later callers", function()
    local runs = 0
    local function make()
      runs = runs + 1
      return tostring(runs)
    end
    queue:wrap(function()
      assert.equal("1", store:once(key, make))
      assert.equal("2", store:once(key, make))
    end)
    run()
    assert.equal("3", store:once(key, make)) -- blocking, too
  end)

  it("shares no result that was made after its lock was lost", function()
    local runs, results = 0, {}
    local function late()
      runs = runs + 1
      cqueues.sleep(1)
      return "made " .. runs
    end
    queue:wrap(function()
      results[1] = { store:once(key, function()
        runs = runs + 1
        for i = 2, 3 do
          queue:wrap(function() results[i] = store:once(key, late) end)
        end
        cqueues.sleep(0.5)
        return "made 1"
      end, { ttl = 0.2, renew = false }) }
    end)
    run()
    assert.same({ nil, "lost" }, { results[1][1], results[1][3] })
    assert.equal("made 2", results[2])
    assert.equal("made 2", results[3])
    assert.equal(2, runs)
  end)

  it("lets the next one run it when the first has no result", function()
    local runs, results, codes = 0, {}, {}
    for i = 1, 5 do
      queue:wrap(function()
        local _
        results[i], _, codes[i] = store:once(key, function()
          runs = runs + 1
          cqueues.sleep(0.02)
          if runs < 3 then return nil, "unavailable: not now", "unavailable" end
          return "third"
        end)
      end)
    end
    run()
    assert.equal(3, runs)
    local failed = 0
    for i = 1, 5 do
      if not results[i] then
        failed = failed + 1
        assert.equal("unavailable", codes[i])
      else
        assert.equal("third", results[i])
      end
    end
    assert.equal(2, failed)
  end)

  it("gives the result at once, even if other clients get the lock", function()
    local begun, result = false, nil
    queue:wrap(function()
      store:once(key, function()
        queue:wrap(function()
          local next_one = assert(other:lock(key, { timeout = 30 }))
          for _ = 1, 1000 do
            if result then break end
            cqueues.sleep(0.01)
          end
          assert.equal("made", result)
          assert(next_one:release())
        end)
        while #assert(store:inspect(key)).waiters == 0 do cqueues.sleep(0) end
        queue:wrap(function()
          begun = true
          result = store:once(key, function() return "anew" end,
            { timeout = 30 })
        end)
        while not begun do cqueues.sleep(0) end
        return "made"
      end)
    end)
    run()
    assert.equal("made", result)
  end)

  it("gives back a lock that came together with another's result", function()
    local acquire, given_back = lockable.acquire, false
    local client = { pool = "of a test" }
    function lockable.acquire(_, opts)
      assert.is_true(opts.provisional) -- so it has no min_hold
      client.flights[key].result = "theirs"
      return { release_later = function() given_back = true end }
    end
    local ok, result = pcall(once.run, client, key, error)
    lockable.acquire = acquire
    assert.same({ true, "theirs", true }, { ok, result, given_back })
  end)

  it("keeps the lock that it ran under for its min_hold", function()
    assert.equal("x", store:once(key, function() return "x" end,
      { min_hold = 60 }))
    assert.equal("busy", (select(3, other:try_lock(key))))
  end)

  it("passes an error on to the caller that ran it, and to no other", function()
    local begun, problem, result
    queue:wrap(function()
      local ok
      ok, problem = require("dlock.protect").call(store.once, store, key,
        function()
          begun = true
          cqueues.sleep(0.05)
          error("boom", 0)
        end)
      assert.is_false(ok)
    end)
    queue:wrap(function()
      while not begun do cqueues.sleep(0.001) end
      result = store:once(key, function() return "fine" end)
    end)
    run()
    assert.matches("boom", problem)
    assert.equal("fine", result)
  end)

  timed("runs in one process at a time", function()
    local held = assert(other:lock(key))
    local got, _, code = store:once(key, function() return "x" end,
      { timeout = 0.6 })
    assert.is_nil(got)
    assert.equal("timeout", code)
    assert(held:release())
    assert.equal("x", store:once(key, function() return "x" end))
  end)

  it("ends a wait by its own canceller, without a result", function()
    local held, code = assert(other:lock(key)), nil
    local canceller = dlock.canceller()
    queue:wrap(function()
      code = select(3, store:once(key, function() return "x" end,
        { cancel = canceller }))
    end)
    queue:wrap(function()
      cqueues.sleep(0.05)
      canceller:cancel()
    end)
    run()
    assert.equal("cancelled", code)
    held:release()
  end)

  it("refuses values other than a function or a string", function()
    assert.has_error(function() store:once(key, "x") end)
    assert.has_error(function() store:once(key, print, { fair = 1 }) end)
    assert.has_error(function()
      store:once(key, function() return 5 end)
    end)
    assert.equal("invalid", (select(3, store:once("", function() end))))
  end)
end)
