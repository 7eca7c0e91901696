-- What the command line of `dlock` may hold: one table of options, one of
-- verbs, and the one reader of both. It says what is wrong before anything was
-- touched: what is not understood is never passed over.
--
-- Options may stand before or after the verb and its arguments, and `--opt=X`
-- is `--opt X` (unless X is an option itself). `--` ends them: behind it
-- follows the command of `run`, for all other verbs arguments that may begin
-- with a dash. A key of `run` that begins with one stands behind a `--` of its
-- own. -h and --help before that win over everything else, mistakes included.
local rules = require "dlock.options"

local args = {}

-- (tonumber may want the decimal point of the locale.)
local function decimal(value)
  local whole, part = value:match("^(%d*)%.?(%d*)$")
  local n = tonumber(whole and whole .. part)
  return n and n / 10 ^ #part
end

-- Seconds that the library takes for what it calls `name`.
local function seconds(name, value)
  local n = decimal(value)
  return n and rules.fits(n, name) and n
end

local function ttl(value)
  return seconds("ttl", value)
end

local function patience(value)
  return value == "inf" and math.huge or seconds("timeout", value)
end

local function status(value)
  local n = value:find("^%d%d?%d?$") and tonumber(value)
  return n and n <= 255 and n
end

local function permits(value)
  local n, m = value:match("^(%d+)/(%d+)$")
  return n and { permits = tonumber(n), of = tonumber(m) }
end

-- takes: what the option's value is called; it is a flag without. read: gives
-- what it means, or nothing. range: what the library calls it, whose range is
-- shown when the value is not in it. verbs: to which it belongs, to all
-- without. instead: an option that asks for the same in another way.
local OPTIONS = {
  ["--url"] = { takes = "URL" },
  ["--prefix"] = { takes = "PREFIX" },
  ["--password-file"] = { takes = "FILE" },
  ["--ttl"] = { takes = "SECONDS", read = ttl, range = "ttl",
    verbs = { run = true } },
  ["--timeout"] = { takes = "inf or SECONDS", read = patience,
    range = "timeout", verbs = { run = true } },
  ["-n"] = { verbs = { run = true }, instead = "--timeout" },
  ["-E"] = { takes = "STATUS from 0 to 255", read = status,
    verbs = { run = true } },
  ["--shared"] = { verbs = { run = true }, instead = "--permits" },
  ["--permits"] = { takes = "N/M, as in 1/3", read = permits,
    verbs = { run = true } },
  ["--json"] = { verbs = { ls = true, show = true, ping = true, watch = true,
    stats = true } },
  ["--help"] = {},
  ["-h"] = {},
  ["--version"] = {},
}

-- The arguments: how many at least and at most, and their names. command:
-- what follows `--` is one.
local VERBS = {
  run = { 1, 1, "KEY -- COMMAND", command = true },
  ls = { 0, 1, "at most a PREFIX" },
  show = { 1, 1, "one KEY" },
  ["break"] = { 1, 1, "one KEY" },
  revoke = { 1, 1, "one KEY" },
  ping = { 0, 0, "no arguments" },
  watch = { 1, 1, "one KEY" },
  stats = { 0, 1, "at most a PREFIX" },
}

-- The option that a word is, and the value behind its '='.
local function name_of(word)
  local name, given = word:match("^(%-%-[^=]+)=(.*)$")
  return name or word, given
end

-- A word that is an option is no value, so that one whose value was forgotten
-- does not swallow the next one.
local function can_be_value(word)
  return word and word ~= "--" and not OPTIONS[name_of(word)]
end

-- The value of an option, which stands behind '=' or is the next word; then
-- where the next option may be.
local function value_of(list, i, name, given)
  local rule = OPTIONS[name]
  if not rule.takes then
    return not given, i, ("%s takes no value"):format(name)
  elseif not given then
    i = i + 1
    given = list[i]
    if not can_be_value(given) then
      local hint = name:sub(1, 2) == "--"
        and (" (%s=... when that is an option)"):format(name) or ""
      return nil, i, ("%s needs %s%s"):format(name, rule.takes, hint)
    end
  end
  local value = given
  if rule.read then
    value = rule.read(given)
  end
  local range = rule.range and " " .. rules.range(rule.range) or ""
  return value, i, ("%s takes %s%s, not '%s'"):format(name, rule.takes, range,
    given)
end

-- Reads the option at list[i] into found. Returns where it ends, or nil and
-- what is wrong with it.
local function read_option(list, i, found)
  local name, given = name_of(list[i])
  if not OPTIONS[name] then
    return nil, ("unknown option %s"):format(name)
  elseif found[name] ~= nil then
    return nil, ("%s is given twice"):format(name)
  end
  local value, at, problem = value_of(list, i, name, given)
  if not value then
    return nil, problem
  end
  found[name] = value
  return at
end

-- Splits the list into options, words, and what stands behind `--`.
local function split(list)
  local options, words, i = {}, {}, 1
  while list[i] and list[i] ~= "--" do
    if list[i]:find("^%-.") then
      local at, problem = read_option(list, i, options)
      if not at then return nil, problem end
      i = at
    else
      words[#words + 1] = list[i]
    end
    i = i + 1
  end
  local rest = list[i] and {}
  for n = i + 1, #list do rest[#rest + 1] = list[n] end
  return options, words, rest
end

local function bad_options(options, verb)
  for name in pairs(options) do
    local rule = OPTIONS[name]
    if rule.verbs and not rule.verbs[verb] then
      return ("%s does not belong to %s"):format(name, verb)
    elseif rule.instead and options[rule.instead] then
      return ("%s and %s exclude each other"):format(name, rule.instead)
    end
  end
end

local function asks_for_help(list)
  for _, word in ipairs(list) do
    if word == "--" then
      return false
    elseif word == "-h" or word == "--help" then
      return true
    end
  end
  return false
end

-- Moves arguments that stand behind `--` to the words. Returns the rest: the
-- command of `run`.
local function move_arguments(words, rest)
  if words[1] ~= "run" then
    for _, word in ipairs(rest) do words[#words + 1] = word end
    return nil
  elseif #words == 1 and rest[2] == "--" then
    words[2] = table.remove(rest, 1)
    table.remove(rest, 1)
  end
  return rest
end

-- The verb, its arguments and the command, from the words and what followed.
local function read_words(words, rest)
  rest = rest and move_arguments(words, rest)
  local verb = table.remove(words, 1)
  local rule = VERBS[verb]
  if not rule then
    return nil, verb and ("unknown command '%s'"):format(verb)
      or "a command is expected"
  elseif #words < rule[1] or #words > rule[2]
      or rule.command and not (rest and rest[1]) then
    return nil, ("%s takes %s"):format(verb, rule[3])
  end
  return { verb = verb, words = words, command = rest }
end

--- Reads a command line.
---@param list string[]
---@return table|nil # verb, words (its arguments), options (by name, with
--- their dashes), command (of run); or just help or version
---@return string? problem
function args.read(list)
  if asks_for_help(list) then
    return { help = true }
  end
  local options, words, rest = split(list)
  if not options then
    return nil, words
  elseif options["--version"] then
    return { version = true }
  end
  local read, problem = read_words(words, rest)
  problem = problem or bad_options(options, read.verb)
  if problem then
    return nil, problem
  end
  read.options = options
  return read
end

--- The names of all verbs and options, for the spec of the usage text.
function args.names()
  local names = {}
  for name in pairs(VERBS) do names[#names + 1] = name end
  for name in pairs(OPTIONS) do names[#names + 1] = name end
  return names
end

return args
