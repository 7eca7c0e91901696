-- What stands on a server that refuses: what it will not take back now is taken
-- back when it writes again, and a request that it refuses half-way leaves no
-- lock and nothing beside it.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local locker = require "spec.support.locker"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local uv = require "luv"

describe("a redis that refuses", function()
  local private, admin, store, url
  private_redis(function(...) private, admin = ... end)

  before_each(function()
    store = assert(dlock.open(private.url))
    admin:call("ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all")
    url = private.url:gsub("//", "//u:pw@")
  end)
  after_each(function()
    process.close_all()
    admin:call("CONFIG", "SET", "min-replicas-to-write", "0")
    store:close()
    admin:call("ACL", "DELUSER", "u")
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

    it("has nothing to give back where it wrote nothing", function()
      assert(assert(store:try_lock("first")):release()) -- it has the script
      refuse_writes(true)
      local before = asked()
      for i = 1, 5 do
        assert.are.equal("unavailable", select(3, store:try_lock("none" .. i)))
      end
      assert(store:ping())
      assert.are.equal(before + 5, asked())
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

    it("is asked again only if that may pass by itself", function()
      local WORDS = { -- the last ones pass
        "ERR something nobody knows", "SURPRISE!", "ERR internal error",
        "ERR Unknown Redis command called from script script: f_0",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots",
        "NOREPLICAS Not enough good replicas to write.",
      }
      local rules = "local words = {}\n"
      for i, word in ipairs(WORDS) do
        rules = rules .. ("words['dlock:k%d'] = %q\n"):format(i,
          "-" .. word .. "\r\n")
      end
      local f = fake_server.start()
      local one = assert(dlock.open(f.url))
      local leases = {}
      for i = 1, #WORDS do
        leases[i] = assert(one:try_lock("k" .. i, { ttl = 60 }))
      end
      f:rules(rules .. [[
        return function(name, command)
          return name:find("^EVAL") and words[command[4] ] or true
        end]])
      -- How often each was asked for.
      local function counts()
        local list = {}
        for i = 1, #WORDS do list[i] = 0 end
        for _, line in ipairs(f:log()) do
          local i = tonumber(line:match("^EVAL.- dlock:k(%d+) "))
          if i then list[i] = list[i] + 1 end
        end
        return list
      end
      local before = counts()
      for i, lease in ipairs(leases) do
        assert.are.equal("unavailable", select(3, lease:release()), WORDS[i])
      end
      eventually("those that may pass are asked for", 20, function()
        local now = counts()
        for i = 5, #WORDS do
          if now[i] < before[i] + 5 then return false end
        end
        return true
      end)
      local now = counts()
      for i = 1, 4 do
        assert.are.equal(2, now[i] - before[i], WORDS[i]) -- in both ways
      end
      one:close(0.2)
      f:stop()
    end)
  end)

  -- Each right of the line in docs/security.md but those of connecting: what
  -- scripts need.
  local function rights()
    local list = {}
    local rule = io.open("docs/security.md"):read("*a")
      :match("ACL SETUSER app on >secret (.-)```")
    local probed = io.open("csrc/store/redis/scripts/probe.lua"):read("*a")
      .. "'EVALSHA'"
    for right in rule:gmatch("%+(%S+)") do
      if probed:find("'" .. right:upper():gsub("|.*", "") .. "'") then
        list[#list + 1] = right
      end
    end
    assert(#list > 22)
    return list
  end

  it("a message revokes without it, and leaves nothing for ever", function()
    local lease = assert(store:lock("revoked", { ttl = 60, renew = false }))
    local one = assert(dlock.open(url))
    assert(one:ping())
    admin:call("ACL", "SETUSER", "u", "-publish")
    local asked_to, message = one:revoke("revoked")
    local notes = admin:call("KEYS", "~dlock:{*}:i:dlock:revoked")[1]
    assert.is_truthy(notes)
    local left = admin:call("PTTL", notes)
    assert.is_true(left > 0 and left <= 61000, left)
    assert.is_true(asked_to, message)
    assert(lease:extend()) -- which finds the mark
    assert.is_true(lease:revoked())
    assert(lease:release())
    one:close()
  end)

  describe("an acquire half-way", function()
    local TAKES = {
      ["a try"] = function(one, key)
        return one:try_lock(key, { ttl = 60 })
      end,
      ["a reader"] = function(one, key)
        return one:rwlock(key):read():acquire { ttl = 60, timeout = 0.05 }
      end,
      ["a permit"] = function(one, key)
        return one:semaphore(key, 2):try_acquire { ttl = 60 }
      end,
      ["a leader"] = function(one, key)
        return one:election(key):campaign { ttl = 60, timeout = 0.05,
          value = "v" }
      end,
    }
    -- Who stands there before.
    local OTHERS = {
      nobody = function() end,
      ["a writer"] = function(key)
        return assert(store:lock(key, { ttl = 60 }))
      end,
      ["a reader"] = function(key)
        return assert(store:rwlock(key):read():acquire { ttl = 60 })
      end,
      ["a permit"] = function(key)
        return assert(store:semaphore(key, 2):acquire { ttl = 60 })
      end,
    }

    local function each_right(who, whom)
      local one = assert(dlock.open(url))
      assert(one:ping())
      for i, right in ipairs(rights()) do
        local key = "half" .. i
        local function parts()
          local list = admin:parts_of("dlock:" .. key)
          return #list + admin:call("EXISTS", "dlock:" .. key),
            table.concat(list, " ")
        end
        local held = OTHERS[whom](key)
        local before = parts()
        admin:call("ACL", "SETUSER", "u", "-" .. right)
        local lease, message = TAKES[who](one, key)
        -- No other commands take a place out of a queue; whoever stands behind
        -- it drops it.
        if not lease and right ~= "zrem" and right ~= "hdel" then
          eventually(("nothing is left without %s, %s: %s"):format(right,
            select(2, parts()), message), 5, function()
            return parts() == before
          end)
        end
        admin:call("ACL", "SETUSER", "u", "+@all")
        if not lease and (whom == "nobody" or who == whom) then
          lease = assert(TAKES[who](one, key))
        end
        if lease then lease:release() end
        if held then assert(held:release()) end
        eventually("nothing is left after " .. right, 5, function()
          return gone(key)
        end)
      end
      one:close()
    end

    for who in pairs(TAKES) do
      for whom in pairs(OTHERS) do
        it(("leaves nothing of %s behind %s"):format(who, whom), function()
          each_right(who, whom)
        end)
      end
    end
  end)
end)
