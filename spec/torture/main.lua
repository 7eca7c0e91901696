-- The torture: processes of both Luas that take locks of all kinds, while they
-- are stopped and killed and their servers are broken by a schedule drawn from
-- a seed; then what they wrote down is checked. Prints counts and the seed;
-- ends with 1 when a promise of docs/guarantees.md was broken.
-- usage: lua5.4 spec/torture/main.lua STORE SECONDS [SEED] [NAME=VALUE…]
--   STORE      redis, redis-older, cluster, redlock, zookeeper, etcd, consul,
--              postgres, mysql, file
--   believe=S  workers go on believing in lost leases: the checker must see it
--   twice=P    that part of the detached strings goes to two processes (0.2)
--   only=KIND  no other faults than those of this kind (long-stop, …)
--   lua=NAME   workers under this Lua only
--   keep=DIR   where the records of a failed run go (build/torture)
--   plan=1     only prints the schedule

package.path = "./?.lua;" .. package.path

local checker = require "spec.torture.checker"
local core = require "dlock.core"
local crew = require "spec.torture.crew"
local loop = require "spec.support.loop"
local records = require "spec.torture.records"
local report = require "spec.torture.report"
local schedule = require "spec.torture.schedule"
local server = require "spec.support.server"
local turns = require "spec.torture.turns"
local uv = require "luv"

local NEMESES = { redis = "redis", ["redis-older"] = "redis",
  cluster = "cluster", redlock = "redlock", zookeeper = "zookeeper",
  etcd = "etcd", consul = "consul", postgres = "sql", mysql = "sql",
  file = "file" }
-- What a busy machine may add to a call's bound. Nothing here is about speed.
local SLACK = 5

local function usage(text)
  io.stderr:write("torture: ", text, "\nusage: main.lua ",
    "redis|redis-older|cluster|redlock|zookeeper|etcd|consul|postgres|mysql|",
    "file SECONDS [SEED] [NAME=VALUE…]\n")
  os.exit(64)
end

local function read_args()
  local args = { extra = {} }
  for i = 3, #arg do
    local name, value = arg[i]:match("^([%w_]+)=(.*)$")
    if name then
      args.extra[name] = name == "only" and value:gsub("-", " ") or value
    else
      args.seed = tonumber(arg[i]) or usage("not a seed: " .. arg[i])
    end
  end
  args.store = NEMESES[arg[1] or ""] and arg[1]
    or usage("which store? not " .. tostring(arg[1]))
  args.seconds = tonumber(arg[2]) or usage("for how many seconds?")
  local a, b, c = uv.random(3):byte(1, 3)
  args.seed = args.seed or a * 65536 + b * 256 + c
  return args
end

local function wait_until(time)
  loop.wait(math.max(time - core.now(), 0), function()
    return core.now() >= time
  end)
end

-- What happens in which order: { at, run }.
local function list_steps(plan, run)
  local steps = {}
  for _, fault in ipairs(plan.faults) do
    steps[#steps + 1] = { at = fault.at, run = function()
      run.begin(fault)
    end }
    steps[#steps + 1] = { at = fault.at + fault.seconds, run = function()
      run.finish(fault)
    end }
  end
  for _, calm in ipairs(plan.calms) do
    steps[#steps + 1] = { at = calm.from, run = run.calm }
    steps[#steps + 1] = { at = calm.to, run = run.calm_over }
  end
  for i, step in ipairs(steps) do
    step.order = i
  end
  table.sort(steps, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.order < b.order
  end)
  return steps
end

-- Does to the workers and the servers what the plan says, and writes down when.
local function executor(dir, nemesis, workers, counts, calms)
  local log, run = assert(io.open(dir .. "/faults", "w")), {}
  log:setvbuf("line")

  local function call(name, fault)
    local who = crew[name] and workers or nemesis
    return who[name] and who[name](who, fault)
  end

  function run.begin(fault)
    local from = core.now()
    local done = call(fault.kind, fault) or fault.kind -- or another, or none
    if done ~= "none" then
      counts[done] = (counts[done] or 0) + 1
    end
    log:write(("%.3f %.3f %s %s\n"):format(from, core.now(), done,
      fault.worker or ""))
  end

  function run.finish(fault)
    local from = core.now()
    call("end " .. fault.kind, fault)
    log:write(("%.3f %.3f end %s %s\n"):format(from, core.now(), fault.kind,
      fault.worker or ""))
  end

  function run.calm()
    local healed = nemesis:heal()
    if healed then
      counts[healed] = (counts[healed] or 0) + 1
      calms.healed = true
    end
    calms[#calms + 1] = { from = core.now(), to = math.huge }
    log:write(("%.3f calm\n"):format(core.now()))
  end

  function run.calm_over()
    calms[#calms].to = core.now()
  end

  return run
end

local function read_register(dir)
  local writes = {}
  for line in io.lines(dir .. "/register") do
    local key, start, fence = line:match("^(%S+) +(%S+) (%d+)$")
    writes[#writes + 1] = { key = key, start = tonumber(start),
      fence = tonumber(fence) }
  end
  return writes
end

local function check(dir, workers, nemesis, calms)
  local holds, calls = {}, {}
  for name in pairs(workers.life) do
    records.read_holds(dir .. "/" .. name .. ".holds", name, holds)
    records.read_calls(dir .. "/" .. name .. ".calls", name, calls)
  end
  local excused = nemesis.excused
  local served, silent = checker.cut(calms, nemesis.silences
    and nemesis:silences() or {})
  return {
    holds = checker.holds(holds, excused),
    calls = checker.calls(calls, workers.life, { slack = SLACK,
      calm = nemesis.profile.calm - 1, calms = served }),
    silent = nemesis.silences and silent,
    odd = silent > 0 or calms.healed,
    register = checker.register(read_register(dir)),
    believed = holds, excused = excused,
  }
end

-- The schedule of a run; with `only`, all other kinds weigh nothing.
local function make_plan(args, profile)
  local known = not args.extra.only
  for _, kind in ipairs(profile.kinds) do
    local mine = not args.extra.only or kind.name == args.extra.only
    kind.weight = mine and kind.weight or 0
    known = known or mine
  end
  if not known then
    usage("no such fault: " .. args.extra.only)
  end
  return schedule.make(args.seed, args.seconds, profile)
end

local function torture(args, nemesis, dir)
  local plan = make_plan(args, nemesis.profile)
  local began = core.now() + 1
  local workers = crew.new { dir = dir, nemesis = nemesis, seed = args.seed,
    ends = began + args.seconds, extra = args.extra }
  local counts, calms = {}, {}
  local run = executor(dir, nemesis, workers, counts, calms)
  for _, step in ipairs(list_steps(plan, run)) do
    wait_until(began + step.at)
    step.run()
  end
  workers:finish(nemesis.profile.calm + 35)
  local result = check(dir, workers, nemesis, calms)
  result.faults, result.workers, result.keys = counts, workers, turns.KEYS
  workers:tidy(turns.KEYS)
  pcall(loop.eventually, "nothing left", 30, function()
    result.left = nemesis:leftovers(turns.KEYS)
    return #result.left == 0
  end)
  return result
end

-- Leaves the records where they can be looked at, and what the servers said.
local function keep(dir, args, nemesis)
  local kept = ("%s/%s-%d"):format(args.extra.keep
    or (os.getenv("BUILD") or "build") .. "/torture", args.store, args.seed)
  os.execute(("mkdir -p '%s' && cp '%s'/*.holds '%s'/*.calls '%s'/register "
    .. "'%s'/faults '%s'"):format(kept, dir, dir, dir, dir, kept))
  for i, path in ipairs(nemesis.logs and nemesis:logs() or {}) do
    os.execute(("cp '%s' '%s/server-%d.log'"):format(path, kept, i))
  end
  print(("to see it again: make torture STORE=%s SECONDS=%g SEED=%d\n"
    .. "what was written down is in %s"):format(args.store, args.seconds,
    args.seed, kept))
end

local args = read_args()
local nemesis_type = require("spec.torture.nemesis." .. NEMESES[args.store])
if args.extra.plan then
  local plan = make_plan(args, nemesis_type.profile)
  print(table.concat(schedule.lines(plan), "\n"))
  os.exit(0)
end

io.stdout:setvbuf("line")
print(("torture %s for %g s, seed %d"):format(args.store, args.seconds,
  args.seed))
local dir = server.new_dir()
assert(uv.fs_mkdir(dir .. "/mail", 448))
server.write_file(dir .. "/register", "")
local nemesis = nemesis_type.start(dir, args.store)
local ok, result = xpcall(torture, debug.traceback, args, nemesis, dir)
local good = ok and report.print(result, args)
if not ok then
  print(result)
end
crew.kill_all()
if not good or result.odd then
  keep(dir, args, nemesis)
end
nemesis:stop()
server.remove_dir(dir)
os.exit(good and 0 or 1)
