-- What the events of a Redis say under a URL of hundreds of bytes: whatever of
-- that is left out, the end of the text is there, which says what to do.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local redis = require "spec.support.redis"

describe("under a long URL an event of redis ends with its advice:", function()
  local server, admin, store, texts

  before_each(function()
    server, texts = redis.start(), {}
    admin = server:connect()
  end)

  after_each(function()
    store:close(1)
    admin:close()
    server:stop()
  end)

  -- The same address, in as many digits as a name may have bytes.
  local function open()
    local url = server.url:gsub("127%.0%.0%.1",
      "127.0.0." .. ("0"):rep(220) .. "1")
    store = assert(dlock.open { url = url, connect_timeout = 5,
      on_event = function(event) texts[event.kind] = event.message end })
    assert(store:ping())
  end

  it("eviction", function()
    admin:call("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    open()
    assert(store:ping())
    assert.matches("maxmemory%-policy is volatile%-lru: locks can be evicted "
      .. "and held twice; use noeviction$", texts.eviction)
  end)

  it("clock", function()
    open()
    local lease = assert(store:lock("a", { ttl = 60 }))
    assert(lease:extend(60))
    admin:call("PEXPIRE", "dlock:a", 30000)
    assert(lease:extend(60))
    eventually("the event", 9, function()
      assert(store:ping())
      return texts.clock
    end)
    assert.matches("the server's clock stepped: a lock had %d+ ms left there, "
      .. "at least %d+ ms by ours; locks may end early or late$", texts.clock)
  end)
end)
