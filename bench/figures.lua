-- Rounds, and what is printed of them. The contenders' rounds are interleaved,
-- so that what disturbs the machine disturbs all of them; of each figure the
-- best and the median of the rounds are printed, both with their ratio to the
-- floor's, and the median of the ratios within each round.

local settings = require "bench.settings"

local figures = {}

function figures.say(...)
  print((...):format(select(2, ...)))
  io.stdout:flush()
end

--- The value in a list below which this part of it lies; sorts the list.
function figures.quantile(list, part)
  table.sort(list)
  return list[math.min(math.floor(#list * part) + 1, #list)]
end

function figures.median(list)
  return figures.quantile(list, 0.5)
end

-- One figure of one contender over all rounds, nil if it has none.
local function summary(figure, results)
  local list = {}
  for _, result in ipairs(results) do
    list[#list + 1] = result[figure[1]] -- a round may have none
  end
  if #list == 0 then return nil end
  table.sort(list)
  return { best = list[figure.most and #list or 1],
    median = figures.median(list) }
end

local function round_by_round(figure, results, floor)
  local list = {}
  for r, result in ipairs(results) do
    local value, least = result[figure[1]], floor[r][figure[1]]
    if value and least and least > 0 then list[#list + 1] = value / least end
  end
  return #list > 0 and ("round by round %.2f"):format(figures.median(list))
    or ""
end

local function text(what, value, floor)
  return ("%s %8." .. (value < 100 and 2 or 0) .. "f %-9s"):format(what, value,
    floor and floor > 0 and ("(%.2f)"):format(value / floor) or "")
end

local function show(figure, contenders, results)
  local floor = summary(figure, results[1])
  for i, contender in ipairs(contenders) do
    local found = summary(figure, results[i])
    if found then
      local of = i > 1 and not figure.plain and floor or {}
      local line = ("  %-29s %-16s %s %s %s"):format(figure[2], contender.name,
        figure.plain and (" "):rep(23) or text("best", found.best, of.best),
        text("median", found.median, of.median),
        of.best and round_by_round(figure, results[i], results[1]) or "")
      figures.say("%s", (line:gsub(" +$", "")))
    end
  end
end

--- contenders: { name = … }, the first is the floor; round(contender) returns
--- { name of a figure = value }. list: the figures, in the order in which they
--- are printed: { name, what to call it, most = true if more is better,
--- plain = true if neither is }.
function figures.rounds(title, list, contenders, round)
  local results = {}
  for i = 1, #contenders do results[i] = {} end
  for r = 1, settings.rounds do
    for i, contender in ipairs(contenders) do
      results[i][r] = round(contender)
    end
  end
  figures.say("%s; %d rounds:", title, settings.rounds)
  for _, figure in ipairs(list) do show(figure, contenders, results) end
end

return figures
