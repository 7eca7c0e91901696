-- dlock: distributed locks for Lua. Start with dlock.open; docs/reference.md
-- has every call, docs/guarantees.md what each store promises.
local all = require "dlock.kinds.all"
local canceller = require "dlock.canceller"
local core = require "dlock.core"
local fallback = require "dlock.kinds.fallback"
local logger = require "dlock.logger"
local options = require "dlock.options"
local password = require "dlock.password"
local secure = require "dlock.secure"
local store = require "dlock.store"
local text = require "dlock.text"
local url = require "dlock.url"
local version = require "dlock.version"

local dlock = { VERSION = version }

-- The embedded store of this user, for programs that name no store. It
-- must not depend on the session: a cron job and a login shell of a user are to
-- exclude each other ($XDG_RUNTIME_DIR is there in one and not in the other,
-- and goes at the logout; so does what is in /dev/shm, for systemd).
local function default_url()
  local from_environment = os.getenv("DLOCK_URL")
  if from_environment and from_environment ~= "" then
    return from_environment
  end
  return ("file:///tmp/dlock-%d"):format(core.euid())
end

-- The first line of a file that may be anything: a terminal, a pipe, one that
-- never ends. So no more is read than says whether it is a password.
local function first_bytes(file)
  local line = {}
  repeat
    local byte, problem = file:read(1)
    if problem then
      return nil, problem
    end
    line[#line + 1] = byte
  until not byte or byte == "\n" or #line == core.password_read
  return table.concat(line)
end

-- What the file holds; a secret, so it is never part of a message.
local function read_password(option, path)
  local found
  local file, problem = io.open(path, "rb")
  if file then
    found, problem = first_bytes(file)
    file:close()
  end
  if found then
    found, problem = core.password_line(found)
  end
  if found then
    return found
  end
  return nil, ("invalid: %s %s cannot be read (%s)"):format(option,
    text.quote(path), problem)
end

-- Puts what the files hold where the passwords are looked for. Which file it is
-- stays only if it says anything: it is read again at each connect.
local function read_passwords(opts)
  for _, name in ipairs { "password", "sentinel_password" } do
    local path = opts[name .. "_file"]
    if path and opts[name] then
      opts[name .. "_file"] = nil
    elseif path then
      local message
      opts[name], message = read_password(name .. "_file", path)
      if message then
        return message
      end
    end
  end
end

-- Of a function it is the first answer, unless the URL knows one.
local function ask_password(opts, in_url)
  local ask = opts.password
  if type(ask) ~= "function" then
    return nil
  end
  opts.ask, opts.password = ask, nil
  if in_url then
    return nil
  end
  local message
  opts.password, message = password.ask(ask)
  return message
end

-- What all functions of the module ask of their first argument.
local function no_colon(first, call)
  if first == dlock then
    error(("call it with a dot, as in dlock.%s(...)"):format(call), 3)
  end
end

--- Opens a store; connects at the first use, so there is no I/O here.
---@param where? string|dlock.open_options the URL ($DLOCK_URL, else the
--- embedded store of this user), or a table of options with `url` in it
---@return dlock.store|nil
---@return string? message
---@return string? code invalid, unsupported
function dlock.open(where, ...)
  local opts = {}
  no_colon(where, "open")
  if type((...)) == "table" or type(where) == "table" and where[1] ~= nil then
    error("dlock.open takes a URL, or one table with it in: { url = ... }", 2)
  end
  if type(where) == "string" then
    opts.url = where
  elseif where ~= nil then
    local bad = options.check(where, "dlock.open", 2)
    if bad then
      return nil, bad, "invalid"
    end
    for name, value in next, where do opts[name] = value end
  end
  local parsed, message, code = url.parse(opts.url or default_url())
  if not parsed then
    return nil, message, code
  end
  message = secure.check(opts.tls, parsed, 2)
    or ask_password(opts, parsed.password) or read_passwords(opts)
  if message then
    return nil, message, "invalid"
  end
  return store.open(parsed, opts)
end

--- Something to end waits with: acquire{ cancel = c }, then c:cancel().
---@return dlock.canceller
function dlock.canceller(...)
  no_colon((...), "canceller")
  return canceller.new()
end

--- Several locks of any stores as one: all of them or none.
---@param list dlock.lockable[]
---@return dlock.all
function dlock.all(list)
  no_colon(list, "all")
  local one = all.new(list)
  return one
end

--- A lock, and others in its place while its store is unavailable. Between
--- those who hold the first and those who hold another there is no exclusion.
---@param list dlock.fallback_list
---@return dlock.lockable|nil
---@return string? message
---@return string? code invalid
function dlock.fallback(list)
  no_colon(list, "fallback")
  local one, message, code = fallback.new(list)
  return one, message, code
end

--- An on_event that writes each event as a line of JSON.
---@param file? file* (nginx's error log, elsewhere standard error)
---@return fun(event: dlock.event)
function dlock.logger(file)
  no_colon(file, "logger")
  local on_event = logger.new(file)
  return on_event
end

return dlock
