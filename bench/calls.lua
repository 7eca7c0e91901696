-- What each call into dlock's C code costs the thread that makes it, inside of
-- nginx: a worker must not be held up. A clock alone cannot tell a call that
-- waits from one during which the machine ran something else; so the kernel is
-- asked how often the thread gave the processor away by itself (it waited) and
-- how much of it the call used. A function that does nothing, measured in the
-- same way, shows what the clock is worth here.
--
--   require("bench.calls").begin()     -- before dlock is first required
--   require("bench.calls").report()    --> text
local ffi = require "ffi"

ffi.cdef [[
  typedef struct { long sec, nsec; } bench_time;
  typedef struct { bench_time user, system; long other[12], waited, preempted; }
    bench_usage;
  int bench_clock(int clock, bench_time *at) __asm__("clock_gettime");
  int bench_getrusage(int who, bench_usage *into) __asm__("getrusage");
]]

local calls = { groups = {} }

local WALL, CPU, THIS_THREAD = 1, 3, 1
local STEPS = 8 -- buckets of a histogram for each factor of e

local time, usage = ffi.new("bench_time"), ffi.new("bench_usage")

local function clock(which)
  ffi.C.bench_clock(which, time)
  return tonumber(time.sec) + tonumber(time.nsec) * 1e-9
end

local function waits()
  ffi.C.bench_getrusage(THIS_THREAD, usage)
  return tonumber(usage.waited)
end

local function new_group(name)
  return { name = name, count = 0, wall = 0, cpu = 0, waits = 0, waited = 0,
    buckets = {} }
end

local function note(group, wall, cpu, waited)
  group.count = group.count + 1
  group.wall = math.max(group.wall, wall)
  group.cpu = math.max(group.cpu, cpu)
  if waited > 0 then
    group.waits = group.waits + 1
    group.waited = math.max(group.waited, wall)
  end
  local at = math.ceil(math.log(math.max(wall * 1e9, 1)) * STEPS)
  group.buckets[at] = (group.buckets[at] or 0) + 1
end

-- The time within which this part of the calls ended, by the clock.
local function quantile(group, part)
  local left, list = group.count * part, {}
  for at in pairs(group.buckets) do list[#list + 1] = at end
  table.sort(list)
  for _, at in ipairs(list) do
    left = left - group.buckets[at]
    if left <= 0 then
      return math.min(math.exp(at / STEPS) * 1e-9, group.wall)
    end
  end
  return group.wall
end

local function group_named(name)
  calls.groups[name] = calls.groups[name] or new_group(name)
  return calls.groups[name]
end

--- fn, measured.
function calls.measured(name, fn)
  local group = group_named(name)
  local function finish(wall, cpu, waited, ...)
    cpu, wall = clock(CPU) - cpu, clock(WALL) - wall
    note(group, wall, cpu, waits() - waited)
    return ...
  end
  return function(...)
    local waited, wall = waits(), clock(WALL)
    return finish(wall, clock(CPU), waited, fn(...))
  end
end

local function measure_all(methods, prefix)
  for name, fn in pairs(methods) do
    if type(fn) == "function" then
      methods[name] = calls.measured(prefix .. name, fn)
    end
  end
end

--- Measures whatever Lua calls of dlock.core from now on.
function calls.begin()
  local core = require "dlock.core"
  measure_all(core, "")
  for _, kind in ipairs { "engine", "ticket" } do
    local meta = debug.getregistry()["dlock." .. kind]
    measure_all(meta.__index, kind .. ":")
    meta.__gc = calls.measured(kind .. " collected", meta.__gc)
  end
  local meta = core.lease_meta
  meta.__gc = calls.measured("lease collected", meta.__gc)
  calls.nothing = calls.measured("nothing", function() end)
end

-- All groups in one, and which of them was the worst at what.
local function total()
  local all, most = new_group("all"), { cpu = "none", waited = "none" }
  for name, group in pairs(calls.groups) do
    if name ~= "nothing" then
      for field, worst in pairs(most) do
        if group[field] > all[field] then
          all[field], worst = group[field], name
        end
        most[field] = worst
      end
      all.count = all.count + group.count
      all.waits = all.waits + group.waits
      all.wall = math.max(all.wall, group.wall)
      for at, count in pairs(group.buckets) do
        all.buckets[at] = (all.buckets[at] or 0) + count
      end
    end
  end
  return all, most
end

--- What all calls came to so far.
function calls.report()
  local all, most = total()
  local nothing = calls.groups.nothing
  return ("%d calls: %d waited, the longest %.0f us (%s); the most processor"
    .. " time %.0f us (%s); by the clock 99.99 %% within %.0f us, worst %.0f us"
    .. " (a function that does nothing: %.0f us, %.0f us)"):format(all.count,
    all.waits, all.waited * 1e6, most.waited, all.cpu * 1e6, most.cpu,
    quantile(all, 0.9999) * 1e6, all.wall * 1e6,
    quantile(nothing, 0.9999) * 1e6, nothing.wall * 1e6)
end

return calls
