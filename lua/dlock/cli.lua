-- The command `dlock`, by the table in dlock.cli.words. Each group of verbs is
-- a module, loaded at need. A verb returns its exit status, or nil, message,
-- code.
require "dlock.cli.unread" -- first
local args = require "dlock.cli.args"
local core = require "dlock.core"
local open = require "dlock.open"
local out = require "dlock.cli.out"
local signals = require "dlock.cli.signals"

local EX_USAGE, EX_UNAVAILABLE, EX_IOERR, EX_BUSY, EX_DENIED =
  64, 69, 74, 75, 77
local EX_LOST = 70
local CODES = { busy = EX_BUSY, timeout = EX_BUSY, cancelled = EX_BUSY,
  invalid = EX_USAGE, unsupported = EX_USAGE, denied = EX_DENIED,
  lost = EX_LOST }
local STDERR = 2

local MODULES = { run = "run", elect = "run", acquire = "handle",
  release = "handle", extend = "handle", ["held-by"] = "handle",
  watch = "watch" }

local function finish(status)
  if out.flushed() then return status end
  out.complain("the output cannot be written: " .. out.problem())
  return status == 0 and EX_IOERR or status
end

local function failed(request, message, code)
  out.complain(tostring(message))
  local status = CODES[code] or EX_UNAVAILABLE
  return status == EX_BUSY and request.options.E or status
end

local function wrong(problem, verb)
  out.complain(problem)
  io.stderr:write(("dlock %s--help lists what there is\n")
    :format(verb and verb.name .. " " or ""))
  return EX_USAGE
end

-- run and acquire call this before they wait: it tells of the wait, on a
-- terminal or with -v, until they call its result.
local function teller(request, settings)
  if not (request.options.v or core.terminal(STDERR)) then
    return function() return function() end end
  end
  return function(store)
    local waiting = require "dlock.cli.waiting"
    local tell = waiting.teller(store, request.words,
      settings.name and settings.name.value or waiting.own_name(),
      out.complain)
    signals.beside(tell)
    return function()
      signals.beside(nil)
      tell(true)
    end
  end
end

local function serve(request, settings, config)
  local store, message, code = open(config.for_open(settings))
  if not store then
    local given = settings.url
    if given and given.given and not message:find("_file ", 1, true) then
      message = ("%s (the URL is that of %s)"):format(message, given.from)
    end
    return failed(request, message, code)
  end
  local url = os.getenv("DLOCK_URL")
  if url then core.setenv("DLOCK_URL", config.without_secret(url)) end
  request.timeout = settings.timeout and settings.timeout.value or math.huge
  request.tell_waiting = teller(request, settings)
  local verb = request.verb.name
  local module = require("dlock.cli." .. (MODULES[verb] or "look"))
  local status, signal = signals.until_one(verb == "run" or verb == "elect",
    function(waited)
      local result, why, its_code =
        (module[verb] or module.verb)(store, request, waited)
      return result or failed(request, why, its_code)
    end)
  signals.beside(nil)
  if not status then -- a signal is the normal end of a watch
    status = verb == "watch" and 0 or 128 + signal
  end
  store:close(1)
  return finish(status)
end

local function print_config(request, settings, config)
  local store = open {} -- that of the settings
  local list = config.list(settings, store and out.store(store) or "?")
  if request.options.json then
    local object = {}
    for _, one in ipairs(list) do
      object[one.name] = { value = one.value, from = one.from }
    end
    out.say(require("dlock.json").encode(object))
    return finish(0)
  end
  for _, one in ipairs(list) do
    out.say(("%s = %s   # %s"):format(one.name, out.plain(one.value),
      out.plain(one.from)))
  end
  return finish(0)
end

local function print_schema(request, settings)
  local named = {}
  for _, name in ipairs { "schema", "tables" } do
    named[name] = settings[name] and settings[name].value
  end
  local text, message, code = require("dlock.store").schema(request.words[1],
    named)
  if not text then return failed(request, message, code) end
  out.say((text:gsub("\n$", "")))
  return finish(0)
end

return function(list)
  local request, problem, verb = args.read(list)
  if not request then
    return wrong(problem, verb)
  elseif request.help then
    local help = require "dlock.cli.help"
    out.say(request.verb and help.of(request.verb) or help.all())
    return finish(0)
  elseif request.version then
    out.say("dlock " .. require "dlock.version")
    return finish(0)
  end
  local config = require "dlock.cli.config"
  local settings
  collectgarbage "restart"
  settings, problem = config.read(request.options)
  if not settings then
    return wrong(problem)
  elseif request.verb.name == "config" then
    return print_config(request, settings, config)
  elseif request.verb.name == "schema" then
    return print_schema(request, settings)
  end
  return serve(request, settings, config)
end
