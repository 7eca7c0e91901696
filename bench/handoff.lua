-- How long it takes until the next one has a lock, from the call of release to
-- the return of the other's acquire, between processes that each hold it for a
-- while (they sleep) and want it again at once. The floors are in C: on Redis
-- one PUBLISH from the holder and one message to a blocked reader, on ZooKeeper
-- and etcd a delete and the event of the waiter's watch. Beside the one on
-- Redis stands the same by the least script that hands a lock on: what is
-- between that and dlock is dlock's. A peer takes part where it is installed:
-- redis-py, kazoo.

local costs = require "bench.costs"
local crowd = require "bench.crowd"
local figures = require "bench.figures"
local programs = require "bench.programs"
local settings = require "bench.settings"

local handoff = {}

local HOLDS = { 5, 0 } -- ms
local CROWDS = settings.quick and { 2, 8 } or { 2, 8, 64 }
-- So many turns for each at the least, and one before that.
local LAPS = settings.quick and 6 or 12

local FIGURES = {
  { "p50", "p50 of a hand-off, us" },
  { "p99", "p99 of a hand-off, us" },
  { "changed", "holds that change hands, %", most = true },
  { "rate", "pairs a second", most = true },
  { "fewest", "fewest pairs of a client", plain = true },
  { "most", "most pairs of a client", plain = true },
  { "even", "fewest / most", most = true },
  { "requests", "requests a pair" },
  { "writes", "writes of the server a pair" },
  { "inside", "commands in scripts a pair" },
  { "commands_us", "server's commands a pair, us" },
  { "server_user", "server user a pair, us" },
  { "server_system", "server system a pair, us" },
  { "user", "client user a pair, us" },
  { "system", "client system a pair, us" },
  { "switches", "client's sleeps a pair" },
}

-- Adds the figures of holds, in the order in which they began. Looks, by the
-- way, whether two ever had the lock at once.
local function of_holds(found, holds, count, seconds)
  local turns, gaps = {}, {}
  for i = 1, count do turns[i] = 0 end
  for i, hold in ipairs(holds) do
    turns[hold.who] = turns[hold.who] + 1
    local last = holds[i - 1]
    assert(not last or hold.came >= last.went, "two held it at once")
    if last and last.who ~= hold.who then
      gaps[#gaps + 1] = (hold.came - last.went) / 1e3
    end
  end
  table.sort(turns)
  found.p50 = figures.quantile(gaps, 0.5)
  found.p99 = figures.quantile(gaps, 0.99)
  found.changed = 100 * #gaps / math.max(#holds - 1, 1)
  found.rate = #holds / seconds
  found.fewest, found.most = turns[1], turns[count]
  found.even = turns[1] / math.max(turns[count], 1)
  return found
end

--- One round of contenders that take turns: its figures.
function handoff.round(opts, count, seconds, warm)
  local found, total = crowd.round(opts, count, seconds, warm)
  return of_holds(found, total.holds, count, seconds)
end

--- Rounds of all crowds and times of holding; make(hold): the contenders.
function handoff.compare(store, make)
  for _, hold in ipairs(HOLDS) do
    for _, count in ipairs(CROWDS) do
      local lap = count * (hold + 1) / 1000
      local warm, seconds = math.max(0.1, lap),
        math.max(settings.seconds, LAPS * lap)
      local list = make(hold)
      local title = ("%s, hand-off, %d processes hold %d ms, %.1f s")
        :format(store, count, hold, seconds)
      figures.rounds(title, FIGURES, list, function(opts)
        return handoff.round(opts, count, seconds, warm)
      end)
      costs.say_commands(list[#list])
    end
  end
end

local function worker(url, hold)
  local lua = settings.luas[1]
  return "dlock " .. lua, function()
    return programs.lua(lua, "bench/worker.lua", url, "handoff", hold)
  end
end

--- private: a server (spec/support/redis.lua); admin: a connection to it.
function handoff.redis(private, admin)
  local counters = costs.redis(admin)
  handoff.compare("Redis", function(hold)
    local name, program = worker(private.url, hold)
    local function floor(what)
      return function(number, count)
        return programs.floor("redis", private.port, what, hold, number - 1,
          count)
      end
    end
    local list = {
      { name = "floor (C)", counters = counters,
        figures = costs.of_redis("handoff"), program = floor("handoff") },
      { name = "by a script (C)", counters = counters,
        figures = costs.of_redis("script"), program = floor("script") },
      { name = name, counters = counters, figures = costs.of_redis("dlock"),
        program = program },
    }
    local peer = programs.peer("redis", "redis", private.port, "handoff", hold)
    if peer then
      list[4] = { name = "redis-py", counters = counters,
        figures = costs.of_redis("peer"), program = function() return peer end }
    end
    return list
  end)
end

local function by_majority(store, url, title, other)
  local counters, address = costs[store](url), url:match("//([^/]+)")
  handoff.compare(title, function(hold)
    local name, program = worker(url, hold)
    local list = {
      { name = "floor (C)", program = function()
          return programs.floor(store, address, "handoff", hold)
        end },
      { name = name, program = program },
    }
    local peer = other
      and programs.peer(other, store, address, "handoff", hold)
    if peer then
      list[3] = { name = other, program = function() return peer end }
    end
    for _, contender in ipairs(list) do
      contender.counters, contender.figures = counters, costs.of_majority
    end
    return list
  end)
end

--- private: a server (spec/support/zk.lua).
function handoff.zookeeper(private)
  by_majority("zookeeper", private.url, "ZooKeeper", "kazoo")
end

--- private: a server (spec/support/etcd.lua).
function handoff.etcd(private)
  by_majority("etcd", private.url, "etcd")
end

-- floors: name and word; target: where the server is, as the floor takes it.
local function by_hand(store, title, private, floors, ...)
  local counters, of = costs[store](private), costs["of_" .. store]
  local target, n = { ... }, select("#", ...)
  handoff.compare(title, function(hold)
    local list = {}
    for i, floor in ipairs(floors) do
      target[n + 1], target[n + 2] = floor[2], hold
      local program = programs.floor(store, (table.unpack or unpack)(target))
      list[i] = { name = floor[1], program = function() return program end }
    end
    list[#list + 1] = {}
    list[#list].name, list[#list].program = worker(private.url, hold)
    for _, contender in ipairs(list) do
      contender.counters, contender.figures = counters, of
    end
    return list
  end)
end

--- private: a server (spec/support/postgres.lua).
function handoff.postgres(private)
  by_hand("postgres", "PostgreSQL", private,
    { { "lease row, NOTIFY (C)", "handoff" },
      { "FOR UPDATE (C)", "handoff-row" },
      { "advisory lock (C)", "handoff-advisory" } }, private:conninfo())
end

--- private: a server (spec/support/mysql.lua).
function handoff.mysql(private)
  by_hand("mysql", "MariaDB", private,
    { { "lease row, asked every 10 ms (C)", "handoff" },
      { "FOR UPDATE (C)", "handoff-row" },
      { "GET_LOCK (C)", "handoff-named" } }, private.port, private.password)
end

return handoff
