-- The process behind spec/support/fake_server.lua: a server that speaks RESP
-- and answers what it is told to, right or wrong. It is a process of its own
-- because the test that asks it blocks while it answers.
-- usage: lua fake_server_main.lua PORT OPTIONS RULES   (Lua expressions)

local uv = require "luv"

-- Writing to a client that hung up is no reason to die.
local pipe_signal = uv.new_signal()
pipe_signal:start("sigpipe", function() end)
pipe_signal:unref()

local unpack = table.unpack or unpack
local function evaluate(text)
  return assert((loadstring or load)(text))()
end
local port = tonumber(arg[1])
local opts, rules = evaluate(arg[2]), evaluate(arg[3])

local log, clients, calls, waits = {}, {}, {}, {}
local fence = 2 ^ 45
local defaults = {}

local function bulk(text)
  return ("$%d\r\n%s\r\n"):format(#text, text)
end

local function array(items)
  return ("*%d\r\n%s"):format(#items, table.concat(items))
end

local function say(...)
  io.stdout:write(table.concat({ ... }, " "), "\n")
  io.stdout:flush()
end

-- One command from `text` at `at`: the position after it and its words.
local function parse(text, at)
  local _, stop, count = text:find("^%*(%d+)\r\n", at)
  local words = {}
  if not stop then
    local _, line_end, line = text:find("^([^\r\n]*)\r?\n", at)
    for word in (line or ""):gmatch("%S+") do
      words[#words + 1] = word
    end
    return line_end and line_end + 1, words
  end
  for i = 1, tonumber(count) do
    local _, head, length = text:find("^%$(%d+)\r\n", stop + 1)
    if not head or #text < head + length + 2 then
      return nil
    end
    words[i] = text:sub(head + 1, head + length)
    stop = head + tonumber(length) + 2
  end
  return stop + 1, words
end

local function info()
  return bulk(table.concat({
    "# Server", "redis_version:" .. (opts.version or "7.0.15"),
    "redis_mode:standalone", "tcp_port:" .. port, "# Clients",
    "maxmemory:0", "maxmemory_policy:noeviction", "loading:0", "role:master",
    "connected_slaves:0", "",
  }, "\r\n"))
end

local function subscription(kind)
  return function(words, client)
    local replies = {}
    for i = 2, #words do
      client.channels = client.channels + (kind == "subscribe" and 1 or -1)
      replies[#replies + 1] = array {
        bulk(kind), bulk(words[i]), ":" .. client.channels .. "\r\n",
      }
    end
    return table.concat(replies)
  end
end

local function fixed(text)
  return function()
    return text
  end
end

defaults.SUBSCRIBE = subscription "subscribe"
defaults.UNSUBSCRIBE = subscription "unsubscribe"
defaults.INFO = info
defaults.GET = fixed "$-1\r\n"
defaults.DEL = fixed ":1\r\n"
defaults.PTTL = fixed ":10000\r\n"
defaults.PEXPIRE = fixed ":1\r\n"
defaults.EXISTS = fixed ":0\r\n"
defaults.PUBLISH = fixed ":0\r\n"
defaults.COMMAND = fixed "*0\r\n"
defaults.CONFIG = fixed "*0\r\n"
defaults["CLIENT ID"] = fixed ":7\r\n"
defaults["CLIENT KILL"] = fixed ":1\r\n"

defaults["SCRIPT EXISTS"] = function(words)
  return "*" .. #words - 2 .. "\r\n" .. (":1\r\n"):rep(#words - 2)
end

-- dlock's scripts, in capitals, by their text and by its digest.
local scripts = {}
local header = package.cpath:match("([^;]*)/[^/;]+/%?%.so")
  .. "/gen/redis_scripts.h"
for _, by in ipairs { require("spec.sim.redis_model").read(header) } do
  for name, known in pairs(by) do scripts[known] = name:upper() end
end

-- The name of the script that EVAL or EVALSHA calls, or "". (For rules, too.)
local function script_of(words)
  return scripts[words[2]] or ""
end
rawset(_G, "script_of", script_of)

-- Whether it is a script that asks for a lock.
local ACQUIRES = { TAKE = true, TRY = true, JOIN = true, REFRESH = true }
rawset(_G, "acquires", function(words)
  return ACQUIRES[script_of(words)] or false
end)

defaults.EVAL = fixed ":1\r\n"
defaults.EVALSHA = fixed ":1\r\n"

for script in pairs(ACQUIRES) do
  for _, verb in ipairs { "EVAL ", "EVALSHA " } do
    defaults[verb .. script] = function()
      fence = fence + 1
      local number = (":%.0f\r\n"):format(fence)
      return script == "TAKE" and number
        or array { bulk "got", number, ":0\r\n" }
    end
  end
end

-- The command and what it is about: "CLIENT ID", "EVALSHA TRY".
local function sub_name(words)
  local name, second = words[1]:upper(), words[2] or ""
  local script = name == "EVAL" or name == "EVALSHA"
  return name .. " " .. (script and script_of(words) or second:upper())
end

function defaults.PING(_, client)
  return client.channels > 0 and array { bulk "pong", bulk "" } or "+PONG\r\n"
end

function defaults.INCR()
  fence = fence + 1
  return (":%.0f\r\n"):format(fence)
end

function defaults.HELLO(words)
  local fields = array {
    bulk "server", bulk "redis", bulk "version",
    bulk(opts.version or "7.0.15"), bulk "proto",
    ":" .. (words[2] or 2) .. "\r\n", bulk "id", ":7\r\n", bulk "mode",
    bulk "standalone", bulk "role", bulk "master", bulk "modules", "*0\r\n",
  }
  return words[2] == "3" and fields:gsub("^%*14", "%%7") or fields
end

local function default(words, client)
  local name = words[1]:upper()
  local answer = defaults[sub_name(words)] or defaults[name]
  return answer and answer(words, client) or "+OK\r\n"
end

-- The rule for a command: by function, or by "NAME SUBCOMMAND", NAME, "*"; of
-- an array the n-th entry for the n-th call, then its last one.
local function rule_for(words, client, prefix)
  if type(rules) == "function" then
    return rules(prefix .. words[1]:upper(), words, client)
  end
  local name = prefix .. words[1]:upper()
  local sub = prefix .. sub_name(words)
  local key = rules[sub] ~= nil and sub or rules[name] ~= nil and name or "*"
  local rule = rules[key]
  if type(rule) == "table" and #rule > 0 then
    calls[key] = (calls[key] or 0) + 1
    rule = rule[math.min(calls[key], #rule)]
  end
  return rule
end

-- The bytes that answer a command (false: none), and whether to close then.
local function answer_to(words, client, prefix)
  local rule = rule_for(words, client, prefix or "")
  if type(rule) == "table" then
    return rule.raw or "", rule.close, rule.delay
  elseif rule == nil or rule == true then
    return prefix and "+QUEUED\r\n" or default(words, client)
  end
  return rule
end

local function execute(client)
  local replies = {}
  for i, words in ipairs(client.queue) do
    replies[i] = answer_to(words, client) or ""
  end
  client.queue = nil
  return array(replies)
end

local function reply(words, client)
  local name = words[1]:upper()
  if name == "EXEC" and client.queue then
    local rule = rule_for(words, client, "")
    local all = execute(client)
    if rule == nil or rule == true then
      return all
    end
    return answer_to(words, client)
  elseif name == "DISCARD" then
    client.queue = nil
  elseif client.queue then
    table.insert(client.queue, words)
    return answer_to(words, client, "QUEUED ")
  elseif name == "MULTI" then
    client.queue = {}
  end
  return answer_to(words, client)
end

local function close(client)
  clients[client] = nil
  if not client.socket:is_closing() then
    client.socket:close()
  end
end

local function send(client, bytes, closing)
  if clients[client] and bytes and bytes ~= "" then
    client.socket:write(bytes)
  end
  if closing then
    close(client)
  end
end

local function count(name)
  local n = 0
  for _, line in ipairs(log) do
    if name == "*" or (line .. " "):sub(1, #name + 1) == name .. " " then
      n = n + 1
    end
  end
  return n
end

local function check_waits()
  for i = #waits, 1, -1 do
    local w = waits[i]
    if count(w.name) >= w.number then
      table.remove(waits, i)
      w.timer:close()
      say("ok", count(w.name))
    end
  end
end

local function serve(client, words)
  log[#log + 1] = words[1]:upper() .. " " .. table.concat(words, " ", 2)
  local bytes, closing, delay = reply(words, client)
  if delay then
    local timer = uv.new_timer()
    timer:start(math.floor(delay * 1000), 0, function()
      timer:close()
      send(client, bytes, closing)
    end)
  else
    send(client, bytes, closing)
  end
  check_waits()
end

local function receive(client, data)
  client.input = client.input .. data
  while clients[client] do
    local after, words = parse(client.input, 1)
    if not after then
      return
    end
    client.input = client.input:sub(after)
    if words[1] and opts.on_accept ~= "silent" then
      serve(client, words)
    end
  end
end

local listener = uv.new_tcp()
assert(listener:bind("127.0.0.1", port))
assert(listener:listen(128, function()
  local client = { socket = uv.new_tcp(), input = "", channels = 0 }
  listener:accept(client.socket)
  clients[client] = true
  log[#log + 1] = "connection "
  check_waits()
  send(client, opts.banner, opts.on_accept == "close")
  if clients[client] then
    client.socket:read_start(function(_, data)
      if data then
        receive(client, data)
      else
        close(client)
      end
    end)
  end
end))

local verbs = {}

function verbs.rules(text)
  rules, calls = evaluate(text), {}
end

function verbs.count(name)
  return count(name)
end

function verbs.log()
  local lines = {}
  for i, line in ipairs(log) do
    lines[i] = (line:gsub(".", function(c)
      return ("%02x"):format(c:byte())
    end))
  end
  return unpack(lines)
end

verbs["wait"] = function(name, number, ms)
  local w = { name = name, number = tonumber(number), timer = uv.new_timer() }
  w.timer:start(tonumber(ms), 0, function()
    for i, one in ipairs(waits) do
      if one == w then
        table.remove(waits, i)
      end
    end
    w.timer:close()
    say("ok", -1)
  end)
  table.insert(waits, w)
  check_waits()
  return "later"
end

function verbs.push(bytes)
  for client in pairs(clients) do
    send(client, bytes)
  end
end

function verbs.close()
  for client in pairs(clients) do
    close(client)
  end
end

local control = require "spec.support.control"
control.serve(verbs, say)
say("ready")
uv.run()
