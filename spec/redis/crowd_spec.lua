-- Queues of the dead on Redis: a process with 500 waits is killed, and the next
-- live waiter is the next holder.

local context = require "spec.contract.context"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

-- A line for the peer: n waits of one client, none of them ever looked at.
local QUEUE_UP = "core = require 'dlock.core'"
  .. " local engine = require 'spec.support.engine' e = assert(engine.new("
  .. "require 'dlock.store.redis', { shown = 'x', scheme = 'redis',"
  .. " hosts = { { host = '%s', port = %d } }, path = '' }))"
  .. " tickets = {} for i = 1, %d do tickets[i] = engine.acquire(e, '%s',"
  .. " { units = %d, timeout = 60 }) end core.drive(tickets[1], 0.2)"

describe("a crowd on Redis", function()
  local t

  local function set_up() t = context.new(subjects[1]) end
  local function tear_down()
    t:clean_up()
    process.close_all()
  end

  local timed = steady(set_up, tear_down)

  local function crowd(peer, n, key, units)
    local host, port = subjects[1].url():match("//([%d.]+):(%d+)")
    peer:run(QUEUE_UP, host, port, n, key, units)
    t:eventually("all wait", function()
      peer:run("core.drive(tickets[1], 0.05)")
      return subjects[1].waiters(key) == n
    end)
  end

  -- (A run of specs has a server of its own.)
  local function scripts_run()
    local admin = assert(redis.connect(subjects[1].url()))
    local counts = admin:command_counts()
    admin:close()
    return (counts.evalsha or 0) + (counts.eval or 0)
  end

  for units, kind in pairs { [0] = "writers", [1] = "readers" } do
    timed("500 dead " .. kind .. " cost the next one few scripts", function()
      local store, key = t:open(), t:key()
      local dead, live = t:peer(), t:peer()
      local lease = assert(store:lock(key))
      crowd(dead, 500, key, units)
      live:start("l = assert(store:lock('%s', { timeout = 30 }))", key)
      t:queued(key, 501)
      dead:kill()
      local before = scripts_run()
      assert(lease:release())
      live:finish(40)
      local run = scripts_run() - before
      assert.is_true(run <= 10, run) -- mostly 2
      live:run("l:release()")
      t:expect_nothing_left()
    end)
  end

  -- Or they would push the living behind those who watch over the holder.
  it("the dead are gone while the lock is held", function()
    local store, key = t:open(), t:key()
    local dead, live = t:peer(), t:peer()
    local lease = assert(store:lock(key))
    crowd(dead, 60, key, 0)
    live:start("l = assert(store:lock('%s', { timeout = 30 }))", key)
    t:queued(key, 61)
    dead:kill()
    t:eventually("one is left", function()
      return subjects[1].waiters(key) == 1
    end)
    assert(lease:release())
    live:finish()
    live:run("l:release()")
    t:expect_nothing_left()
  end)
end)
