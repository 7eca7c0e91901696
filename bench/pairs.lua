-- Uncontended pairs (acquire, release), each process on a key of its own: one
-- process, and more processes than there are processors; what they cost clients
-- and server; and how many instructions and system calls a pair takes.

local costs = require "bench.costs"
local crowd = require "bench.crowd"
local figures = require "bench.figures"
local process = require "spec.support.process"
local programs = require "bench.programs"
local server = require "spec.support.server"
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

local function compare(title, list, count)
  figures.rounds(title, FIGURES, list, function(opts)
    local found, total = crowd.round(opts, count, settings.seconds)
    found.rate = total.rate
    return found
  end)
  costs.say_commands(list[#list])
end

-- What a tool counts of a program, for each pair: two runs, and the difference
-- between them, so that start and end do not count. read(text): counters.
local function counted(program, read, ...)
  local dir = server.new_dir()
  local file = dir .. "/counts"
  local command = { ... }
  command[#command + 1] = "-o"
  command[#command + 1] = file
  local function run(seconds)
    local total = crowd.run({ programs.under(program,
      (table.unpack or unpack)(command)) }, seconds)
    return read(server.read_file(file)), total.pairs
  end
  local short, few = run(0.1)
  local long, many = run(0.1 + settings.seconds)
  server.remove_dir(dir)
  local each = {}
  for name, count in pairs(long) do
    each[name] = (count - (short[name] or 0)) / (many - few)
  end
  return each
end

local function read_perf(text)
  local counters = {}
  for count, name in text:gmatch("(%d+),,instructions:([uk])") do
    counters[name] = tonumber(count)
  end
  return counters
end

local function read_strace(text)
  local counters = {}
  for count, name in text:gmatch("\n *(%d+) ([%w_]+)") do
    if name ~= "total" then counters[name] = tonumber(count) end
  end
  return counters
end

local function works(...)
  local ok, status = pcall(process.run, { command = { ... } })
  return ok and status == 0
end

local PERF = { "perf", "stat", "-x,", "-e", "instructions:u,instructions:k" }
local STRACE = { "strace", "-f", "-c", "-U", "calls,name" }

local function instructions(list)
  local each = counted(list.program(1, 1), read_perf,
    (table.unpack or unpack)(PERF))
  figures.say("  %-16s instructions a pair: %s in user space, %s in the kernel",
    list.name, each.u and ("%.0f"):format(each.u) or "not counted",
    each.k and ("%.0f"):format(each.k) or "not counted")
end

local function system_calls(opts)
  local each, total = counted(opts.program(1, 1), read_strace,
    (table.unpack or unpack)(STRACE)), 0
  local list = {}
  for name, count in pairs(each) do
    total = total + count
    if count >= 0.05 then
      list[#list + 1] = ("%s %.2f"):format(name, count)
    end
  end
  table.sort(list)
  figures.say("  %-16s system calls a pair: %.2f (%s)", opts.name, total,
    table.concat(list, ", "))
end

-- Of one process: perf and strace see all of its threads.
local function count_what_can_be(list)
  local with = { { "perf", works(PERF[1], PERF[2], "true"), instructions },
    { "strace", works(STRACE[1], "true"), system_calls } }
  for _, tool in ipairs(with) do
    if tool[2] then
      for _, opts in ipairs(list) do tool[3](opts) end
    else
      figures.say("  %s does not work here", tool[1])
    end
  end
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
  compare("Redis, uncontended, 1 process", list, 1)
  count_what_can_be(list)
  compare(("Redis, uncontended, %d processes, a key each"):format(CROWD), list,
    CROWD)
end

--- private: a server (spec/support/zk.lua).
function uncontended.zookeeper(private)
  local counters = costs.zookeeper(private.url)
  local address = private.url:match("//([^/]+)")
  local list = { { name = "floor (C)", counters = counters,
    figures = costs.of_zookeeper, program = function()
      return programs.floor("zookeeper", address, "pairs")
    end } }
  add_ours(list, private.url, counters, costs.of_zookeeper)
  local peer = programs.peer("kazoo", "zookeeper", address, "pairs")
  if peer then
    list[#list + 1] = { name = "kazoo", counters = counters,
      figures = costs.of_zookeeper, program = function() return peer end }
  end
  compare("ZooKeeper, uncontended, 1 process", list, 1)
  count_what_can_be(list)
end

return uncontended
