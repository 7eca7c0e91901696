-- The renewal thread alone: a program holds a lease on redis+sentinel:// and
-- computes, so it calls nothing of dlock while another server becomes the
-- primary. Its lease has to go on there if that one has it; else it is lost.
--
-- What the replica has is waited for before the primary changes: what was not
-- copied cannot go on.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local process = require "spec.support.process"
local sentinel = require "spec.support.sentinel"
local server = require "spec.support.server"

-- arg: URL, ttl, a file. Ends when that is there, or when the lease is lost
-- (held() looks at what the thread knows, and runs nothing).
local HOLDER = [[
  local dlock = require "dlock"
  local store = assert(dlock.open(arg[1]))
  local lease = assert(store:lock("k", { ttl = tonumber(arg[2]),
    timeout = 60 }))
  print "held"
  io.flush()
  repeat
    local file = io.open(arg[3])
  until file or not lease:held()
  print(lease:held(), store:stats().lost)
  store:close(1)
]]

-- ms that a server keeps the lock for; -2: it has none.
local function left(node)
  return tonumber(sentinel.tell(node, "PTTL", "dlock:k")) or -2
end

for _, change in ipairs { "failover", "kill -9", "kill -STOP" } do
  describe("a program that computes, and a " .. change .. ":", function()
    local set, store, done

    before_each(function()
      -- A busy machine is silent for longer than the 0.2 s of other specs, and
      -- a planned failover does not wait for anybody to be taken for dead.
      set = sentinel.start { replicas = 1,
        down_after = change == "failover" and 30000 or 1000 }
      done = set.nodes[1].dir .. "/computed"
    end)

    after_each(function()
      process.close_all()
      if store then store:close(1) end
      store = nil
      set:stop()
    end)

    local function start(ttl)
      return process.spawn { script = HOLDER, args = { set.url, ttl, done } }
    end

    local function finish(holder)
      server.write_file(done, "")
      assert.equal(0, (holder:wait(20)))
      assert.matches("true%s+0", holder.out)
    end

    local function copied()
      local replica = set:replica()
      eventually("a copy", 20, function() return left(replica) > 0 end)
      return replica
    end

    -- One that was given the lock by a message: it is renewed soon after, and
    -- from then on its program is told of other primaries.
    local function start_and_renew()
      store = assert(dlock.open(set.url))
      local first = assert(store:lock("k", { ttl = 60 }))
      local holder = start(600)
      eventually("one who waits", 20, function()
        return #assert(store:inspect("k")).waiters == 1
      end)
      assert(first:release())
      holder:expect("^held$")
      eventually("its renewal", 20, function()
        return left(set:primary()) > 500000
      end)
      return holder
    end

    local function another_primary()
      if change == "failover" then return set:failover() end
      local before = set:primary()
      if change == "kill -9" then before:kill() else before:pause() end
      return set:switched(before)
    end

    it("its lease is renewed on the new one", function()
      local holder = start(15)
      holder:expect("^held$")
      copied()
      local now = another_primary()
      -- By the next renewal, after a third of the ttl.
      local least = left(now)
      assert.is_true(least > 0)
      eventually("renewed", 20, function()
        local ms = left(now)
        least = math.min(least, ms)
        return ms > least + 1000
      end)
      finish(holder)
    end)

    it("it is renewed there long before that is due, once it heard of it",
    function()
      local holder = start_and_renew()
      local replica = copied()
      sentinel.tell(set:primary(), "PEXPIRE", "dlock:k", 300000)
      eventually("a shorter time", 20, function()
        return left(replica) <= 300000
      end)
      local now = another_primary()
      eventually("renewed", 30, function() return left(now) > 310000 end)
      finish(holder)
    end)

    it("it is lost long before that, when the new one does not have it",
    function()
      local holder = start_and_renew()
      local replica = copied()
      sentinel.tell(replica, "CONFIG", "SET", "replica-read-only", "no")
      sentinel.tell(replica, "DEL", "dlock:k")
      another_primary()
      assert.equal(0, (holder:wait(30)))
      assert.matches("false%s+1", holder.out)
    end)
  end)
end
