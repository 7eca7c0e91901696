-- Which random histories a simulation plays: other ones each time it runs, so
-- that a year of runs is a year of histories; or, to see one again, that of
-- DLOCK_SIM_SEED alone (`make sim SEED=n`).

local uv = require "luv"

local seeds = {}

--- The seed to replay, or nil.
seeds.again = tonumber(os.getenv("DLOCK_SIM_SEED"))

--- The mistakes that a simulation should notice; none while it replays a
--- history, nor while another mistake is in the code already (.ci/mutants).
function seeds.faults(list)
  local off = seeds.again or os.getenv("DLOCK_SIM_FAULTS") == "0"
  return off and {} or list
end

--- The first seed and how many: `count` of them from one that is drawn and
--- printed, or the one to replay.
function seeds.draw(name, count)
  if seeds.again then
    return seeds.again, 1
  end
  local a, b, c, d = uv.random(4):byte(1, 4)
  local first = (((a % 64) * 256 + b) * 256 + c) * 256 + d + 1
  print(("  simulated %s: seeds %d to %d"):format(name, first,
    first + count - 1))
  return first, count
end

--- The same report, with how to see its history again.
function seeds.advise(report)
  local seed = tostring(report):match("seed (%d+): ")
  return seed and ("%s\nto see it again: make sim SEED=%s"):format(report,
    seed) or report
end

return seeds
