-- Settings come from /etc/dlock.conf, the user's dlock.conf, the environment
-- and options; later ones win. A file has lines `name = value` and comments
-- with #. An unreadable file is a mistake: without it the lock could be another
-- store's.
local text = require "dlock.text"
local url = require "dlock.url"
local values = require "dlock.cli.values"
local words = require "dlock.cli.words"

local config = {}

local ENOENT, ENOTDIR = 2, 20
local SYSTEM = "/etc/dlock.conf"
-- Kinds whose values may be false, and stand in a table.
local BOXED = { boolean = true, listen = true }

local field = words.field

local function read_line(line, from, found)
  if line:find("^%s*#") or not line:find("%S") then return nil end
  local name, given = line:match("^%s*([%w_-]+)%s*=%s*(.-)%s*$")
  if not name then return "it is not of the form name = value" end
  name = name:gsub("_", "-")
  local option = words.option["--" .. name]
  if not (option and option.open) then
    local names = {}
    for _, one in ipairs(words.options) do
      if one.open then names[#names + 1] = field(one) end
    end
    return ("there is no setting %s%s"):format(name,
      values.nearest(name, names))
  end
  if given:find("^[\"']") then return name .. " is written without quotes" end
  local value, problem = values.read(option, given, name)
  if value == nil then return problem end
  found[name] = { value = value, given = given, from = from }
end

local function read_file(path, found)
  local file, problem, errno = io.open(path, "r")
  if not file then
    return errno ~= ENOENT and errno ~= ENOTDIR and problem or nil
  end
  local number = 0
  local lines, why = file:read("*a")
  file:close()
  if not lines then return ("%s: %s"):format(path, why) end
  for line in (lines .. "\n"):gmatch("(.-)\r?\n") do
    number = number + 1
    local from = ("%s:%d"):format(path, number)
    problem = read_line(line, from, found)
    if problem then return from .. ": " .. problem end
  end
end

local function users_file()
  local base, home = os.getenv("XDG_CONFIG_HOME"), os.getenv("HOME")
  if base and base:find("^/") then return base .. "/dlock.conf" end
  return home and home ~= "" and home .. "/.config/dlock.conf"
end

--- The settings that count, each with its value, its text and its source.
---@param options table from args.read
function config.read(options)
  local found, users = {}, users_file()
  local problem = read_file(SYSTEM, found)
    or users and read_file(users, found)
  if problem then return nil, problem end
  for name, variable in pairs { url = "DLOCK_URL",
      ["password-file"] = "DLOCK_PASSWORD_FILE" } do
    local given = os.getenv(variable)
    if given and given ~= "" then
      found[name] = { value = given, given = given, from = "$" .. variable }
    end
  end
  for _, option in ipairs(words.options) do
    local name = field(option)
    if option.open and options[name] ~= nil then
      found[name] = { value = options[name], from = option.name }
    end
  end
  return found
end

function config.for_open(found)
  local open, tls = {}, {}
  for name, setting in pairs(found) do
    local option, value = words.option["--" .. name], setting.value
    if BOXED[option.kind] then value = value[1] end
    (option.tls and tls or open)[option.open] = value
  end
  open.tls = next(tls) and tls or nil
  return open
end

--- The URL that a child gets: no password goes on to it, and it asks the same
--- server. Nil for one that cannot be taken apart.
function config.without_secret(given)
  local parsed = url.parse(given)
  return parsed and (parsed.password and parsed.shown or given)
end

local function shown_url(value)
  local parsed, problem = url.parse(value)
  return parsed and parsed.shown or problem
end

-- Values for people, without a URL's secret.
local SHOWN = { url = shown_url }

function SHOWN.listen(value)
  return value[1] and shown_url(value[1]) or "off"
end

function SHOWN.nodes(value)
  local urls = {}
  for i, one in ipairs(value) do urls[i] = shown_url(one) end
  return table.concat(urls, ",")
end

local function shown(name, setting)
  local value = setting.value
  if SHOWN[name] then
    return SHOWN[name](value)
  elseif setting.given then
    return setting.given
  elseif type(value) == "number" then
    return value == math.huge and "inf" or text.number(value)
  elseif type(value) ~= "table" then
    return tostring(value)
  elseif words.option["--" .. name].kind == "boolean" then
    return value[1] and "yes" or "no"
  end
  local entries = {}
  for from, to in pairs(value) do entries[#entries + 1] = from .. "=" .. to end
  table.sort(entries)
  return table.concat(entries, ",")
end

--- Settings in the table's order: name, value, source.
---@param default string the URL without settings
function config.list(found, default)
  local list = {}
  for _, option in ipairs(words.options) do
    local name = field(option)
    local setting = found[name]
    if option.open and setting then
      list[#list + 1] = { name = name, value = shown(name, setting),
        from = setting.from }
    elseif name == "url" and not found.nodes then
      list[#list + 1] = { name = name, value = default, from = "default" }
    end
  end
  return list
end

return config
