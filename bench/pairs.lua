-- Uncontended pairs (acquire, release), each process on a key of its own: one
-- process, and more processes than there are processors; what they cost clients
-- and server; and how many instructions and system calls a pair takes.

local costs = require "bench.costs"
local counted = require "bench.counted"
local crowd = require "bench.crowd"
local figures = require "bench.figures"
local programs = require "bench.programs"
local settings = require "bench.settings"

local uncontended = {}

local CROWD = 8

local FIGURES = {
  { "rate", "pairs a second", most = true },
  { "requests", "requests a pair" },
  { "writes", "writes of the server a pair" },
  { "commands_us", "server's commands a pair, us" },
  { "server_user", "server user a pair, us" },
  { "server_system", "server system a pair, us" },
  { "user", "client user a pair, us" },
  { "system", "client system a pair, us" },
  { "switches", "client's sleeps a pair" },
}

--- Rounds of so many processes of each contender; the first is the floor.
function uncontended.compare(title, list, count)
  figures.rounds(title, FIGURES, list, function(opts)
    local found, total = crowd.round(opts, count, settings.seconds)
    found.rate = total.rate
    return found
  end)
  costs.say_commands(list[#list])
end

-- Two runs of one process, and the difference between them, so that start and
-- end do not count.
local function each_pair(contender, tool)
  local function run(seconds)
    return counted.by(tool, function(words)
      return crowd.run({ programs.under(contender.program(1, 1),
        (table.unpack or unpack)(words)) }, seconds).pairs
    end)
  end
  local short, few = run(0.1)
  local long, many = run(0.1 + settings.seconds)
  local each = {}
  for name, count in pairs(long) do
    each[name] = (count - (short[name] or 0)) / (many - few)
  end
  return each
end

--- Instructions and system calls of a pair.
function uncontended.count(list)
  counted.each(list, "pair", each_pair)
end

local function add_ours(list, url, counters, of)
  for _, lua in ipairs(settings.luas) do
    list[#list + 1] = { name = "dlock " .. lua, counters = counters,
      figures = of, program = function()
        return programs.lua(lua, "bench/worker.lua", url, "pairs")
      end }
  end
end

--- private: a server (spec/support/redis.lua); admin: a connection to it.
function uncontended.redis(private, admin)
  local counters, list = costs.redis(admin), {}
  for i, floor in ipairs { { "floor (C)", "pairs" },
      { "with a fence (C)", "fence" } } do
    list[i] = { name = floor[1], counters = counters,
      figures = costs.of_redis(floor[2]), program = function()
        return programs.floor("redis", private.port, floor[2])
      end }
  end
  add_ours(list, private.url, counters, costs.of_redis("dlock"))
  local peer = programs.peer("redis", "redis", private.port, "pairs")
  if peer then
    list[#list + 1] = { name = "redis-py", counters = counters,
      figures = costs.of_redis("peer"), program = function() return peer end }
  end
  uncontended.compare("Redis, uncontended, 1 process", list, 1)
  uncontended.count(list)
  local title = ("Redis, uncontended, %d processes, a key each"):format(CROWD)
  uncontended.compare(title, list, CROWD)
end

local function of_majority(store, url, title, peer)
  local counters, address = costs[store](url), url:match("//([^/]+)")
  local list = { { name = "floor (C)", counters = counters,
    figures = costs.of_majority, program = function()
      return programs.floor(store, address, "pairs")
    end } }
  add_ours(list, url, counters, costs.of_majority)
  peer = peer and programs.peer(peer, store, address, "pairs")
  if peer then
    list[#list + 1] = { name = "kazoo", counters = counters,
      figures = costs.of_majority, program = function() return peer end }
  end
  uncontended.compare(title .. ", uncontended, 1 process", list, 1)
  uncontended.count(list)
end

--- private: a server (spec/support/zk.lua).
function uncontended.zookeeper(private)
  of_majority("zookeeper", private.url, "ZooKeeper", "kazoo")
end

--- private: a server (spec/support/etcd.lua).
function uncontended.etcd(private)
  of_majority("etcd", private.url, "etcd")
end

-- On a database the floors are what people write by hand: name and word.
-- target: where the server is, as the floor takes it.
local function by_hand(store, title, private, floors, ...)
  local counters, of = costs[store](private), costs["of_" .. store]
  local list, target = {}, { ... }
  for i, floor in ipairs(floors) do
    target[select("#", ...) + 1] = floor[2]
    local program = programs.floor(store, (table.unpack or unpack)(target))
    list[i] = { name = floor[1], counters = counters, figures = of,
      program = function() return program end }
  end
  add_ours(list, private.url, counters, of)
  uncontended.compare(title .. ", uncontended, 1 process", list, 1)
  uncontended.count(list)
  uncontended.compare(("%s, uncontended, %d processes, a key each"):format(
    title, CROWD), list, CROWD)
end

--- private: a server (spec/support/postgres.lua).
function uncontended.postgres(private)
  by_hand("postgres", "PostgreSQL", private, { { "lease row (C)", "pairs" },
    { "FOR UPDATE (C)", "row" }, { "advisory lock (C)", "advisory" } },
    private:conninfo())
end

--- private: a server (spec/support/mysql.lua).
function uncontended.mysql(private)
  by_hand("mysql", "MariaDB", private, { { "lease row (C)", "pairs" },
    { "FOR UPDATE (C)", "row" }, { "GET_LOCK (C)", "named" } },
    private.port, private.password)
end

--- private: a server (spec/support/consul.lua).
function uncontended.consul(private)
  of_majority("consul", private.url, "Consul")
end

return uncontended
