-- Runs random histories and, when one fails, makes it short.
--
-- A history is a list of steps, and a step is a list of numbers in [0, 1)
-- that say what is done and to whom. Nothing else is random, so a history can
-- be run again, and it stays a history when steps are left out.

local random = require "spec.sim.random"
local seeds = require "spec.sim.seeds"

local histories = {}

-- A list of `count` steps of `width` numbers.
function histories.make(seed, count, width)
  local r, steps = random.new(seed), {}
  for i = 1, count do
    steps[i] = {}
    for k = 1, width do
      steps[i][k] = r:next()
    end
  end
  return steps
end

local function without(steps, first, count)
  local rest = {}
  for i, step in ipairs(steps) do
    if i < first or i >= first + count then
      rest[#rest + 1] = step
    end
  end
  return rest
end

-- Leaves out what the failure does not need. run(steps) returns nil or what
-- went wrong; any failure counts.
function histories.shrink(steps, run)
  local size = #steps
  while size >= 1 do
    local i, shorter = 1, false
    while i <= #steps do
      local rest = without(steps, i, size)
      if #rest < #steps and run(rest) then
        steps, shorter = rest, true
      else
        i = i + size
      end
    end
    if not shorter or size > 1 then
      size = size > 1 and math.floor(size / 2) or 0
    end
  end
  return steps
end

-- Runs `count` histories from a seed on; nil, or a report of the first that
-- failed. tell(steps) gives the lines of what happened in one.
function histories.run(from, count, length, run, tell)
  for seed = from, from + count - 1 do
    local steps = histories.make(seed, length, 6)
    local wrong = run(steps, seed)
    if wrong then
      local function again(list)
        return run(list, seed)
      end
      local short = histories.shrink(steps, again)
      return seeds.advise(("seed %d: %s\nafter %d steps of %d:\n%s"):format(
        seed, again(short) or wrong, #short, length,
        table.concat(tell(short, seed), "\n")))
    end
  end
end

return histories
