-- A password that a function of the user gives: at open, and again each time
-- the server refused the last one. It is called in Lua's own thread, as all
-- callbacks are, and may wait there as they may; what it gives counts from the
-- next connection on. A secret, so no message has any part of it.
local events = require "dlock.events"
local options = require "dlock.options"
local protect = require "dlock.protect"
local text = require "dlock.text"

local password = {}

local function wrong(found, problem)
  if type(found) == "string" then
    return options.check({ password = found }, "dlock.open", 2)
  elseif found == nil and problem ~= nil then
    return "the function password gave none: " .. text.of_error(problem)
  end
  return ("the function password must give a string, not a %s")
    :format(type(found))
end

--- Asks it.
---@param ask function
---@return string|nil
---@return string? message "invalid: ..."
function password.ask(ask)
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

-- The engine asks once for each password that was refused (engine:asks), so it
-- has to hear in any case that there is an answer.
local function renew(client, ask)
  local found, message = password.ask(ask)
  client.engine:password(found)
  if message and client.on_event then
    events.event(client, "callback", message)
  elseif message then
    events.show(message)
  end
end

--- Has the client ask when it is refused (events.due does).
---@param client table
---@param ask? function
function password.watch(client, ask)
  client.new_password = ask and function() renew(client, ask) end
end

return password
