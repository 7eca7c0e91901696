-- dlock beside other libraries, 8 processes on one key: `make bench-peers`. The
-- contenders' rounds are interleaved. Prints each figure's best and median, and
-- a table of the medians for docs/performance.md.

local figures = require "bench.figures"
local handoff = require "bench.handoff"
local process = require "spec.support.process"
local programs = require "bench.programs"
local redis = require "spec.support.redis"
local settings = require "bench.settings"
local zk = require "spec.support.zk"

local COUNT, HOLD, WARM = 8, 0, 1
local MODULES = os.getenv("BENCH_MODULES")
local CLASSES = os.getenv("BENCH_CLASSES")

local FIGURES = {
  { "rate", "pairs a second", most = true },
  { "user", "client user a pair, us" },
  { "system", "client system a pair, us" },
  { "p50", "p50 of a hand-over, us" },
  { "p99", "p99 of a hand-over, us" },
  { "changed", "holds that change hands, %", most = true },
  { "even", "fewest / most", most = true },
}

local function node(library, port)
  return { command = { "node", "bench/peer_node.mjs", library, tostring(port),
    "handoff", tostring(HOLD) }, env = { BENCH_MODULES = MODULES } }
end

local function curator(address)
  return { command = { "java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp",
    CLASSES, "PeerCurator", address, "handoff", tostring(HOLD) } }
end

-- name, program…
local function contenders(...)
  local list, all = {}, { ... }
  for i = 1, #all, 2 do
    list[#list + 1] = { name = all[i], figures = function() return {} end,
      program = function() return all[i + 1] end }
  end
  return list
end

local function table_of(store, list, medians)
  figures.say("| %s | pairs/s | client CPU a pair, µs | hand-over p50, µs |"
    .. " p99, µs | change hands, %% | least / most |", store)
  figures.say("|---|---|---|---|---|---|---|")
  for i, contender in ipairs(list) do
    local m = medians[i]
    figures.say("| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f |",
      contender.name, m.rate, m.user + m.system, m.p50 or 0, m.p99 or 0,
      m.changed, m.even)
  end
end

local function measure(store, list)
  local results, seconds = {}, math.max(settings.seconds, 1)
  for i = 1, #list do results[i] = {} end
  figures.rounds(("%s, %d processes on one key, %.1f s"):format(store, COUNT,
    seconds), FIGURES, list, function(opts)
    local found = handoff.round(opts, COUNT, seconds, WARM)
    for i, contender in ipairs(list) do
      if contender == opts then table.insert(results[i], found) end
    end
    return found
  end)
  local medians = {}
  for i, rounds in ipairs(results) do
    medians[i] = {}
    for _, figure in ipairs(FIGURES) do
      local values = {}
      for _, found in ipairs(rounds) do
        values[#values + 1] = found[figure[1]]
      end
      medians[i][figure[1]] = #values > 0 and figures.median(values) or nil
    end
  end
  table_of(store, list, medians)
end

local function worker(url)
  return programs.lua("lua5.4", "bench/worker.lua", url, "handoff", HOLD)
end

local function on(private, fn)
  local ok, problem = pcall(fn)
  private:stop()
  process.close_all()
  return ok or error(problem, 0)
end

local server = redis.start()
on(server, function()
  measure("Redis", contenders("dlock", worker(server.url),
    "redis-py", programs.peer("redis", "redis", server.port, "handoff", HOLD),
    "redlock", node("redlock", server.port),
    "redis-semaphore", node("redis-semaphore", server.port)))
end)
local ensemble = zk.start()
on(ensemble, function()
  local address = ensemble.url:match("//([^/]+)")
  measure("ZooKeeper", contenders("dlock", worker(ensemble.url),
    "kazoo", programs.peer("kazoo", "zookeeper", address, "handoff", HOLD),
    "Curator", curator(address)))
end)
