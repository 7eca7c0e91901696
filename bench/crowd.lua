-- Workers, each a process of its own, that all do the same for the same span.
-- A worker (bench/worker.lua; the floors, see floor.h) connects and says
-- "ready"; then it is told on its standard input until when to go on (ns of the
-- monotonic clock, which is the same for all processes of a machine). It says
-- afterwards, for each of its holds that began in time,
--   CAME WENT      when acquire returned, when release was called (ns),
-- if it takes turns with others, and always, as its last line,
--   done PAIRS NS USER SYSTEM SWITCHES
-- how many pairs it did in all, in which time, its processor time (µs) and how
-- often its threads went to sleep, all since it was told. It stays connected
-- until its standard input ends: what closing costs is no pair's.

local costs = require "bench.costs"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local uv = require "luv"

local crowd = {}

local function sum_up(total, text)
  local count, ns, user, system, switches =
    text:match("done (%d+) (%d+) (%d+) (%d+) (%d+)\n$")
  assert(count, text)
  total.pairs = total.pairs + count
  total.rate = total.rate + count / (ns / 1e9)
  total.user = total.user + user
  total.system = total.system + system
  total.switches = total.switches + switches
end

local function read_holds(holds, text, who, from)
  for came, went in text:match("^(.-)done"):gmatch("(%d+) (%d+)\n") do
    came = tonumber(came)
    if came >= from then
      holds[#holds + 1] = { came = came, went = tonumber(went), who = who }
    end
  end
end

local function wait_until_done(worker, seconds)
  assert(loop.wait(seconds, function()
    return worker.status or worker.out:sub(-120):find("done [%d ]+\n$")
  end), "a worker hangs")
end

--- Starts the programs and lets them go on for so many seconds. Returns the
--- sums of what they said: pairs, rate (pairs a second), user, system (µs),
--- switches; holds, in order, without those of the first `warm` seconds (0),
--- which come on top: { came =, went =, who = }; and rose: by how much each of
--- what counters() returns rose meanwhile.
function crowd.run(list, seconds, counters, warm)
  warm = warm or 0
  local workers = {}
  for i, program in ipairs(list) do
    workers[i] = process.spawn { command = program.command, env = program.env }
  end
  for _, worker in ipairs(workers) do worker:expect("^ready$", 120) end
  local before = counters and counters()
  local from = uv.hrtime() + warm * 1e9
  for _, worker in ipairs(workers) do
    worker:write(("%.0f\n"):format(from + seconds * 1e9))
  end
  local total = { pairs = 0, rate = 0, user = 0, system = 0, switches = 0,
    holds = {} }
  for _, worker in ipairs(workers) do
    wait_until_done(worker, seconds + warm + 120)
  end
  total.rose = counters and costs.rose(counters, before)
  for i, worker in ipairs(workers) do
    worker:close_stdin()
    assert(worker:wait(120) == 0, "a worker failed")
    sum_up(total, worker.out)
    read_holds(total.holds, worker.out, i, from)
  end
  table.sort(total.holds, function(a, b) return a.came < b.came end)
  return total
end

--- One round of a contender, so many processes of it: its figures, and what
--- crowd.run returned. opts: program, a function of a worker's number and of
--- how many they are; counters; figures, a function of by how much they rose
--- and of the number of pairs.
function crowd.round(opts, count, seconds, warm)
  local list = {}
  for i = 1, count do list[i] = opts.program(i, count) end
  local total = crowd.run(list, seconds, opts.counters, warm)
  opts.rose, opts.pairs = total.rose, total.pairs
  local found = opts.figures(total.rose, total.pairs)
  for _, name in ipairs { "user", "system", "switches" } do
    found[name] = total[name] / total.pairs
  end
  return found, total
end

return crowd
