-- When which fault happens to whom: drawn from a seed and nothing else, so
-- that a run can be asked for again. A fault ends `seconds` after it began;
-- faults of one class (what may not be broken twice at a time) follow each
-- other. Each round of faults ends with a calm, without faults, in which every
-- waiter has to get an answer.
--
--   schedule.make(seed, 60, profile) --> { faults = …, calms = …, text }
--
-- profile: workers (how many), calm (seconds), gap (mean seconds between
-- faults), kinds: a list of { name, weight, least, most [seconds], class,
-- rest [seconds until the class may be broken again] }. Without a class a fault
-- is about a worker, and every worker is a class of its own.

local random = require "spec.sim.random"

local schedule = {}

local ROUND = 60

local function pick(r, kinds)
  local total = 0
  for _, kind in ipairs(kinds) do
    total = total + kind.weight
  end
  local at = r:next() * total
  for _, kind in ipairs(kinds) do
    at = at - kind.weight
    if at < 0 then
      return kind
    end
  end
end

-- A fault at that time, on any target; always the same count of draws.
local function draw(r, profile, at)
  local kind = pick(r, profile.kinds)
  local worker = 1 + math.floor(r:next() * profile.workers)
  local seconds = kind.least + r:next() * (kind.most - kind.least)
  return { at = at, kind = kind.name, seconds = seconds, draw = r:next(),
    worker = not kind.class and worker or nil,
    class = kind.class or "worker " .. worker, rest = kind.rest or 0 }
end

-- Draws the faults of one round into the list.
local function fill(list, r, profile, from, to)
  local busy, at = {}, from
  while true do
    at = at + (0.2 + 1.6 * r:next()) * profile.gap
    if at >= to then
      return
    end
    local fault = draw(r, profile, at)
    local ends = at + fault.seconds + fault.rest
    if ends <= to and at >= (busy[fault.class] or 0) then
      busy[fault.class] = ends
      list[#list + 1] = fault
    end
  end
end

--- The faults (in order) and the calms (from, to) of a run of so many seconds.
function schedule.make(seed, seconds, profile)
  local r = random.new(seed)
  local plan = { seed = seed, faults = {}, calms = {} }
  local rounds = math.max(1, math.floor(seconds / ROUND))
  local length = seconds / rounds
  local calm = math.min(profile.calm, length / 3)
  for i = 1, rounds do
    local to = i * length
    fill(plan.faults, r, profile, to - length, to - calm)
    plan.calms[i] = { from = to - calm, to = to }
  end
  return plan
end

--- The same as lines, for a comparison or a report.
function schedule.lines(plan)
  local lines = {}
  for i, fault in ipairs(plan.faults) do
    lines[i] = ("%8.3f %s%s for %.3f s"):format(fault.at, fault.kind,
      fault.worker and " of worker " .. fault.worker or "", fault.seconds)
  end
  return lines
end

return schedule
