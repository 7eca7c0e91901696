-- Help from the table in words.lua.
local words = require "dlock.cli.words"

local help = {}

local COLUMN, WIDTH = 29, 79 -- columns of explanations

local function row(out, left, right)
  left = "  " .. left
  if #left >= COLUMN then
    out[#out + 1] = left
    left = ""
  end
  local line = left .. (" "):rep(COLUMN - 1 - #left)
  for word in right:gmatch("%S+") do
    if #line + 1 + #word > WIDTH then
      out[#out + 1] = line
      line = (" "):rep(COLUMN - 1)
    end
    line = line .. " " .. word
  end
  out[#out + 1] = line
end

function help.shown(option)
  local takes = option.takes and option.takes:gsub(" or ", "|")
    :gsub(",? as .*", ""):gsub(" from .*", "")
  return option.name .. (takes and " " .. takes or "")
end

local function list_options(out, title, wanted)
  local first = true
  for _, option in ipairs(words.options) do
    if wanted(option) then
      if first then out[#out + 1] = title end
      first = false
      row(out, help.shown(option), option.help)
    end
  end
end

function help.is_general(option)
  for _, verb in ipairs(words.verbs) do
    if not words.belongs(option, verb) then return false end
  end
  return true
end

function help.all()
  local out = { "usage: dlock [OPTION...] VERB [OPTION...] [WORD...]", "",
    "Verbs (dlock VERB --help has more):" }
  for _, verb in ipairs(words.verbs) do
    row(out, verb.name .. " " .. verb.usage, verb.help)
  end
  out[#out + 1] = ""
  list_options(out, "Options of all verbs; --option=VALUE is the same:",
    help.is_general)
  out[#out + 1] = ""
  out[#out + 1] = "A DURATION is a number of seconds, or one with s, m, h or d"
    .. " behind it."
  out[#out + 1] = "Settings come from /etc/dlock.conf, ~/.config/dlock.conf,"
    .. " $DLOCK_URL,"
  out[#out + 1] = "$DLOCK_PASSWORD_FILE and options; the last one counts."
  out[#out + 1] = ""
  out[#out + 1] = "Exit statuses:"
  for _, status in ipairs(words.statuses) do row(out, status[1], status[2]) end
  return table.concat(out, "\n")
end

function help.of(verb)
  local out = { ("usage: dlock %s [OPTION...] %s"):format(verb.name,
    verb.usage):gsub(" $", ""), "", "dlock " .. verb.name .. ": " .. verb.help
    .. "." }
  if verb.more then out[#out + 1] = verb.more end
  out[#out + 1] = ""
  list_options(out, "Options:", function(option)
    return words.belongs(option, verb) and not help.is_general(option)
  end)
  out[#out + 1] = "Options of the store stand in dlock --help."
  return table.concat(out, "\n")
end

return help
