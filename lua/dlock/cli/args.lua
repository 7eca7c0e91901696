-- Reads the command line by the table in words.lua, and refuses each unknown
-- word before anything is touched.
--
-- Options may stand anywhere. `--opt=X` is `--opt X`; only the first may have
-- an option as X. `--` ends them: then comes a command, or words that may begin
-- with a dash. A key of `run` that does has a `--` of its own. --help wins over
-- everything.
local values = require "dlock.cli.values"
local words = require "dlock.cli.words"

local args = {}

local field = words.field

local function name_of(word)
  local name, given = word:match("^(%-%-[^=]+)=(.*)$")
  return name or word, given
end

-- So an option without its value does not swallow the next one.
local function can_be_value(word)
  return word and word ~= "--" and not words.option[name_of(word)]
end

local function unknown_option(name)
  local names = {}
  if name == "-w" then return "unknown option -w; did you mean --timeout?" end
  if #name == 2 then return "unknown option " .. name end -- all are near it
  for _, option in ipairs(words.options) do names[#names + 1] = option.name end
  return ("unknown option %s%s"):format(name, values.nearest(name, names))
end

-- An option's value and the place where it ends, or nil and the problem.
local function value_of(list, i, option, given)
  if not option.takes then
    if given then return nil, ("%s takes no value"):format(option.name) end
    return true, i
  elseif not given then
    i = i + 1
    given = list[i]
    if not can_be_value(given) then
      local hint = option.name:sub(1, 2) == "--"
        and (" (%s=... when that is an option)"):format(option.name) or ""
      return nil, ("%s needs %s%s"):format(option.name, option.takes, hint)
    end
  end
  local value, problem = values.read(option, given)
  if value == nil then return nil, problem end
  return value, i
end

local function read_option(list, i, found)
  local name, given = name_of(list[i])
  local option = words.option[name]
  if not option then
    return nil, unknown_option(name)
  elseif found[field(option)] ~= nil then
    return nil, ("%s is given twice"):format(name)
  end
  local value, at = value_of(list, i, option, given)
  if value == nil then return nil, at end
  found[field(option)] = value
  return at
end

local function split(list)
  local options, found, i = {}, {}, 1
  while list[i] and list[i] ~= "--" do
    if list[i]:find("^%-.") then
      local at, problem = read_option(list, i, options)
      if not at then return nil, problem end
      i = at
    else
      found[#found + 1] = list[i]
    end
    i = i + 1
  end
  local rest = list[i] and {}
  for n = i + 1, #list do rest[#rest + 1] = list[n] end
  return options, found, rest
end

local function bad_options(options, verb)
  for _, option in ipairs(words.options) do
    if options[field(option)] ~= nil then
      if not words.belongs(option, verb) then
        return ("%s does not belong to %s"):format(option.name, verb.name)
      end
      for other in (option.instead or ""):gmatch("%S+") do
        if options[other] ~= nil then
          return ("%s and %s exclude each other"):format(option.name,
            words.named(other).name)
        end
      end
    end
  end
end

local function asked_help(list)
  local verb
  if list[1] == "help" then return true, words.verb[list[2]] end
  for i, word in ipairs(list) do
    if word == "--" then break end
    if word == "-h" or word == "--help" then return true, verb end
    local before = words.option[list[i - 1]]
    local is_value = before and before.takes and can_be_value(word)
      and values.read(before, word) ~= nil
    verb = verb or not is_value and words.verb[word] or nil
  end
  return false, verb
end

local function unknown_verb(name)
  if not name then return "a command is expected" end
  local names = {}
  for _, verb in ipairs(words.verbs) do names[#names + 1] = verb.name end
  return ("unknown command '%s'%s"):format(name, values.nearest(name, names))
end

-- Moves words behind `--` to their place. Returns the command.
local function move_words(found, rest, verb)
  if not verb.command then
    for _, word in ipairs(rest) do found[#found + 1] = word end
    return nil
  end
  if #found == 0 then -- the first `--` of KEY... -- COMMAND ended the options
    for i, word in ipairs(rest) do
      if word == "--" then
        for _ = 1, i - 1 do found[#found + 1] = table.remove(rest, 1) end
        table.remove(rest, 1)
        break
      end
    end
  end
  return rest
end

local function command_of(rest, options, verb)
  local given = rest and rest[1] ~= nil
  if not verb.command then
    return nil
  elseif not options.c then
    return given and rest or nil, not given and "no command"
  elseif given then
    return nil, "-c and a command behind -- exclude each other"
  end
  return { "/bin/sh", "-c", options.c }
end

local function twice(list)
  local seen = {}
  for _, key in ipairs(list) do
    if seen[key] then return key end
    seen[key] = true
  end
end

local function read_words(found, rest, options)
  local name = table.remove(found, 1)
  local verb = words.verb[name]
  if not verb then return nil, unknown_verb(name) end
  rest = rest and move_words(found, rest, verb)
  local command, problem = command_of(rest, options, verb)
  if problem == "no command" or #found < verb.words[1]
      or #found > verb.words[2] then
    return nil, verb.usage == "" and ("%s takes no words"):format(name)
      or ("%s takes %s"):format(name, verb.usage)
  elseif problem then
    return nil, problem
  elseif twice(found) then
    return nil, ("'%s' is given twice"):format(twice(found))
  elseif #found > 1 and options["once-per"] then
    return nil, "--once-per takes one KEY"
  end
  return { verb = verb, words = found, command = command, options = options }
end

---@return table|nil # verb (of words.verbs), words, options (by names without
--- dashes), command; or help (and verb); or version
---@return table? verb for help
function args.read(list)
  local help, verb = asked_help(list)
  if help then return { help = true, verb = verb } end
  local options, found, rest = split(list)
  if not options then
    return nil, found, verb
  elseif options.version or found[1] == "version" then
    return { version = true }
  end
  local read, problem = read_words(found, rest, options)
  problem = problem or bad_options(options, read.verb)
  if problem then return nil, problem, verb end
  return read
end

return args
