-- The connection for messages leads to another server than the one for
-- commands: the address is that of several servers, or another one has taken
-- its place and no connection was closed. A replica passes on what its primary
-- publishes, though its listeners do not count there.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local locker = require "spec.support.locker"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"

local CHANNELS = "~dlock:c:*"

describe("messages on redis that come from another server:", function()
  local primary, replica, at_primary, at_replica, between, store

  local function address(server)
    return "127.0.0.1:" .. server.port
  end

  -- Who may not ask which server it is cannot tell that they are two.
  local BLIND = "blind:pw@"

  before_each(function()
    local config = { ["repl-diskless-sync-delay"] = 0 }
    primary = redis.start(config)
    config.replicaof = "127.0.0.1 " .. primary.port
    replica = redis.start(config)
    at_primary, at_replica = primary:connect(), replica:connect()
    eventually("the replica follows", 20, function()
      return at_primary:call("INFO", "replication"):find("state=online", 1,
        true)
    end)
    for _, admin in ipairs { at_primary, at_replica } do
      admin:call("ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all",
        "-info")
    end
    between = proxy.start(primary.url)
    store = assert(dlock.open(primary.url))
  end)

  after_each(function()
    process.close_all()
    store:close(1)
    between:stop()
    at_primary:close()
    at_replica:close()
    primary:stop()
    replica:stop()
  end)

  -- A process that has a connection for commands, at the primary.
  local function connected(user)
    local p = locker(between.url:gsub("//", "//" .. user, 1), "k",
      { ttl = 30 })
    p:write("lock\n")
    p:expect("^got")
    p:write("release\n")
    p:expect("^released$")
    return p
  end

  local function listened_at(admin)
    return #admin:call("PUBSUB", "CHANNELS", CHANNELS)
  end

  local function queued()
    return at_primary:queued("dlock:k")
  end

  it("a hand-off that nobody heard is heard nowhere", function()
    local deaf = connected(BLIND)
    local lease = assert(store:lock("k"))
    between:lead(address(replica))
    deaf:write("lock\n")
    eventually("it queues", 9, function() return queued() == 1 end)
    eventually("it listens at the replica", 9, function()
      return listened_at(at_replica) == 1
    end)
    local next_one = locker(primary.url, "k", { ttl = 30 })
    next_one:write("lock\n")
    eventually("another one queues", 9, function() return queued() == 2 end)
    assert(lease:release())
    local _, fence = next_one:expect("^got (%d+)")
    eventually("it is back in the queue", 9, function()
      return queued() == 1
    end)
    next_one:write("release\n")
    next_one:expect("^released$")
    -- It gets the lock behind the other one, and not when it was passed by.
    local _, later = deaf:expect("^got (%d+)")
    assert.is_true(tonumber(later) > tonumber(fence))
    deaf:write("release\n")
    deaf:expect("^released$")
  end)

  it("it is connected anew until it is at the one that serves", function()
    local p = connected("")
    assert(store:lock("k"))
    between:lead(address(replica), 2)
    p:write("lock\n")
    eventually("it listens at the primary", 9, function()
      return listened_at(at_primary) == 1
    end)
    assert.equal(0, listened_at(at_replica))
  end)

  -- The old primary becomes a replica, and closes no subscription.
  local function takes_over(user)
    local p = connected(user)
    assert(store:lock("k"))
    p:write("lock\n")
    eventually("it listens", 9, function()
      return listened_at(at_primary) == 1
    end)
    at_replica:call("REPLICAOF", "NO", "ONE")
    between:lead(address(replica))
    at_primary:call("REPLICAOF", "127.0.0.1", replica.port)
    eventually("it listens at the new primary", 20, function()
      return listened_at(at_replica) == 1
    end)
    assert.equal(0, listened_at(at_primary))
  end

  it("it is connected anew when commands go to another one", function()
    takes_over ""
  end)

  it("it is connected anew when that may be another one", function()
    takes_over(BLIND)
  end)
end)
