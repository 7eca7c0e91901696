-- What callers see when a store loses a server: the same loss many times, one
-- after the other, under eight processes that take one lock again and again;
-- three of them know one server each, the others all. Prints a row for each
-- kind of loss; ends with 1 when a promise of docs/guarantees.md was broken.
-- On PostgreSQL and MariaDB the primary is killed and the one that follows it
-- promoted; only where commits wait for that one no grant is lost.
-- usage: lua5.4 spec/failover/main.lua STORE ROUNDS
--   STORE: zookeeper, etcd, consul, postgres, mysql

package.path = "./?.lua;" .. package.path

local consul = require "spec.support.consul"
local core = require "dlock.core"
local crowd = require "spec.zookeeper.crowd"
local etcd = require "spec.support.etcd"
local loop = require "spec.support.loop"
local mysql_pair = require "spec.support.mysql_pair"
local postgres = require "spec.support.postgres"
local zk_ensemble = require "spec.support.zk_ensemble"

local PROCESSES, SESSION = 8, 4
local GONE = 2 -- seconds for which a killed server is away
local CUT = 6 -- a cut is longer than a session
local STILL = 3 -- a leader is stopped for longer than an election

local function wait(seconds)
  local till = core.now() + seconds
  loop.wait(seconds, function()
    return core.now() >= till
  end)
end

local function kill(three, id)
  three:kill(id)
  wait(GONE)
  three:start_again(id)
end

local ON = {}

ON.zookeeper = {
  start = function() return zk_ensemble.start { sync_limit = 6 } end,
  { name = "a follower killed", run = function(three, round)
    kill(three, (three:leader() + round % 2) % 3 + 1)
  end },
  { name = "the leader killed", run = function(three)
    kill(three, three:leader())
  end },
  { name = "a follower cut off", run = function(three, round)
    three:let_last_follow()
    assert(three:cut_off(round % 2 == 0 and "hold" or "reset"))
    wait(CUT)
    three:join()
  end },
}

ON.etcd = {
  start = function() return etcd.start { members = 3, between = true } end,
  { name = "a follower killed", run = ON.zookeeper[1].run },
  { name = "the leader killed", run = ON.zookeeper[2].run },
  { name = "the leader stopped", run = function(three)
    local id = three:leader()
    three[id]:pause()
    wait(STILL)
    three[id]:resume()
  end },
  { name = "the leader cut off", run = function(three)
    three:cut(three:leader())
    wait(CUT)
    three:join()
  end },
}

ON.consul = {
  start = function() return consul.start { members = 3, agent = true } end,
  ON.etcd[1], ON.etcd[2], ON.etcd[3],
}

local BEHIND = 3.5 -- seconds for which the follower hears nothing: over a ttl

local function fail_over(behind, synchronous)
  return function(two)
    if two.opts.synchronous ~= synchronous then
      two.opts.synchronous = synchronous
      two:primary():wait_for_commits(synchronous)
    end
    two:fail_over(behind)
  end
end

-- Rows of a primary and what follows it. best_effort: two holders are counted,
-- and no mistake.
local function with_followers(start, follower)
  return {
    start = start, ttl = 3, hold = 0.5, -- longer than a promotion
    { name = "the primary killed", best_effort = true,
      run = fail_over(nil, false) },
    { name = "the primary killed, its " .. follower .. " behind",
      best_effort = true, run = fail_over(BEHIND, false) },
    { name = "the primary killed, commits wait", run = fail_over(nil, true) },
    { name = "the primary killed, commits wait, its " .. follower .. " behind",
      run = fail_over(BEHIND, true) },
  }
end

ON.postgres = with_followers(function()
  return postgres.start { standbys = 1 }
end, "standby")

ON.mysql = with_followers(mysql_pair.start, "replica")

-- The longest time without a new hold of anybody, for each round.
local function pauses(starts, rounds)
  local list = {}
  for i, round in ipairs(rounds) do
    local to = rounds[i + 1] or math.huge
    local before, longest = nil, 0
    for _, start in ipairs(starts) do
      if start >= round - 1 and start < to then
        longest = math.max(longest, start - (before or start))
        before = start
      end
    end
    list[i] = longest
  end
  table.sort(list)
  return list[math.ceil(#list / 2)], list[#list]
end

local function sum_but_ok(codes)
  local sum = 0
  for code, count in pairs(codes) do
    sum = sum + (code == "ok" and 0 or count)
  end
  return sum
end

-- True if nothing was wrong.
local function report(loss, rounds, found)
  local middle, most = pauses(found.starts, rounds)
  local wrong = { found.holds.overlaps, found.holds.fences, found.calls.late,
    found.calls.strange }
  print(("| %s | %d | %d | %d | %d | %d | %d | %d | %.1f, %.1f |"):format(
    loss.name, #rounds, #found.starts, wrong[1].count, wrong[2].count,
    sum_but_ok(found.acquired), wrong[3].count, sum_but_ok(found.released),
    middle, most))
  local good = sum_but_ok(found.acquired) == 0
  for i, list in ipairs(wrong) do
    good = good and (list.count == 0 or i == 1 and loss.best_effort)
    for _, text in ipairs(list) do
      print("  " .. text)
    end
  end
  return good
end

local function count(three, loss, rounds, on)
  local some = crowd.start { url = three.url, count = PROCESSES,
    only = three.urls, session_timeout = SESSION, ttl = on.ttl,
    hold = on.hold }
  local began = {}
  some:wait_for_holds(2)
  for round = 1, rounds do
    began[round] = core.now()
    loss.run(three, round)
    assert(three:serves(60), "the servers serve nobody")
    some:wait_for_holds(1, core.now())
  end
  local found = some:finish()
  some:stop()
  return report(loss, began, found)
end

local on = assert(ON[arg[1]], "which store? see the top")
local rounds = assert(tonumber(arg[2]), "how many rounds?")
io.stdout:setvbuf("line")
print("| lost | times | holds | overlaps | falling fences | waits lost "
  .. "| late calls | leases lost | s without a new hold: median, most |")
print("|---|---|---|---|---|---|---|---|---|")
local three, good = on.start(), true
for _, loss in ipairs(on) do
  local ok, result = xpcall(count, debug.traceback, three, loss, rounds, on)
  good = ok and result and good
  if not ok then
    print(result)
    break
  end
end
three:stop()
require("spec.support.process").close_all()
os.exit(good and 0 or 1)
