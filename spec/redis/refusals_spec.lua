-- What stands on a server that refuses: what it will not take back now is taken
-- back when it writes again, and a request that it refuses half-way leaves no
-- lock and nothing beside it.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local locker = require "spec.support.locker"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local uv = require "luv"

describe("a redis that refuses", function()
  local private, admin, store
  private_redis(function(...) private, admin = ... end)

  before_each(function() store = assert(dlock.open(private.url)) end)
  after_each(function()
    process.close_all()
    admin:call("CONFIG", "SET", "min-replicas-to-write", "0")
    store:close()
    admin:call("FLUSHALL")
  end)

  local function gone(key)
    return admin:has_nothing_of("dlock:" .. key)
  end

  local function refuse_writes(yes)
    admin:call("CONFIG", "SET", "min-replicas-to-write", yes and "1" or "0")
  end

  -- So many requests were made, by script.
  local function asked()
    local counts = admin:command_counts()
    return (counts.evalsha or 0) + (counts.eval or 0)
  end

  describe("every write for a while", function()
    it("takes a release that was refused when it writes again", function()
      local lease = assert(store:lock("rel", { ttl = 60 }))
      local shared = assert(store:semaphore("sem", 1):acquire { ttl = 60 })
      refuse_writes(true)
      for _, one in ipairs { lease, shared } do
        assert.are.equal("unavailable", select(3, one:release()))
      end
      local before = asked()
      eventually("it was asked again in vain", 10, function()
        return asked() >= before + 4
      end)
      assert.are.equal(1, admin:call("EXISTS", "dlock:rel"))
      refuse_writes(false)
      eventually("both are free", 10, function()
        return gone("rel") and gone("sem")
      end)
    end)

    it("drops the place of a wait that ended when it writes again", function()
      local lease = assert(store:lock("wait", { ttl = 60 }))
      local w = locker(private.url, "wait", { ttl = 60 })
      w:write("lock\n")
      eventually("it queues", 5, function()
        return admin:queued("dlock:wait") == 1
      end)
      refuse_writes(true)
      w:expect("^unavailable")
      assert.are.equal(1, admin:queued("dlock:wait"))
      refuse_writes(false)
      eventually("it has no place", 10, function()
        return admin:queued("dlock:wait") == 0
      end)
      assert(lease:release())
    end)

    it("is not asked at once again and again", function()
      local lease = assert(store:lock("calm", { ttl = 60 }))
      refuse_writes(true)
      local before, from = asked(), uv.hrtime()
      assert.are.equal("unavailable", select(3, lease:release()))
      eventually("it was asked again in vain", 20, function()
        return asked() >= before + 4
      end)
      assert.is_true(uv.hrtime() - from > 1e9)
      refuse_writes(false)
      eventually("it is free", 10, function() return gone("calm") end)
    end)
  end)
end)
