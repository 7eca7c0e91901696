-- dlock beside other libraries, 8 processes on one key, or 8 handlers of one
-- nginx: `make bench-peers`. The contenders' rounds are interleaved. Prints the
-- best and the median of each figure, and a table of the medians, which
-- docs/performance.md has and docs/pictures/draw.lua draws.
-- usage: luajit bench/peers.lua [redis] [nginx] [zookeeper]   (all of them)

local figures = require "bench.figures"
local handoff = require "bench.handoff"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local programs = require "bench.programs"
local redis = require "spec.support.redis"
local settings = require "bench.settings"
local uv = require "luv"
local zk = require "spec.support.zk"

local COUNT, HOLD, WARM = 8, 0, 1 -- WARM: s, a Java machine takes longer
local MODULES = os.getenv("BENCH_MODULES")
local CLASSES = os.getenv("BENCH_CLASSES")

local FIGURES = {
  { "rate", "pairs a second", most = true },
  { "user", "client user a pair, us" },
  { "system", "client system a pair, us" },
  { "p50", "p50 of a hand-off, us" },
  { "p99", "p99 of a hand-off, us" },
  { "changed", "holds that change hands, %", most = true },
  { "even", "fewest / most", most = true },
}

local function node(library, port)
  return { command = { "node", "bench/peer_node.mjs", library, tostring(port),
    "handoff", tostring(HOLD) }, env = { BENCH_MODULES = MODULES } }
end

local function curator(address)
  return { command = { "java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp",
    CLASSES, "PeerCurator", address, "handoff", tostring(HOLD) }, warm = 5 }
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
  figures.say("| %s | pairs/s | client CPU a pair, µs | hand-off p50, µs |"
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
  figures.rounds(("%s, %d on one key, %.1f s"):format(store, COUNT, seconds),
    FIGURES, list, function(opts)
    local found = handoff.round(opts, COUNT, seconds,
      opts.program().warm or WARM)
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

local WORKERS = 4
local HTTP = [[
  lua_shared_dict turns 1m;
  init_by_lua_block {
    turns = require "bench.turns"
    local dlock = require "dlock"
    local url = os.getenv("DLOCK_TEST_REDIS")
    locks = {}
    local function put(name, ...) locks[name] = { ... } end
    put("dlock", turns.locks.dlock(assert(dlock.open(url))))
    put("files", turns.locks.dlock(assert(dlock.open("file://@dir@"))))
    put("by_hand", turns.locks.by_hand(tonumber(url:match(":(%d+)$"))))
    put("shared_dict", turns.locks.shared_dict(ngx.shared.turns))
  }
]]
local SERVER = [[
  location / { content_by_lua_block {
    turns.serve(@most@, unpack(locks[ngx.var.uri:sub(2)])) } }
]]

local function handlers(name, n)
  return { command = { "bench/peer_nginx", tostring(n.port), "/" .. name } }
end

local stores = {}

function stores.redis()
  local server = redis.start()
  on(server, function()
    measure("Redis", contenders("dlock", worker(server.url),
      "redis-py", programs.peer("redis", "redis", server.port, "handoff", HOLD),
      "redlock", node("redlock", server.port),
      "redis-semaphore", node("redis-semaphore", server.port)))
  end)
end

function stores.nginx()
  local server = redis.start()
  uv.os_setenv("DLOCK_TEST_REDIS", server.url)
  on(server, function()
    local n = nginx.start { workers = WORKERS,
      http = HTTP:gsub("@dir@", server.dir .. "/locks"),
      server = SERVER:gsub("@most@", COUNT / WORKERS) }
    on(n, function()
      measure("nginx", contenders("dlock, redis://", handlers("dlock", n),
        "SET NX by hand", handlers("by_hand", n),
        "dlock, file://", handlers("files", n),
        "shared dict", handlers("shared_dict", n)))
    end)
  end)
end

function stores.zookeeper()
  local ensemble = zk.start()
  on(ensemble, function()
    local address = ensemble.url:match("//([^/]+)")
    measure("ZooKeeper", contenders("dlock", worker(ensemble.url),
      "kazoo", programs.peer("kazoo", "zookeeper", address, "handoff", HOLD),
      "Curator", curator(address)))
  end)
end

for _, name in ipairs(arg[1] and arg or { "redis", "nginx", "zookeeper" }) do
  stores[name]()
end
