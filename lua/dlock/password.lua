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

-- The password, or nil and the problem.
local function ask_for(ask)
  local ok, found, why = protect.call(ask)
  if not ok then
    return nil, "the function password failed: " .. text.of_error(found)
  elseif type(found) == "string" then
    local bad = options.check({ password = found }, "dlock.open")
    return not bad and found or nil, bad
  elseif found == nil and why ~= nil then
    return nil, "the function password gave none: " .. text.of_error(why)
  end
  return nil, ("the function password must give a string, not a %s")
    :format(type(found))
end

-- Replaces the options of files by what these hold. The option stays where the
-- file counts: C reads it again at each connect. The file may be a pipe, whose
-- writer has connect_timeout.
local function read_passwords(opts)
  for _, name in ipairs { "password", "sentinel_password" } do
    local path = opts[name .. "_file"]
    if path and opts[name] then
      opts[name .. "_file"] = nil
    elseif path then
      local problem
      opts[name], problem = core.password_file(path,
        opts.connect_timeout or options.default("connect_timeout"))
      if not opts[name] then
        return ("%s_file %s cannot be read (%s)"):format(name,
          text.quote(path), problem)
      end
    end
  end
end

--- Puts the passwords into opts.
---@param where table from url.parse; its password goes before a function's
---@return string? problem
function password.find(opts, where)
  local ask, problem = opts.password, nil
  if type(ask) == "function" then
    opts.ask, opts.password = ask, nil
    if not where.password then
      opts.password, problem = ask_for(ask)
    end
  end
  problem = problem or read_passwords(opts)
  if not problem and where.username
      and not (where.password or opts.password or opts.ask) then
    return ("%s: the URL has a user and nothing has a password; write"
      .. " %s://:password@ for a password alone, and a user that needs none as"
      .. " user:@"):format(where.shown, where.scheme)
  end
  return problem
end

--- events.due calls the function. The engine asks once for each refused
--- password, so it needs an answer.
function password.watch(client, ask)
  client.new_password = ask and function()
    local found, message = ask_for(ask)
    client.engine:password(found)
    if message then
      events.failed(client, "invalid: " .. message)
    end
  end
end

return password
