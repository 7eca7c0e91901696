-- What callers see when two of five servers of a Redlock are lost: again and
-- again, under eight processes that take one lock. Prints a row for each kind
-- of loss; ends with 1 when a promise of docs/redlock.md was broken.
-- usage: lua5.4 spec/failover/redlock.lua ROUNDS

package.path = "./?.lua;" .. package.path

local core = require "dlock.core"
local crowd = require "spec.zookeeper.crowd"
local redlock = require "spec.support.redlock"
local uv = require "luv"

local PROCESSES, GONE = 8, 1000 -- ms for which they are away

local LOSSES = {
  { name = "two killed", lose = "kill", back = "start_again" },
  { name = "two hang", lose = "pause", back = "resume" },
}

local function away(set, round, call)
  for i = 0, 1 do
    local node = set.nodes[(round + 2 * i) % 5 + 1]
    node[call](node)
  end
end

-- The longest time without a new hold of anybody since `began`.
local function pause_of(starts, began)
  local before, longest = nil, 0
  for _, start in ipairs(starts) do
    if start >= began then
      longest = math.max(longest, start - (before or start))
      before = start
    end
  end
  return longest
end

local function count(loss, rounds)
  local set = redlock.start()
  local some = crowd.start { url = set.url, count = PROCESSES,
    session_timeout = 10 }
  some:wait_for_holds(1, 0, 120)
  local began = core.now()
  for round = 1, rounds do
    away(set, round, loss.lose)
    uv.sleep(GONE)
    away(set, round, loss.back)
    uv.sleep(GONE / 4)
  end
  local found = some:finish()
  some:stop()
  set:stop()
  print(("| %s | %d | %d | %d | %d | %d | %.2f |"):format(loss.name, rounds,
    #found.starts, found.holds.overlaps.count, found.holds.fences.count,
    found.calls.strange.count, pause_of(found.starts, began)))
  for _, list in ipairs { found.holds.overlaps, found.holds.fences,
      found.calls.strange } do
    for _, text in ipairs(list) do print("  " .. text) end
  end
  return found.holds.overlaps.count + found.holds.fences.count
    + found.calls.strange.count == 0
end

local rounds = assert(tonumber(arg[1]), "how many rounds?")
io.stdout:setvbuf("line")
print("| lost | times | holds | overlaps | falling fences | strange calls "
  .. "| s without a new hold, most |")
print("|---|---|---|---|---|---|---|")
local good = true
for _, loss in ipairs(LOSSES) do
  good = count(loss, rounds) and good
end
os.exit(good)
