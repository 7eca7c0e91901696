-- What a Redis Cluster of three primaries adds to a pair and to a hand-off:
-- dlock there against dlock on one server. redis-py's lock on the same cluster
-- stands beside it where it is installed.

local cluster = require "spec.support.cluster"
local costs = require "bench.costs"
local handoff = require "bench.handoff"
local programs = require "bench.programs"
local settings = require "bench.settings"
local uncontended = require "bench.pairs"

local clusters = {}

-- Counters of all nodes, summed up.
local function counters_of(nodes)
  local list = {}
  for i, node in ipairs(nodes) do
    list[i] = costs.redis(assert(node:connect()))
  end
  return function(after)
    local sum = {}
    for _, counters in ipairs(list) do
      for name, value in pairs(counters(after)) do
        sum[name] = (sum[name] or 0) + value
      end
    end
    return sum
  end
end

--- private: a server (spec/support/redis.lua). Starts a cluster of its own.
function clusters.redis(private)
  local set = cluster.start { replicas = 0 }
  local one, all = counters_of { private }, counters_of(set.nodes)
  local lua = settings.luas[1]
  local function contenders(...)
    local words = { ... }
    local function ours(name, url, counters)
      return { name = name, counters = counters,
        figures = costs.of_redis("dlock"), program = function()
          return programs.lua(lua, "bench/worker.lua", url,
            (table.unpack or unpack)(words))
        end }
    end
    local list = { ours("one server", private.url, one),
      ours("cluster", set.url, all) }
    local peer = programs.peer("redis.cluster", "redis",
      "cluster:" .. set.nodes[1].port, (table.unpack or unpack)(words))
    if peer then
      list[3] = { name = "redis-py", counters = all,
        figures = costs.of_redis("peer"), program = function() return peer end }
    end
    return list
  end
  local ok, problem = pcall(function()
    uncontended.compare("Redis Cluster, uncontended, 1 process",
      contenders "pairs", 1)
    handoff.compare("Redis Cluster", function(hold)
      return contenders("handoff", hold)
    end)
  end)
  set:stop()
  return ok or error(problem, 0)
end

return clusters
