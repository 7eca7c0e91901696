-- Who waits for another holder of a lock on Redis, and has a name there: those
-- who died leave none behind while others ask on.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"

-- Waits for another leader.
local WATCHER = [[
  local e = require("dlock").open(arg[1]):election("chief")
  e:leader()
  print(tostring(e:wait_change(60)))
]]

describe("those who wait for another holder on redis:", function()
  local private, admin, store
  private_redis(function(...) private, admin = ... end)

  before_each(function() store = assert(dlock.open(private.url)) end)
  after_each(function()
    process.close_all()
    store:close()
    admin:call("FLUSHALL")
  end)

  local function names()
    return admin:call("KEYS", "~dlock:{*}:n:dlock:chief")[1]
  end

  -- So many, who asked so many ms ago and were never heard of again.
  local function add(count, name, ms)
    local time = admin:call("TIME")
    local score = time[1] * 1000 + math.floor(time[2] / 1000) - ms
    local list = {}
    for i = 1, count do
      list[#list + 1] = ("%.0f"):format(score)
      list[#list + 1] = "~dlock:c:" .. name .. i
    end
    admin:call("ZADD", names(), (table.unpack or unpack)(list))
  end

  it("the names of the dead go, those of the living stay", function()
    local lease = assert(store:election("chief"):campaign { ttl = 60 })
    local p = process.spawn { script = WATCHER, args = { private.url } }
    eventually("it watches", 5, names)
    add(150, "dead", 10000)
    add(3, "living", -60000)
    eventually("the dead are gone", 10, function()
      return admin:call("ZCARD", names()) == 4
    end)
    assert.are.equal(3, #admin:call("ZRANGEBYSCORE", names(),
      admin:call("TIME")[1] * 1000 + 30000, "+inf"))
    lease:resign()
    p:expect("^true$")
  end)
end)
