-- Three Consul servers of which some are killed or stopped: a hold outlives
-- that, and no second holder gets in.

local common = require "spec.consul.common"
local consul = require "spec.support.consul"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open, now = common.key, common.open, common.now

describe("with three servers,", function()
  local three

  local function start()
    three = consul.start { members = 3 }
  end

  local function stop()
    common.clean_up()
    if three then three:stop() end
    three = nil
  end

  local timed = steady(start, stop)

  -- Two servers that are not the leader, and the leader.
  local function roles()
    local leader = assert(three:leader())
    return leader % 3 + 1, (leader + 1) % 3 + 1, leader
  end

  -- Looks for `seconds`, a try at a time, that the lease keeps others out.
  local function keeps_out(lease, other, k, seconds)
    local limit = now() + seconds
    repeat
      local got, message, code = other:try_lock(k)
      assert.is_nil(got)
      assert.is_true(code == "busy" or code == "unavailable", message)
      assert.is_true(lease:held())
      uv.sleep(50)
    until now() > limit
  end

  timed("a hold outlives the leader, killed and stopped", function()
    local mine, others = roles()
    local a = open { url = three[mine].url, session_timeout = 10 }
    local b = open { url = three[others].url, session_timeout = 10 }
    local k, fence = key(), 0
    for _, what in ipairs { "kill", "pause" } do
      local _, _, leader = roles()
      if leader == mine or leader == others then break end
      local lease = assert(a:lock(k, { timeout = 60 }))
      assert.is_true(lease.fence > fence)
      three[leader][what](three[leader])
      keeps_out(lease, b, k, 4)
      three[leader][what == "kill" and "start_again" or "resume"](three[leader])
      assert(three:serves(60))
      assert(lease:extend(nil))
      assert.is_true(lease:held())
      assert(lease:release())
      lease = assert(b:lock(k, { timeout = 60 }))
      fence = lease.fence
      assert(lease:release())
    end
  end)

  timed("a server without the others serves nobody, and a hold there ends",
    function()
      local one, two, leader = roles()
      local alone = open { url = three[one].url, io_timeout = 0.5 }
      local k = key()
      local lease = assert(alone:lock(k, { timeout = 60 }))
      three[two]:pause()
      three[leader]:pause()
      local stopped = now()
      assert.is_true(lease:wait_lost(10))
      assert.is_true(now() - stopped < 4.1)
      assert.are.equal("unavailable", select(3, alone:try_lock(k)))
      three[two]:resume()
      three[leader]:resume()
      assert(alone:lock(k, { timeout = 60 })):release()
    end)

  timed("a wait hears of the release though its server was killed", function()
    local one, two = roles()
    local a, b = open { url = three[one].url, session_timeout = 20 },
      open { url = three[two].url, session_timeout = 20 }
    local k = key()
    local lease = assert(a:lock(k, { timeout = 60 }))
    local mutex = assert(b:mutex(k))
    assert.are.equal("timeout", select(3, mutex:acquire { timeout = 0.3 }))
    three[two]:kill()
    three[two]:start_again()
    assert(lease:release())
    assert(mutex:acquire { timeout = 60 }):release()
  end)

  -- Its node leaves the catalog, and with it go the sessions made there.
  timed("an agent that leaves ends its sessions, and lock-delay bars the keys",
    function()
      local one, two = roles()
      local a, b = open { url = three[one].url },
        open { url = three[two].url }
      local k = key()
      local lease = assert(a:lock(k, { timeout = 60 }))
      assert(consul.get(three[one].url, "/v1/agent/leave", ""))
      local got
      repeat
        got = b:try_lock(k)
      until got
      assert.is_false(lease:held())
      assert(got:release())
    end)
end)
