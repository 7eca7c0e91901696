-- A server that speaks RESP and answers what a spec tells it to: errors that a
-- real server gives only in a crisis, broken replies, silence. What no rule is
-- about is answered as Redis would.
--
--   local f = fake_server.start { SET = "-LOADING wait\r\n" }
--   local f = fake_server.start { INCR = { ":1\r\n", fake_server.CLOSE } }
--   dlock.open(f.url); f:count("SET"); f:rules {}; f:stop()
--
-- Rules: NAME, "NAME SUBCOMMAND" ("EVALSHA TAKE": a script's name is one,
-- too) or "*" = an answer, or an array of answers for
-- the first, second, … call (the last one stays). An answer is raw bytes, or
-- DEFAULT, SILENT, CLOSE, or { raw =, delay = seconds, close = true }.
-- "QUEUED SET" is what SET gets inside MULTI; SET's own answer then is its part
-- of EXEC's. Rules may also be Lua text of a function(name, words, client).

local process = require "spec.support.process"
local server = require "spec.support.server"
local control = require "spec.support.control"

local fake_server = { DEFAULT = true, SILENT = false, CLOSE = { close = true } }
fake_server.__index = fake_server

local function source(value)
  if type(value) ~= "table" then
    return type(value) == "string" and ("%q"):format(value) or tostring(value)
  end
  local fields = {}
  for key, item in pairs(value) do
    fields[#fields + 1] = "[" .. source(key) .. "]=" .. source(item)
  end
  return "{" .. table.concat(fields, ",") .. "}"
end

local function rule_text(rules)
  if type(rules) == "string" then
    return rules
  end
  return "return " .. source(rules or {})
end

--- Starts one. opts: banner (bytes sent to who connects), on_accept ("close",
--- or "silent": accepts and never answers), version (what INFO says).
function fake_server.start(rules, opts)
  local self = setmetatable({ port = server.free_port() }, fake_server)
  self.url = "redis://127.0.0.1:" .. self.port
  local file = debug.getinfo(1, "S").source:match("^@(.*)%.lua$")
  self.process = process.spawn {
    file = file .. "_main.lua",
    args = { self.port, "return " .. source(opts or {}), rule_text(rules) },
    tested = false,
  }
  self.process:expect("^ready$")
  return self
end

--- Replaces the rules; counting of calls for arrays starts anew.
function fake_server:rules(rules)
  control.command(self.process, nil, "rules", rule_text(rules))
end

--- How many commands called `name` came ("*": all; "connection": connections).
function fake_server:count(name)
  return tonumber(control.command(self.process, nil, "count", name))
end

--- Waits until `number` (1) commands called `name` have come in all; the count,
--- or nil, "timeout".
function fake_server:wait_for(name, number, timeout)
  timeout = timeout or 10
  local count = tonumber(control.command(self.process, timeout + 5, "wait",
    name, number or 1, math.floor(timeout * 1000)))
  if count < 0 then
    return nil, "timeout"
  end
  return count
end

--- All commands so far, one string each.
function fake_server:log()
  local lines = {}
  for word in control.command(self.process, nil, "log"):gmatch("%S+") do
    lines[#lines + 1] = control.unhex(word)
  end
  return lines
end

--- Sends bytes to everybody who is connected.
function fake_server:push(bytes)
  control.command(self.process, nil, "push", bytes)
end

--- Closes all connections.
function fake_server:close_connections()
  control.command(self.process, nil, "close")
end

function fake_server:stop()
  self.process:close()
end

return fake_server
