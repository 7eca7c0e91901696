-- Requests that linger on an old connection and come to the server after what
-- was sent later. Where dlock may not have the server drop the old connection
-- (CLIENT KILL), nothing else keeps them away. Here they are sent once more, as
-- MONITOR saw them.

local dlock = require "dlock"
local private_redis = require "spec.support.private_redis"
local steady = require "spec.support.steady"

describe("late requests on redis:", function()
  local server, r, monitor, store, key
  local count = 0

  private_redis(function(...) server, r = ... end)

  local function set_up()
    count = count + 1
    key = "late-" .. count
    store = assert(dlock.open(server.url))
    assert(store:ping())
    monitor = server:connect()
    monitor:call("MONITOR")
  end

  local function tear_down()
    store:close(1)
    monitor:close()
  end

  local it = steady(set_up, tear_down)

  -- The words of the next call of a script for the key.
  local function seen()
    while true do
      local line = assert(monitor:read())
      local words = {}
      for word in line:gmatch('"(.-)"') do
        words[#words + 1] = word
      end
      if words[1] == "EVALSHA" and words[4] == "dlock:" .. key then
        return words
      end
    end
  end

  local function again(words)
    assert(r:call((table.unpack or unpack)(words)))
  end

  local KINDS = {
    mutex = function() return store:mutex(key) end,
    reader = function() return store:rwlock(key):read() end,
  }

  for name, lockable in pairs(KINDS) do
    it("a renewal takes nothing from an extension: " .. name, function()
      local lease = assert(lockable():acquire { ttl = 0.9 })
      seen() -- it was acquired
      local renewal = seen()
      assert(lease:extend(60))
      again(renewal)
      assert.is_true(r:call("PTTL", "dlock:" .. key) > 50000)
      assert.is_true(lease:extend(60) > 50)
      assert(lease:release())
    end)
  end
end)
