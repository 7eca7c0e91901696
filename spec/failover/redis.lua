-- Failovers under load, counted: eight processes take two locks of a primary
-- that Sentinels watch, again and again, while another one becomes the primary,
-- by SENTINEL FAILOVER or because it is killed (it is started again once
-- another one is named). Each round has servers of its own.
--
-- Then the same with holds of 0.3 to 1 s of four locks in a set that does not
-- settle: of each two failovers the second one comes as soon as the Sentinels
-- let it, though replicas are still being attached to the primary; in turns by
-- SENTINEL FAILOVER, and because the primary hangs until another one is named.
--
--   lua5.4 spec/failover/redis.lua ROUNDS [ROWS]    ROWS: 1 or 2 replicas, or
--   unsettled; default: all; or cluster: of a Redis Cluster of three primaries
--   one is lost, by CLUSTER FAILOVER or because it is killed
--
-- Counted are overlaps (two processes believed to hold one lock at one time, by
-- held() and the clock that they share), fences that fell, calls that did not
-- end in their time, calls that failed; and the longest time without a grant of
-- either lock, beside the time until the Sentinels named a primary that says so
-- itself. An overlap's length is how long both believed it.

local cluster = require "spec.support.cluster"
local core = require "dlock.core"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local sentinel = require "spec.support.sentinel"
local server = require "spec.support.server"
local uv = require "luv"

local ROUNDS = tonumber(arg[1]) or 10
-- How many replicas there are, and how many have to confirm.
local SETS = { { replicas = 1, wait = 0 }, { replicas = 1, wait = "all" },
  { replicas = 2, wait = 1 }, { replicas = 2, wait = "all" } }
local UNSETTLED = { { replicas = 2, wait = 1 }, { replicas = 2, wait = "all" } }
local OF_CLUSTER = arg[2] == "cluster"
-- How many locks, and for how long each is held.
local SHORT = { keys = 2, shortest = 0.005, longest = 0.025 }
local LONG = { keys = 4, shortest = 0.3, longest = 1 }
local CHANGES = 8 -- in a round of these
local WORKERS, BEFORE, AFTER = 8, 1, 3 -- seconds around a failover
local GRACE = 1 -- for a machine that stands still
local LIMITS = { lock = 10 + 2 + GRACE, release = 2 + GRACE }

local function sleep(seconds)
  loop.wait(seconds, function() return false end)
end

-- ---- one round ----

local function start_workers(dir, set, wait, of)
  local workers = {}
  for i = 1, WORKERS do
    local file, key = ("%s/worker-%d"):format(dir, i), "k" .. i % of.keys
    workers[i] = { file = file, key = key,
      process = process.spawn { file = "spec/failover/redis_worker.lua",
        args = { file, set.url, key, wait, of.shortest, of.longest } } }
    server.remember(workers[i].process.pid)
    workers[i].process:expect("^ready$")
  end
  return workers
end

local function change(set, kind)
  local before = set:primary()
  local from = core.now()
  if kind == "kill" then
    before:kill()
    set:switched(before)
  elseif kind == "hang" then
    before:pause()
    set:switched(before)
  else
    set:failover()
  end
  local named = core.now()
  if kind == "kill" then before:start_again() end
  if kind == "hang" then before:resume() end
  return from, named
end

local function read(worker)
  local holds, calls = {}, {}
  for line in io.lines(worker.file) do
    local fence, from, to, how = line:match("^h (%d+) (%S+) (%S+) (%S+)$")
    if fence then
      holds[#holds + 1] = { key = worker.key, fence = tonumber(fence),
        from = tonumber(from), to = tonumber(to), how = how, who = worker }
    else
      local what, a, b, code = line:match("^c (%S+) (%S+) (%S+) (%S+)$")
      calls[#calls + 1] = { what = what, from = tonumber(a), to = tonumber(b),
        code = code, key = worker.key }
    end
  end
  return holds, calls
end

-- changes: at which times another one was named.
local function disturb(set, kind)
  if kind ~= "unsettled" then
    local from, named = change(set, kind)
    return { from }, { named }
  end
  local from, named = {}, {}
  for i = 1, CHANGES do
    from[i], named[i] = change(set, i % 4 == 0 and "hang" or "planned")
    if i % 2 == 0 then sleep(AFTER) end
  end
  return from, named
end

-- The primary of the first lock, which it may lose.
local function start_cluster()
  local nodes = cluster.start { node_timeout = 1000 }
  local slot = nodes.nodes[1]:call("CLUSTER", "KEYSLOT", "dlock:k1")
  return { url = nodes.url,
    primary = function() return nodes:owner(slot) end,
    switched = function(_, before) return nodes:switched(slot, before) end,
    failover = function() return nodes:failover(slot) end,
    stop = function() nodes:stop() end }
end

local function round(kind, of)
  local set = OF_CLUSTER and start_cluster()
    or sentinel.start { replicas = of.replicas, down_after = 1000 }
  local dir = server.new_dir()
  local workers = start_workers(dir, set, of.wait,
    kind == "unsettled" and LONG or SHORT)
  sleep(BEFORE)
  local from, named = disturb(set, kind)
  sleep(AFTER)
  local stuck = 0
  for _, worker in ipairs(workers) do
    server.write_file(worker.file .. ".stop", "")
  end
  local holds, calls = {}, {}
  for _, worker in ipairs(workers) do
    if worker.process:wait(30) == nil then stuck = stuck + 1 end
    local h, c = read(worker)
    for _, one in ipairs(h) do holds[#holds + 1] = one end
    for _, one in ipairs(c) do calls[#calls + 1] = one end
  end
  process.close_all()
  set:stop()
  server.remove_dir(dir)
  return { holds = holds, calls = calls, from = from, named = named,
    stuck = stuck }
end

-- ---- what came of it ----

-- Of two in the order of their begin: how long both were believed.
local function overlaps(holds, into)
  table.sort(holds, function(a, b) return a.from < b.from end)
  local last = {}
  for _, one in ipairs(holds) do
    local other = last[one.key]
    if other and one.from < other.to then
      into[#into + 1] = math.min(one.to, other.to) - one.from
    end
    if not other or one.to > other.to then last[one.key] = one end
  end
end

-- Of two holds that did not overlap the later one has the larger fence.
local function fallen(holds)
  local count, newest = 0, {}
  for _, one in ipairs(holds) do
    local before = newest[one.key]
    if before and one.from > before.to and one.fence <= before.fence then
      count = count + 1
    end
    if not before or one.fence > before.fence then newest[one.key] = one end
  end
  return count
end

-- The longest time without a grant of a lock, around the changes.
local function outage(found)
  local longest, last = 0, {}
  local first, end_of = found.from[1], found.named[#found.named]
  for _, one in ipairs(found.holds) do
    local before = last[one.key]
    if before and one.from > first and before < end_of + 10 then
      longest = math.max(longest, one.from - before)
    end
    last[one.key] = one.from
  end
  return longest
end

local function judge(found, total)
  overlaps(found.holds, total.overlaps)
  total.fallen = total.fallen + fallen(found.holds)
  total.stuck = total.stuck + found.stuck
  total.holds = total.holds + #found.holds
  for _, one in ipairs(found.holds) do
    if one.how ~= "released" then
      total.ended[one.how] = (total.ended[one.how] or 0) + 1
    end
  end
  for _, one in ipairs(found.calls) do
    total.calls = total.calls + 1
    if one.to - one.from > LIMITS[one.what] then total.late = total.late + 1 end
    if one.code ~= "ok" then
      local name = one.what .. " " .. one.code
      total.failed[name] = (total.failed[name] or 0) + 1
    end
  end
  for i, from in ipairs(found.from) do
    total.named[#total.named + 1] = found.named[i] - from
  end
  total.outages[#total.outages + 1] = outage(found)
end

local function quantile(list, share)
  table.sort(list)
  return list[math.max(1, math.ceil(#list * share))] or 0
end

local function counted(list)
  local parts = {}
  for name, n in pairs(list) do
    parts[#parts + 1] = ("%s %d"):format(name, n)
  end
  table.sort(parts)
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

-- ---- the table ----

local KINDS = { planned = OF_CLUSTER and "`CLUSTER FAILOVER`"
  or "`SENTINEL FAILOVER`", kill = "kill -9",
  unsettled = "unsettled" }

print("| failover | replicas | `wait_replicas` | failovers | holds"
  .. " | overlaps (longest) | fences that fell | calls not ended in time"
  .. " | s to another primary: median, most | s without a grant: median, most"
  .. " | calls that failed |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
local bad = false
local function count(kind, of)
  local total = { overlaps = {}, fallen = 0, stuck = 0, holds = 0, calls = 0,
    late = 0, failed = {}, ended = {}, named = {}, outages = {} }
  local rounds = kind == "unsettled" and math.ceil(ROUNDS / CHANGES) or ROUNDS
  for _ = 1, rounds do
    judge(round(kind, of), total)
  end
  local late = total.late + total.stuck
  bad = bad or late > 0
    or of.wait == "all" and #total.overlaps + total.fallen > 0
  print(("| %s | %d | %s | %d | %d | %d (%.0f ms) | %d | %d | %.1f s, %.1f s |"
    .. " %.1f s, %.1f s | %s |"):format(KINDS[kind], of.replicas,
    of.wait == "all" and '"all"' or of.wait, #total.named, total.holds,
    #total.overlaps, 1000 * quantile(total.overlaps, 1), total.fallen, late,
    quantile(total.named, 0.5), quantile(total.named, 1),
    quantile(total.outages, 0.5), quantile(total.outages, 1),
    counted(total.failed)))
  io.stdout:flush()
end

local function count_all(rows)
  local settled = rows ~= "unsettled"
  local replicas = rows == "cluster" and 1 or tonumber(rows)
  for _, of in ipairs(settled and SETS or {}) do
    if not replicas or replicas == of.replicas then
      count("planned", of)
      count("kill", of)
    end
  end
  for _, of in ipairs(replicas and {} or UNSETTLED) do
    count("unsettled", of)
  end
end
count_all(arg[2])
uv.update_time()
os.exit(bad and 1 or 0)
