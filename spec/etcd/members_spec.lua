-- Three etcd members of which some are killed, stopped or cut off from the
-- others: a client goes to another one with its session, a hold outlives that,
-- and no second holder gets in.

local common = require "spec.etcd.common"
local etcd = require "spec.support.etcd"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open, now = common.key, common.open, common.now

describe("with three members,", function()
  local three

  local function start()
    three = etcd.start { members = 3 }
  end

  local function stop()
    common.clean_up()
    if three then three:stop() end
    three = nil
  end

  local timed = steady(start, stop)

  -- Looks for `seconds`, a try at a time, that the lease keeps others out.
  local function keeps_out(lease, other, k, seconds)
    local limit = now() + seconds
    repeat
      local got, message, code = other:try_lock(k)
      assert.is_nil(got, got and (lease:held() and "two hold" or "it was lost"))
      assert.is_true(code == "busy" or code == "unavailable", message)
      assert.is_true(lease:held())
      uv.sleep(50)
    until now() > limit
  end

  timed("a hold outlives each of them", function()
    -- An election and a new connection take seconds on a loaded machine.
    local way = { url = three.url, session_timeout = 12 }
    local a, b, k = open(way), open(way), key()
    local fence = 0
    for _, one in ipairs(three) do
      local lease = assert(a:lock(k, { timeout = 15 }))
      assert.is_true(lease.fence > fence)
      fence = lease.fence
      one:kill()
      keeps_out(lease, b, k, 2)
      assert(lease:extend())
      one:start_again()
      assert(lease:release())
      lease = assert(b:lock(k, { timeout = 15 }))
      assert.is_true(lease.fence > fence)
      fence = lease.fence
      assert(lease:release())
    end
  end)

  timed("a hold outlives a leader that stands still", function()
    -- On a loaded machine an election takes seconds, and several rounds.
    local way = { url = three.url, io_timeout = 0.7, session_timeout = 12 }
    local a, b, k = open(way), open(way), key()
    local lease, leader = assert(a:lock(k)), assert(three:leader())
    three[leader]:pause()
    keeps_out(lease, b, k, 14)
    three[leader]:resume()
    keeps_out(lease, b, k, 1)
    assert(lease:release())
    assert(b:lock(k, { timeout = 10 })):release()
  end)

  timed("a wait hears of the release through another member", function()
    local a, b, k = open { url = three.url }, open { url = three.url }, key()
    local lease = assert(a:lock(k))
    local mutex = assert(b:mutex(k))
    for _, one in ipairs(three) do
      assert.are.equal("timeout", select(3, mutex:acquire { timeout = 0.3 }))
      one:kill()
      one:start_again()
    end
    assert(lease:extend())
    assert(lease:release())
    assert(mutex:acquire { timeout = 10 }):release()
  end)

  timed("a member without the others serves nobody, and a hold there ends",
    function()
      local alone, k = open { url = three[3].url, io_timeout = 0.5 }, key()
      local lease = assert(alone:lock(k))
      three[1]:pause()
      three[2]:pause()
      local stopped = now()
      assert.is_true(lease:wait_lost(10))
      assert.is_true(now() - stopped < 4.1)
      assert.are.equal("unavailable", select(3, alone:try_lock(k)))
      three[1]:resume()
      three[2]:resume()
      assert(alone:lock(k, { timeout = 20 })):release()
    end)

  timed("one cut off from the others loses its hold before the next begins",
    function()
      three:stop()
      three = etcd.start { members = 3, between = true }
      local b, k = open { url = three.url }, key()
      for _, which in ipairs { "the leader", "a follower" } do
        local id = assert(three:leader())
        id = which == "the leader" and id or id % 3 + 1
        local alone = open { url = three[id].url, io_timeout = 0.7 }
        local lease = assert(alone:lock(k, { timeout = 15 }))
        three:cut(id)
        local later = assert(b:lock(k, { timeout = 30 }))
        assert.is_false(lease:held(), which)
        assert.is_true(later.fence > lease.fence)
        assert.are.equal("unavailable", select(3, alone:try_lock(k)))
        assert(later:release())
        three:join()
        assert(alone:lock(k, { timeout = 20 })):release()
      end
    end)

  timed("one that is away at first costs no more than its turn", function()
    three[1]:kill()
    for _ = 1, 4 do -- each begins with another one
      local store = open { url = three.url }
      local opened = now()
      assert(store:lock(key(), { timeout = 3 })):release()
      assert.is_true(now() - opened < 2)
    end
  end)
end)
