-- The proxy process behind spec/support/proxy.lua: forwards TCP connections to
-- one server and misbehaves on command. It is a process of its own because the
-- test that commands it blocks while the code under test waits for the network.
-- usage: lua proxy_main.lua PORT HOST:PORT    (commands on stdin, see `verbs`)

local uv = require "luv"

-- Writing to a client that hung up is no reason to die.
local pipe_signal = uv.new_signal()
pipe_signal:start("sigpipe", function() end)
pipe_signal:unref()

local listen_port = tonumber(arg[1])
local target, detour = arg[2], nil
local LOG_LIMIT = 4 * 1024 * 1024

local connections, logs, listener = {}, {}, nil
local total = { connections = 0, up = 0, down = 0 }
local rules = { up = {}, down = {} }
local cuts, waits = {}, {}
local other = { up = "down", down = "up" }
local verbs = {}

local function answer(...)
  io.stdout:write(table.concat({ ... }, " "), "\n")
  io.stdout:flush()
end

-- Whether a rule is for this connection: for all, or those that sent a string.
local function applies(rule, conn)
  return rule and (rule.sent == ""
    or table.concat(conn.log.up):lower():find(rule.sent:lower(), 1, true))
end

local function close(handle)
  if not handle:is_closing() then
    handle:close()
  end
end

local function forget(conn)
  connections[conn] = nil
  for _, timer in pairs(conn.timers) do
    close(timer)
  end
end

local function close_both(conn)
  close(conn.up)
  close(conn.down)
  forget(conn)
end

local function reset_both(conn)
  for _, way in ipairs { "up", "down" } do
    if not conn[way]:is_closing() and not conn[way]:close_reset() then
      close(conn[way])
    end
  end
  forget(conn)
end

-- Ends the client's side now; the server's side only after it has read all that
-- was forwarded (closing it at once could take back what it has not read yet).
local function cut(conn)
  close(conn.down)
  if not conn.up:is_closing() then
    conn.up:shutdown(function()
      conn.draining = true
    end)
  end
  forget(conn)
end

local pump

local function later(conn, way, ms)
  local timer = conn.timers[way]
  if not timer:is_active() then
    timer:start(ms, 0, function()
      pump(conn, way)
    end)
  end
end

local function finish(conn, way, item)
  if item.reset then
    return reset_both(conn)
  end
  conn.ended[way] = true
  if conn.ended[other[way]] then
    return close_both(conn)
  end
  conn[way]:shutdown()
end

-- Sends what is due in one direction: "up" is towards the server.
function pump(conn, way)
  local queue, rule = conn.queue[way], rules[way]
  while connections[conn] and queue[1] do
    if applies(rule.hold, conn) then
      return
    end
    local item = queue[1]
    local wait = item.due - uv.now()
    if wait > 0 then
      return later(conn, way, wait)
    elseif item.data then
      local piece = applies(rule.trickle, conn) and rule.trickle.number
      if piece and piece < #item.data then
        conn[way]:write(item.data:sub(1, piece))
        item.data = item.data:sub(piece + 1)
        return later(conn, way, 1)
      end
      conn[way]:write(item.data)
      table.remove(queue, 1)
    else
      table.remove(queue, 1)
      finish(conn, way, item)
    end
  end
end

local function push(conn, way, item)
  local rule = rules[way].delay
  item.due = uv.now() + (applies(rule, conn) and rule.number or 0)
  table.insert(conn.queue[way], item)
  pump(conn, way)
end

-- Where the message that starts at `at` ends (RESP, or ZooKeeper's length and
-- body); the end of the chunk when it is not all there.
local function message_end(data, at)
  local kind = data:byte(at)
  if kind == 0 then
    local a, b, c, d = data:byte(at, at + 3)
    return d and at + 3 + ((a * 256 + b) * 256 + c) * 256 + d or #data
  end
  local _, stop, head = data:find("^[%$%*>]([%d-]+)\r\n", at)
  if not stop then
    return select(2, data:find("\r\n", at, true)) or #data
  elseif kind == 36 then -- $
    return tonumber(head) < 0 and stop or stop + tonumber(head) + 2
  end
  for _ = 1, tonumber(head) do
    stop = message_end(data, stop + 1)
  end
  return stop
end

-- What is left of a chunk when the messages that the rule is for are dropped.
local function without_messages(rule, data)
  local kept, at = {}, 1
  while at <= #data do
    local stop = message_end(data, at)
    local message = data:sub(at, stop)
    at = stop + 1
    if rule.number > 0 and message:find(rule.text, 1, true) then
      rule.number = rule.number - 1
    else
      kept[#kept + 1] = message
    end
  end
  return table.concat(kept)
end

-- What is left of a chunk after a drop rule; nil when nothing is.
local function after_drop(conn, way, data)
  local rule = rules[way].drop
  if not applies(rule, conn) then
    return data
  end
  if rule.text then
    data = without_messages(rule, data)
  else
    local n = math.min(rule.number, #data)
    rule.number = rule.number - n
    data = data:sub(n + 1)
  end
  if rule.number <= 0 then
    rules[way].drop = nil
  end
  return data ~= "" and data or nil
end

local function occurrences(way, text)
  local count = 0
  for _, log in ipairs(logs) do
    local all, at = table.concat(log[way]), 1
    while at do
      at = select(2, all:find(text, at, true))
      count = count + (at and 1 or 0)
      at = at and at + 1
    end
  end
  return count
end

local function check_waits()
  for i = #waits, 1, -1 do
    local w = waits[i]
    local count = occurrences(w.way, w.text)
    if count >= w.count then
      table.remove(waits, i)
      close(w.timer)
      answer("ok", count)
    end
  end
end

local function record(conn, way, data)
  total[way] = total[way] + #data
  local log = conn.log
  if log.size < LOG_LIMIT then
    log.size = log.size + #data
    table.insert(log[way], data)
  end
end

-- The cut rule that this chunk of a request sets off, if any.
local function find_cut(conn, data)
  local seen = conn.tail .. data
  conn.tail = seen:sub(-512)
  for i, rule in ipairs(cuts) do
    local from = math.max(1, #seen - #data - #rule.text + 2)
    if seen:find(rule.text, from, true) then
      rule.skip = rule.skip - 1
      if rule.skip < 0 then
        table.remove(cuts, i)
        return rule
      end
    end
  end
end

local function from_client(conn, data)
  local rule = find_cut(conn, data)
  if rule and rule.when == "before" then
    return cut(conn)
  elseif rule and rule.when == "at" then
    data = data:sub(1, rule.bytes)
  end
  data = after_drop(conn, "up", data)
  if data then
    push(conn, "up", { data = data })
  end
  if rule and (rule.when == "now" or rule.when == "at") then
    return cut(conn)
  elseif rule then
    conn.cut_on_reply = true
  end
end

local function from_server(conn, data)
  if conn.cut_on_reply then
    return cut(conn)
  end
  data = after_drop(conn, "down", data)
  if data then
    push(conn, "down", { data = data })
  end
end

local function receive(conn, way, err, data)
  if data and connections[conn] then
    record(conn, way, data)
    local handle = way == "up" and from_client or from_server
    handle(conn, data)
    check_waits()
  elseif not connections[conn] then
    if not data then
      close(conn.up)
      close(conn.down)
    end
  else
    push(conn, way, { reset = err ~= nil })
  end
end

-- Connection fields: up and down are the sockets bytes are written to.
local function new_connection(client, server)
  local conn = {
    up = server, down = client, tail = "", ended = {},
    queue = { up = {}, down = {} },
    timers = { up = uv.new_timer(), down = uv.new_timer() },
    log = { up = {}, down = {}, size = 0 },
  }
  connections[conn] = true
  table.insert(logs, conn.log)
  total.connections = total.connections + 1
  return conn
end

-- Where a new connection goes.
local function upstream()
  local address = target
  if detour then
    address, detour.count = detour.address, detour.count - 1
    if detour.count == 0 then
      detour = nil
    end
  end
  local host, port = address:match("^(.*):(%d+)$")
  return host, tonumber(port)
end

local function accept()
  local client, server = uv.new_tcp(), uv.new_tcp()
  listener:accept(client)
  client:nodelay(true)
  server:nodelay(true)
  local conn = new_connection(client, server)
  local host, port = upstream()
  server:connect(host, port, function(err)
    if err then
      return close_both(conn)
    elseif not connections[conn] then
      return
    end
    server:read_start(function(read_err, data)
      receive(conn, "down", read_err, data)
    end)
    client:read_start(function(read_err, data)
      receive(conn, "up", read_err, data)
    end)
  end)
end

local function listen()
  listener = uv.new_tcp()
  assert(listener:bind("127.0.0.1", listen_port))
  assert(listener:listen(128, accept))
end

local function each_way(way, act)
  for _, name in ipairs(way == "both" and { "up", "down" } or { way }) do
    act(name)
  end
end

local function pump_all(way)
  for conn in pairs(connections) do
    pump(conn, way)
  end
end

local function each_connection(sent, act)
  local chosen = {}
  for conn in pairs(connections) do
    if applies({ sent = sent }, conn) then
      chosen[#chosen + 1] = conn
    end
  end
  for _, conn in ipairs(chosen) do
    act(conn)
  end
  return #chosen
end

local function set(name)
  return function(way, sent, number, text)
    each_way(way, function(one)
      rules[one][name] = {
        sent = sent, number = tonumber(number), text = text,
      }
    end)
  end
end

verbs.hold = set "hold"
verbs.delay = set "delay"
verbs.trickle = set "trickle"
verbs.drop = set "drop"

function verbs.clear(way, name)
  each_way(way, function(one)
    rules[one][name] = nil
    pump_all(one)
  end)
end

-- Throws away what is held, then lets later bytes pass.
function verbs.discard(way)
  each_way(way, function(one)
    for conn in pairs(connections) do
      if applies(rules[one].hold, conn) then
        conn.queue[one] = {}
      end
    end
    rules[one].hold = nil
  end)
end

function verbs.close(sent)
  return each_connection(sent, close_both)
end

function verbs.reset(sent)
  return each_connection(sent, reset_both)
end

function verbs.cut(when, text, skip, bytes)
  table.insert(cuts, { when = when, text = text, skip = tonumber(skip),
    bytes = tonumber(bytes) })
end

function verbs.refuse(on)
  if on == "yes" then
    close(listener)
  elseif listener:is_closing() then
    listen()
  end
end

function verbs.lead(address, count)
  if tonumber(count) < 0 then
    target, detour = address, nil
  else
    detour = { address = address, count = tonumber(count) }
  end
end

function verbs.count(way, text)
  return occurrences(way, text)
end

verbs["wait"] = function(way, text, count, ms)
  local w = { way = way, text = text, count = tonumber(count) }
  w.timer = uv.new_timer()
  w.timer:start(tonumber(ms), 0, function()
    for i, one in ipairs(waits) do
      if one == w then
        table.remove(waits, i)
      end
    end
    close(w.timer)
    answer("ok", "-1")
  end)
  table.insert(waits, w)
  check_waits()
  return "later"
end

function verbs.stats()
  local open, ended = 0, 0
  for conn in pairs(connections) do
    open = open + 1
    ended = ended + (conn.ended.down and 1 or 0)
  end
  return open, total.connections, total.up, total.down, ended
end

require("spec.support.control").serve(verbs, answer)
listen()
answer("ready")
uv.run()
