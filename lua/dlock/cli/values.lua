-- Reads values of options, by their kind. A kind's function returns nothing for
-- a wrong value.
local rules = require "dlock.options"

local values = {}

local UNITS = { [""] = 1, s = 1, m = 60, h = 3600, d = 86400 }

-- tonumber may want the locale's decimal point.
local function decimal(value)
  local whole, part = value:match("^(%d*)%.?(%d*)$")
  local n = tonumber(whole and whole .. part)
  return n and n / 10 ^ #part
end

function values.duration(value)
  local number, unit = value:match("^([%d.]+)([smhd]?)$")
  local n = number and decimal(number)
  return n and n * UNITS[unit]
end

function values.patience(value)
  return value == "inf" and math.huge or values.duration(value)
end

function values.status(value)
  local n = value:find("^%d%d?%d?$") and tonumber(value)
  return n and n <= 255 and n or nil
end

function values.number(value)
  return value:find("^%d+$") and tonumber(value) or nil
end

function values.replicas(value)
  return value == "all" and value or values.number(value)
end

function values.permits(value)
  local n, m = value:match("^(%d+)/(%d+)$")
  return n and { permits = tonumber(n), of = tonumber(m) }
end

function values.boolean(value)
  if value == "yes" or value == "no" then
    return { value == "yes" } -- because false is a value
  end
end

function values.listen(value)
  return { value ~= "off" and value }
end

function values.map(value)
  local map = {}
  for entry in (value .. ","):gmatch("([^,]*),") do
    local from, to = entry:match("^([^=]+)=([^=]+)$")
    if not from then return nil end
    map[from] = to
  end
  return map
end

function values.nodes(value)
  local list = {}
  for one in (value .. ","):gmatch("([^,]*),") do
    if one == "" then return nil end
    list[#list + 1] = one
  end
  return list
end

function values.read(option, given, name)
  local value, limit = given, option.limit
  local read = values[option.kind]
  if read then value = read(given) end
  local fits = type(value) ~= "number" or not limit
    or rules.fits(value, limit)
  if value ~= nil and fits then
    return value
  end
  local range = limit and " " .. rules.limits(limit) or ""
  local units = value == nil and option.takes:find("^DURATION")
    and "; it is written as in 1.5, 30s, 10m, 2h or 1d" or ""
  local shown = option.kind ~= "nodes" and (", not '%s'"):format(given) or ""
  return nil, ("%s takes %s%s%s%s"):format(name or option.name, option.takes,
    range, shown, units) -- URLs may have passwords
end

--- Letters that are put in, left out, changed or swapped from a to b.
local function distance(a, b)
  local rows = { [0] = {} }
  for j = 0, #b do rows[0][j] = j end
  for i = 1, #a do
    rows[i] = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local least = math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1,
        rows[i - 1][j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1)
          and a:byte(i - 1) == b:byte(j) then
        least = math.min(least, rows[i - 2][j - 2] + 1)
      end
      rows[i][j] = least
    end
  end
  return rows[#a][#b]
end

local LONGEST = 32 -- a longer word is no mistyped name

--- The end of a sentence with the nearest name; "" if none is near.
function values.nearest(word, names)
  local best, least = nil, math.huge
  for _, name in ipairs(#word <= LONGEST and names or {}) do
    local d = distance(word, name)
    if d < least then best, least = name, d end
  end
  local near = best and least <= math.max(1, math.floor(#best / 2.5))
  return near and ("; did you mean %s?"):format(best) or ""
end

return values
