-- Passwords from a file or a function of the user: at open, and each time the
-- server refuses the last one. The function runs in Lua's own thread; its
-- answer counts from the next connection on. C reads a file again. No message
-- has any part of a password.
local core = require "dlock.core"
local events = require "dlock.events"
local options = require "dlock.options"
local protect = require "dlock.protect"
local text = require "dlock.text"

local password = {}

local function wrong(found, problem)
  if type(found) == "string" then
    return options.check({ password = found }, "dlock.open")
  elseif found == nil and problem ~= nil then
    return "the function password gave none: " .. text.of_error(problem)
  end
  return ("the function password must give a string, not a %s")
    :format(type(found))
end

local function ask_for(ask)
  local ok, found, problem = protect.call(ask)
  local message
  if not ok then
    message = "the function password failed: " .. text.of_error(found)
  else
    message = wrong(found, problem)
  end
  if message then
    return nil, "invalid: " .. message:gsub("^invalid: ", "")
  end
  return found
end

-- The file may be a pipe, whose writer has connect_timeout.
local function read_password(option, path, opts)
  local found, problem = core.password_file(path,
    opts.connect_timeout or options.default("connect_timeout"))
  if found then
    return found
  end
  return nil, ("invalid: %s %s cannot be read (%s)"):format(option,
    text.quote(path), problem)
end

-- Replaces the options of files by what these hold. The option stays where the
-- file counts: C reads it again at each connect.
local function read_passwords(opts)
  for _, name in ipairs { "password", "sentinel_password" } do
    local path = opts[name .. "_file"]
    if path and opts[name] then
      opts[name .. "_file"] = nil
    elseif path then
      local message
      opts[name], message = read_password(name .. "_file", path, opts)
      if message then
        return message
      end
    end
  end
end

-- Takes a function's first answer, unless the URL has a password.
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
  opts.password, message = ask_for(ask)
  return message
end

-- A lone user in the URL is mostly a password in the wrong place.
local function lone_user(opts, where)
  if where.username and not where.password and not opts.password
      and not opts.ask then
    return ("invalid: %s: the URL has a user and nothing has a password; write"
      .. " %s://:password@ for a password alone, and a user that needs none as"
      .. " user:@"):format(where.shown, where.scheme)
  end
end

---@param where table from url.parse; its password goes before a function's
---@return string? message "invalid: ..."
function password.find(opts, where)
  return ask_password(opts, where.password) or read_passwords(opts)
    or lone_user(opts, where)
end

-- The engine asks once for each refused password, so it needs an answer.
local function renew(client, ask)
  local found, message = ask_for(ask)
  client.engine:password(found)
  if message then
    events.failed(client, message)
  end
end

--- events.due calls the function.
function password.watch(client, ask)
  client.new_password = ask and function() renew(client, ask) end
end

return password
