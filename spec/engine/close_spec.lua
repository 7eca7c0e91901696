-- The end of a store while something is still in its way: a second close, one
-- that was interrupted, one whose time passes, one from a callback or from a
-- finaliser, and whatever of these an event loop can do at the same time. After
-- each of them nothing may be left: no lease, no thread, no descriptor.
local core = require "dlock.core"
local dlock = require "dlock"
local engine = require "spec.support.engine"
local hosts = require "spec.contract.hosts"
local leaks = require "spec.support.leaks"
local meanwhile = require "spec.support.meanwhile"
local memory = require("spec.support.memory").load()
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local shared = require "spec.support.shared"
local steady = require "spec.support.steady"

local finish = engine.finish

local function open()
  return assert(engine.new(memory, { shown = "memory:", io_timeout = 0.2 }))
end

local function acquire(e, key, o)
  return assert(finish(assert(engine.acquire(e, key, o))))
end

local function collect()
  for _ = 1, 3 do collectgarbage() end
end

-- A store over the one in memory, under the name of another.
local function open_store(opts)
  local name = "dlock.store.redis"
  local before, all = package.loaded[name], { url = "redis://memory" }
  for option, value in pairs(opts or {}) do all[option] = value end
  all.io_timeout = all.io_timeout or 0.2
  package.loaded[name] = memory
  local store = assert(dlock.open(all))
  package.loaded[name] = before
  return store
end

describe("an engine's close", function()
  local before

  setup(function() -- what is made once for a process is there then
    local e = open()
    acquire(e, "a")
    finish(e:close(1))
  end)

  local function set_up()
    collect()
    before = leaks.snapshot()
  end

  local function tear_down()
    collect()
    assert.same({}, leaks.since(before, 5))
  end

  local it = steady(set_up, tear_down)

  -- What began after `start` may be over by right.
  local function is_late(start)
    return core.now() - start >= 0.2
  end

  -- The release of "deaf:" is answered when it is withdrawn, after 0.2 s.
  it("is waited for by a second one too", function()
    local e = open()
    local lease = acquire(e, "deaf:a")
    local start = core.now()
    local first = e:close(5)
    assert.is_true(not core.drive(first, 0.01) or is_late(start))
    local second = e:close(5)
    assert.is_true(not core.drive(second, 0.01) or is_late(start))
    assert.is_true(finish(second))
    assert.is_true(first:poll())
    assert.is_true(first:take())
    assert.is_true(finish(e:close(5)))
    assert.is_false(core.held(lease))
  end)

  it("goes on when it is interrupted, and is waited for again", function()
    local e = open()
    acquire(e, "deaf:a")
    local start = core.now()
    local first = e:close(5)
    core.drive(first, 0.01)
    first:cancel()
    local closed, _, code = finish(first)
    assert.is_true(code == "cancelled" or closed and is_late(start), code)
    first = nil -- luacheck: ignore
    collect()
    assert.equal("closed", (select(3, e:ping())))
    assert.is_true(finish(e:close(5)))
  end)

  it("goes on when it is interrupted, and ends with the engine", function()
    local e = open()
    acquire(e, "deaf:a")
    local first = e:close(math.huge)
    core.drive(first, 0.01)
    first:cancel()
    finish(first)
    e, first = nil, nil -- luacheck: ignore
  end)

  it("goes on when its ticket is collected", function()
    local e = open()
    acquire(e, "deaf:a")
    core.drive(e:close(0.05), 0.01)
    collect()
    assert.is_true(finish(e:close(5)))
  end)

  it("does not depend on a ticket that was collected", function()
    local e = open()
    local never = engine.acquire(e, "never:a", { timeout = 60 })
    core.drive(e:close(math.huge), 0.01)
    collect()
    assert.is_true(finish(e:close(0.05)))
    assert.is_true(never:poll())
    assert.same({}, leaks.since(before, 5)) -- although it is still there
    assert.equal("closed", (select(3, e:ping())))
  end)

  it("ends for one of two when its time is over", function()
    local e = open()
    acquire(e, "deaf:a")
    local start = core.now()
    local patient, hasty = e:close(5), e:close(0.01)
    assert.is_true(finish(hasty))
    local over = patient:poll() or hasty:closes()
    assert.is_true(not over or is_late(start))
    assert.is_true(finish(patient))
    assert.is_true(patient:closes())
  end)

  it("frees everything when it is over, but its time was before", function()
    local engines = {}
    for i = 1, 3 do
      local e = open()
      acquire(e, "lazy:a")
      assert.is_true(finish(e:close(0.02)))
      assert.is_true(finish(e:close(0.02)))
      assert.equal("closed", (select(3, e:ping())))
      engines[i] = e
    end
    assert.same({}, leaks.since(before, 5)) -- although they are there
    assert.equal(3, #engines)
  end)

  it("frees everything behind a collected engine too", function()
    acquire(open(), "lazy:a", { provisional = true })
    acquire(open(), "lazy:b", { provisional = true })
    collect()
  end)

  it("does not start an engine that was never used", function()
    local e = open()
    assert.is_true(finish(e:close(5)))
    assert.same({}, leaks.since(before, 0))
    assert.equal("closed", (select(3, e:ping())))
    assert.is_true(finish(e:close()))
  end)
end)

-- Calls fn when it is collected.
local function finaliser(fn)
  if rawget(_G, "newproxy") then
    local proxy = newproxy(true) -- luacheck: ignore
    getmetatable(proxy).__gc = fn
    return proxy
  end
  return setmetatable({}, { __gc = fn })
end

for _, host in ipairs(hosts) do
  describe("a store's close, " .. host.name .. ",", function()
    local before, store

    local function set_up()
      collect()
      before = leaks.snapshot()
    end

    local function tear_down()
      debug.sethook()
      store = nil
      collect()
      assert.same({}, leaks.since(before, 5))
    end

    local it = steady(set_up, tear_down)

    -- Its close takes 0.3 s and is seen to by nobody else.
    local function use(opts)
      opts = opts or {}
      opts.host, opts.io_timeout = host.option, 0.3
      store = open_store(opts)
      return assert(store:lock("deaf:a"))
    end

    local function wait_for(fn)
      for _ = 1, 500 do
        if fn() then return end
        host.sleep(0.01)
      end
      error("it never came true")
    end

    it("waits with a second one that begins meanwhile", function()
      host.run(function()
        local lease, stop, second = use(), nil, nil
        stop = host.later(0.05, function()
          stop()
          second = store:close(5)
        end)
        assert.is_true(store:close(5))
        wait_for(function() return second ~= nil end)
        assert.is_true(second)
        assert.is_false(lease:held())
      end)
    end)

    it("goes on although a second close had less time", function()
      host.run(function()
        local stop, second
        use()
        stop = host.later(0.05, function()
          stop()
          second = store:close(0.05)
        end)
        assert.is_true(store:close(5))
        wait_for(function() return second ~= nil end)
        assert.is_true(second)
        assert.is_true(store:close())
      end)
    end)

    it("comes to its end when a callback closes too", function()
      host.run(function()
        local closed, told
        use { on_event = function(event)
          if event.kind == "lost" then closed = store:close(5) end
        end }
        local lost = assert(store:lock("gone:b"))
        lost:on_lost(function()
          told = true
          store:close(5)
        end)
        lost:extend(0.3) -- its next renewal says that it is lost
        wait_for(function() return not lost:held() end)
        assert.is_true(store:close(5))
        wait_for(function() return told and closed ~= nil end)
        assert.is_true(closed)
      end)
    end)

    it("comes to its end when a finaliser closes too", function()
      host.run(function()
        local stop, called
        use()
        local object = finaliser(function()
          called = true
          -- Where nothing can wait, it says so; but Lua 5.1 cannot tell that it
          -- is in a finaliser, and raises.
          local fine, ok, _, code = pcall(store.close, store, 5)
          assert(ok == true or code == "unsupported"
            or not fine and _VERSION == "Lua 5.1", ok)
        end)
        stop = host.later(0.05, function()
          stop()
          object = nil -- luacheck: ignore
          collect()
        end)
        assert.is_true(store:close(5))
        wait_for(function() return called and not object end)
      end)
    end)

    it("can be called again after its time has passed", function()
      host.run(function()
        store = open_store { host = host.option }
        assert(store:lock("lazy:a"))
        assert.is_true(store:close(0.05))
        assert.is_true(store:close(0.05))
        assert.are.equal("closed", (select(3, store:lock("a"))))
        assert.is_true(store:close())
      end)
    end)
  end)
end

describe("a store's close that is interrupted", function()
  local before, store

  local function set_up()
    collect()
    before = leaks.snapshot()
  end

  local function tear_down()
    store = nil
    collect()
    assert.same({}, leaks.since(before, 5))
  end

  local it = steady(set_up, tear_down)

  local function interrupt_close()
    store = open_store { io_timeout = 1 }
    local lease = assert(store:lock("deaf:a"))
    meanwhile.interrupt(function() store:close(5) end)
    return lease
  end

  it("is finished by the next one", function()
    local lease = interrupt_close()
    assert.is_true(store:close(5))
    assert.is_false(lease:held())
    assert.is_true(store:close(5))
  end)

  it("is finished by the collector", function()
    interrupt_close()
  end)
end)

describe("a store's close", function()
  it("is cut short by the end of the Lua state", function()
    local script = [[
      local dlock = require "dlock"
      package.loaded["dlock.store.redis"] =
        require("spec.support.memory").load()
      local store
      store = dlock.open { url = "redis://x", io_timeout = 0.5,
        on_event = function(event)
          print(event.kind, store:lock("other"))
          os.exit(0, true)
        end }
      assert(store:lock("deaf:a"))
      local lease = assert(store:lock("gone:b", { ttl = 1.5 }))
      lease:on_lost(print)
      while lease:held() do end
      store:close(5)
      print("not reached")
    ]]
    local status, out, err = process.run { script = script, timeout = 20 }
    assert.equal("", err)
    assert.equal("lost\tnil\tclosed: 'other': the store 'redis://x' was"
      .. " closed\tclosed\n", out)
    assert.equal(0, status)
  end)

  -- Finalisers run in the order in which objects were made, the latest first.
  local FINALISED = [[
    local dlock = require "dlock"
    package.loaded["dlock.store.redis"] =
      require("spec.support.memory").load()
    local function at_the_end(fn)
      local object = newproxy and newproxy(true)
      if object then
        getmetatable(object).__gc = fn
        return object
      end
      return setmetatable({}, { __gc = fn })
    end
  ]]

  local function run_finalisers(script)
    local status, out, err = process.run { script = FINALISED .. script,
      timeout = 20 }
    assert.equal("", err)
    assert.equal(0, status)
    return out
  end

  it("by the end of the Lua state is what calls say from then on", function()
    local out = run_finalisers [[
      local function say(name, ok, result, message, code)
        print(name, ok, result, code, message)
      end
      KEPT = at_the_end(function()
        for _, call in ipairs {
          { "ping" }, { "lock", "k" }, { "try_lock", "k" },
          { "with", "k", print }, { "inspect", "k" }, { "list" },
          { "break_lock", "k" }, { "revoke", "k" }, { "attach", "x" },
          { "once", "k", print }, { "tag", "k" }, { "stats" },
          { "stats", "prometheus" },
        } do
          local name, a, b = call[1], call[2], call[3]
          say(name, pcall(store[name], store, a, b))
        end
        say("acquire", pcall(mutex.acquire, mutex))
        say("locked", pcall(mutex.locked, mutex))
        say("new", pcall(function() return store:mutex("n"):acquire() end))
        say("all", pcall(function() return dlock.all({ mutex }):acquire() end))
        print("close", (store:close()))
      end)
      store = dlock.open { url = "redis://x", on_event = print }
      mutex = store:mutex("m")
      assert(mutex:acquire()):release()
    ]]
    local count = 0
    for line in out:gmatch "[^\n]+" do
      count = count + 1
      if count < 18 then
        assert.matches("^%w[%w_]*\ttrue\tnil\tclosed\tclosed: .*'redis://x'",
          line)
      else
        assert.equal("close\ttrue", line)
      end
    end
    assert.equal(18, count, out)
  end)

  it("by the end of the Lua state keeps no other store from waiting",
  function()
    assert.equal("number\ntrue\n", run_finalisers [[
      store = dlock.open { url = "redis://x", on_event = print }
      lease = assert(store:lock("k"))
      lease:on_lost(print)
      KEPT = at_the_end(function()
        print(type(store:ping()))
        print(lease:release())
      end)
      other = dlock.open { url = "redis://y", on_event = print }
      other_lease = assert(other:lock("k"))
      other_lease:on_lost(print)
    ]])
  end)

  -- The client library's own thread may take some seconds more.
  it("frees the loop although ZooKeeper says nothing any more", function()
    local url = shared.at("DLOCK_TEST_ZOOKEEPER")
    local between = proxy.start(url)
    local before = leaks.snapshot()
    for _ = 1, 2 do
      local store = assert(dlock.open(between.url))
      assert(store:lock("closing"))
      between:hold("both")
      assert.is_true(store:close(0.1))
      between:release()
    end
    local left
    for _ = 1, 20 do -- two seconds
      left = table.concat(leaks.since(before, 0.1), "\n")
      if not left:find("anon_inode", 1, true) then break end
    end
    assert.is_nil(left:find("anon_inode", 1, true), left)
    between:stop()
  end)
end)
