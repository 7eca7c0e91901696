-- In an event loop only the first of those who wait for a key stands in the
-- store's queue. What the others are told at the end of their time is true all
-- the same: that the lock is held, or that the server does not say whether it
-- is.
local cqueues = require "cqueues"
local dlock = require "dlock"
local hosts = require "spec.contract.hosts"
local proxy = require "spec.support.proxy"
local shared = require "spec.support.shared"

local URLS = { redis = shared.at("DLOCK_TEST_REDIS"),
  zookeeper = shared.at("DLOCK_TEST_ZOOKEEPER") }
local WAITERS = 10

local function spawn(fn)
  local queue = cqueues.running()
  if queue then queue:wrap(fn) else coroutine.wrap(fn)() end
end

-- Seconds to wait, also for the next time: a server that answers may be slow, a
-- silent one is not.
local ANSWERS, SILENT = { 0.4, 5 }, { 0.2 }

-- How the waits of some coroutines end, the first time or the next.
local function expect(pattern, host, store, key, timeouts)
  for i, timeout in ipairs(timeouts) do
    local told, other = 0, nil
    for _ = 1, WAITERS do
      spawn(function()
        local _, message = store:lock(key, { timeout = timeout })
        told = told + 1
        if not (message and message:find(pattern)) then
          other = message or "granted"
        end
      end)
    end
    while told < WAITERS do host.sleep(0.01) end
    if not other then return end
    assert(timeouts[i + 1], other)
  end
end

describe("waiters of an event loop, when the server is silent:", function()
  local function case(name, host)
    local url = URLS[name]
    local key = ("silent:%s:%s"):format(name, host.name)
    it(("all of them are told: %s, %s"):format(name, host.name), function()
      local between = proxy.start(url)
      local other = assert(dlock.open { url = url, host = "blocking" })
      local held, store = assert(other:lock(key)), nil
      finally(function()
        if store then
          host.run(function() store:close(2) end)
        end
        other:close(1)
        between:stop()
      end)
      host.run(function()
        store = assert(dlock.open { url = between.url,
          host = host.option, io_timeout = 1 })
        assert(store:ping(10))
        expect("^timeout: .* still held by ", host, store, key, ANSWERS)
        between:hold("down")
        expect("^unavailable: '" .. key, host, store, key, SILENT)
        between:release("down")
        while not store:ping() do host.sleep(0.01) end
        expect("^timeout: .* still held by ", host, store, key, ANSWERS)
        assert(store:close(2))
      end)
      assert(held:release())
    end)
  end

  for _, host in ipairs(hosts) do
    if not host.blocks then
      case("redis", host)
      case("zookeeper", host)
    end
  end
end)
