-- What a server says that it was asked and spent: counters for crowd.run, and
-- figures out of how much they rose.

local consul = require "spec.support.consul"
local figures = require "bench.figures"
local process = require "spec.support.process"
local zk = require "spec.support.zk"

local costs = {}

-- What arrives from clients; commands inside of scripts and transactions are
-- counted besides, and their time is part of the script's. The first of each
-- list are writes of their own: one for each round trip.
local ARRIVES = {
  dlock = { "evalsha", "eval", "multi", "ping", "exec" },
  pairs = { "set", "evalsha" },
  fence = { "evalsha", "multi", "exec" },
  handoff = { "publish" },
  script = { "evalsha" },
  peer = { "set", "evalsha" },
}

local function processor_time(admin, counters)
  local text = admin:call("INFO", "cpu")
  for _, kind in ipairs { "user", "sys" } do
    counters[kind] = 1e6 * text:match("used_cpu_" .. kind .. ":([%d.]+)")
  end
end

--- Counters of a Redis server, by a connection to it. That takes the server's
--- time too: `after` what is measured this is asked for first, else last.
function costs.redis(admin)
  return function(after)
    local counters = {}
    if after then processor_time(admin, counters) end
    for name, calls, spent in admin:call("INFO", "commandstats")
        :gmatch("cmdstat_([^:]+):calls=(%d+),usec=(%d+)") do
      if name ~= "info" then -- ours
        counters["calls:" .. name] = tonumber(calls)
        counters["usec:" .. name] = tonumber(spent)
      end
    end
    if not after then processor_time(admin, counters) end
    return counters
  end
end

--- Figures out of how much they rose, for each of `per`, as a function; kind:
--- what the clients are (see ARRIVES).
function costs.of_redis(kind)
  return function(rose, per)
    local requests, arrived, all, spent = 0, 0, 0, 0
    for _, name in ipairs(ARRIVES[kind]) do
      local calls = rose["calls:" .. name] or 0
      arrived = arrived + calls
      requests = requests + (name ~= "exec" and calls or 0)
      spent = spent + (rose["usec:" .. name] or 0)
    end
    for name, calls in pairs(rose) do
      all = all + (name:match("^calls:") and calls or 0)
    end
    return { requests = requests / per, inside = (all - arrived) / per,
      commands_us = spent / per, server_user = rose.user / per,
      server_system = rose.sys / per }
  end
end

--- Says which commands a pair of a contender took (see crowd.round).
function costs.say_commands(opts)
  local list = {}
  for name, calls in pairs(opts.rose) do
    name = name:match("^calls:(.*)")
    if name and calls >= opts.pairs / 20 then
      list[#list + 1] = ("%s %.2f"):format(name, calls / opts.pairs)
    end
  end
  if #list == 0 then return end
  table.sort(list)
  figures.say("  the server's commands a pair, %s: %s", opts.name,
    table.concat(list, ", "))
end

--- Counters of a ZooKeeper server, by its URL. It counts this question too.
function costs.zookeeper(url)
  return function(after)
    local text = assert(zk.four("srvr", url))
    return {
      received = text:match("Received: (%d+)") - (after and 1 or 0),
      writes = tonumber(text:match("Zxid: (0x%x+)")) }
  end
end

function costs.of_majority(counters, per)
  return { requests = counters.received and counters.received / per,
    writes = counters.writes / per }
end

--- Counters of an etcd, by its URL. Each round asks for them after a pause.
function costs.etcd(url)
  return function()
    local status, text = process.run { command = { "curl", "-s",
      (url:gsub("etcd:", "http:")) .. "/metrics" } }
    assert(status == 0, text)
    local requests, line = 0, "\ngrpc_server_started_total{[^\n]* (%d[%d.e+]*)"
    for started in text:gmatch(line) do
      requests = requests + tonumber(started)
    end
    return { received = requests, writes = tonumber(
      text:match("\netcd_debugging_mvcc_current_revision (%d[%d.e+]*)")) }
  end
end

--- Counters of a PostgreSQL (spec/support/postgres.lua): a transaction that
--- writes has a number.
function costs.postgres(server)
  return function()
    return { writes = tonumber((assert(server:sql(
      "SELECT pg_snapshot_xmax(pg_current_snapshot())")))) }
  end
end

function costs.of_postgres(counters, per)
  return { writes = counters.writes / per }
end

--- Counters of a MariaDB (spec/support/mysql.lua), which counts these questions
--- too. A transaction that writes takes two numbers, one that locks a row half
--- as many.
function costs.mysql(server)
  local function ask()
    return { received = tonumber(server:sql(
        "SHOW GLOBAL STATUS LIKE 'Questions'"):match("%d+$")),
      numbers = tonumber(server:sql("SHOW ENGINE INNODB STATUS"):match(
        "Trx id counter (%d+)")) }
  end
  local own = -ask().received + ask().received
  return function(after)
    local counters = ask()
    counters.received = counters.received - (after and own or 0)
    return counters
  end
end

function costs.of_mysql(counters, per)
  return { requests = counters.received / per,
    writes = counters.numbers / 2 / per }
end

--- The index of a Consul's log, by its URL: it counts no requests.
function costs.consul(url)
  return function()
    local text = consul.get(url, "/v1/agent/self")
    return { writes = tonumber(text:match('"last_log_index": *"(%d+)"')) }
  end
end

--- By how much counters rose from `before` until now.
function costs.rose(counters, before)
  local rose = {}
  for name, value in pairs(counters(true)) do
    rose[name] = value - (before[name] or 0)
  end
  return rose
end

return costs
