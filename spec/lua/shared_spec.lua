-- A store that is opened often, with the same URL and options: descriptors and
-- threads stay bounded, and the end of one takes nothing from another.
local cqueues = require "cqueues"
local dlock = require "dlock"
local leaks = require "spec.support.leaks"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local URLS = { redis = os.getenv("DLOCK_TEST_REDIS"), file = "file" }
local MANY = 40 -- more than have a client of their own

for name, url in pairs(URLS) do
  describe("stores that are opened often: " .. name, function()
    local dir, stores, key
    local number = 0

    before_each(function()
      dir = server.new_dir()
      if name == "file" then url = "file://" .. dir .. "/locks" end
      stores, number = {}, number + 1
      key = ("shared%d.%d."):format(require("dlock.core").pid(), number)
    end)

    after_each(function()
      for _, store in ipairs(stores) do store:close() end
      server.remove_dir(dir)
    end)

    local function open(n, opts)
      for _ = 1, n do
        local all = { url = url }
        for option, value in pairs(opts or {}) do all[option] = value end
        stores[#stores + 1] = assert(dlock.open(all))
      end
      return stores[#stores]
    end

    local function run_with_few_descriptors(script)
      local status, out, err = process.run { timeout = 60,
        command = { "sh", "-c",
          "ulimit -n 256; exec " .. process.lua_in_shell .. ' -e "$0"', ([[
            collectgarbage("stop")
            local dlock, kept = require "dlock", {}
            local url, key = "%s", "%s"
          ]]):format(url, key) .. script } }
      assert.equal("", err)
      assert.equal(0, status)
      return out
    end

    it("a thousand need no more descriptors than a few", function()
      assert.equal("good", run_with_few_descriptors [[
        for i = 1, 1000 do
          kept[i] = assert(dlock.open(url))
          assert(assert(kept[i]:lock(key .. i)):release())
        end
        for i = 1, 1000 do assert(kept[i]:close()) end
        io.write("good")
      ]])
    end)

    it("those that differ are collected in time", function()
      assert.equal("good", run_with_few_descriptors [[
        for i = 1, 200 do
          local store = assert(dlock.open { url = url,
            on_event = function() return i end })
          assert(assert(store:lock(key .. i)):release())
        end
        io.write("good")
      ]])
    end)

    it("those that differ and are kept are counted in the message", function()
      assert.matches("^%d+ stores are open here; open one and keep it",
        run_with_few_descriptors [[
          local counted
          for i = 1, 200 do
            kept[i] = assert(dlock.open { url = url, name = "n" .. i })
            local lease, message = kept[i]:lock(key .. i)
            counted = message and message:match("%d+ stores .*")
            if counted then break end -- not yet when a lock's file was refused
            if lease then lease:release() end
          end
          io.write(tostring(counted))
          os.exit(0)
        ]])
    end)

    it("the close of one ends its leases and no others'", function()
      open(MANY)
      local leases = {}
      for i, store in ipairs(stores) do
        leases[i] = assert(store:lock(key .. i))
      end
      for i = 1, MANY, 2 do assert(stores[i]:close()) end
      for i, lease in ipairs(leases) do
        local closed = i % 2 == 1
        assert.equal(not closed, lease:held())
        if closed then
          assert.equal("closed", select(3, lease:release()))
          assert.equal("closed", select(3, stores[i]:lock(key)))
          assert.equal("closed", select(3, stores[i]:mutex(key):acquire()))
          assert.equal("closed", select(3, stores[i]:ping()))
          assert.is_true(stores[i]:close())
          assert(assert(stores[2]:try_lock(key .. i)):release())
        else
          assert.equal("busy", select(3, stores[2]:try_lock(key .. i)))
          assert.is_true(lease:release())
        end
      end
    end)

    it("the close of one ends its waits and no others'", function()
      open(MANY)
      local held = assert(stores[1]:lock(key))
      local queue, codes = cqueues.new(), {}
      for i = 2, MANY do
        queue:wrap(function()
          local lease, _, code = stores[i]:lock(key, { timeout = 30 })
          codes[i] = code or "got it"
          if lease then assert(lease:release()) end
        end)
      end
      queue:wrap(function()
        cqueues.sleep(0.1)
        for i = 3, MANY, 2 do assert(stores[i]:close()) end
        assert(held:release())
      end)
      assert(queue:loop(20))
      for i = 2, MANY do
        assert.equal(i % 2 == 1 and "cancelled" or "got it", codes[i], i)
      end
    end)

    it("each has defaults and callbacks of its own", function()
      open(MANY, { ttl = 7 })
      local store = open(1, { ttl = 9 })
      local lease = assert(store:lock(key))
      assert.equal(9, lease.ttl)
      local other = assert(stores[20]:lock(key .. "2"))
      assert.equal(7, other.ttl)
      local lost = {}
      lease:on_lost(function(one) lost[#lost + 1] = one end)
      other:on_lost(function(one) lost[#lost + 1] = one end)
      assert(stores[30]:break_lock(key))
      assert.equal("lost", select(3, lease:release()))
      assert.same({ lease }, lost)
      assert.is_true(other:release())
    end)

    it("the close of the last one ends no lease that was collected", function()
      open(MANY)
      local function forget()
        assert(stores[MANY]:lock(key, { ttl = 2 }))
        stores[MANY] = nil
      end
      forget()
      collectgarbage()
      collectgarbage()
      for _, store in ipairs(stores) do assert(store:close()) end
      stores = {}
      local other = open(1)
      assert.equal("busy", select(3, other:try_lock(key)))
      assert(other:lock(key, { timeout = 10 })):release()
    end)

    it("the last one ends the client", function()
      local before = leaks.snapshot()
      open(MANY)
      for _, store in ipairs(stores) do
        assert(assert(store:lock(key)):release())
      end
      for i = MANY, 1, -1 do assert(stores[i]:close()) end
      assert.same({}, leaks.since(before, 5))
    end)

    it("those that are collected end their client, too", function()
      local before = leaks.snapshot()
      open(MANY)
      for _, store in ipairs(stores) do
        assert(assert(store:lock(key)):release())
      end
      stores = {}
      collectgarbage()
      collectgarbage()
      collectgarbage()
      assert.same({}, leaks.since(before, 5))
    end)
  end)
end

describe("stores that share a client whose server stands still", function()
  it("are closed, both the last one and one that is under way", function()
    local one, stores, closed = redis.start(), {}, {}
    for i = 1, 13 do
      stores[i] = assert(dlock.open { url = one.url, io_timeout = 20 })
    end
    local queue = cqueues.new()
    queue:wrap(function()
      assert(stores[13]:lock("left"))
      one:pause()
      local begun
      queue:wrap(function()
        begun = true
        closed.left = { stores[13]:close(20) }
      end)
      repeat cqueues.sleep(0) until begun
      closed.last = { stores[1]:close(0.2) }
    end)
    assert(queue:loop(30))
    one:resume()
    one:stop()
    assert.same({ left = { true }, last = { true } }, closed)
  end)
end)
