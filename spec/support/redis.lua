-- Redis for specs: a small blocking client, so that assertions about the server
-- do not go through the code under test, and private servers for specs that
-- need one of their own (other settings, kills, pauses).
--
--   local r = redis.connect()            -- $DLOCK_TEST_REDIS
--   r:call("PTTL", "dlock:a")            --> integer
--   local s = redis.start { maxmemory = "3mb" }; s.url; s:kill(); s:stop()

local uv = require "luv"
local loop = require "spec.support.loop"
local server = require "spec.support.server"

local redis = {}
local client = {}
client.__index = client

local TIMEOUT = 10

--- A null inside an array; a null reply itself is nil.
redis.null = setmetatable({}, {
  __tostring = function()
    return "redis.null"
  end,
})

-- One reply of `text` from position `at`: the position after it, and the value;
-- nil while it is not complete. Errors come as { err = message }.
local function parse(text, at)
  local stop = text:find("\r\n", at, true)
  if not stop then
    return nil
  end
  local kind, rest = text:sub(at, at), text:sub(at + 1, stop - 1)
  local after = stop + 2
  if kind == "+" then
    return after, rest
  elseif kind == "-" then
    return after, { err = rest }
  elseif kind == ":" then
    return after, tonumber(rest)
  elseif kind == "$" then
    local length = tonumber(rest)
    if length < 0 then
      return after, redis.null
    elseif #text < after + length + 1 then
      return nil
    end
    return after + length + 2, text:sub(after, after + length - 1)
  elseif kind == "*" then
    local count, list = tonumber(rest), {}
    if count < 0 then
      return after, redis.null
    end
    for i = 1, count do
      local value
      after, value = parse(text, after)
      if not after then
        return nil
      end
      list[i] = value
    end
    return after, list
  end
  error("not a RESP2 reply: " .. text:sub(at, at + 40))
end

--- Bytes of a command.
function redis.format(...)
  local parts = { "*" .. select("#", ...) }
  for i = 1, select("#", ...) do
    local arg = tostring((select(i, ...)))
    parts[#parts + 1] = "$" .. #arg
    parts[#parts + 1] = arg
  end
  return table.concat(parts, "\r\n") .. "\r\n"
end

local function open_socket(url)
  local path = url:match("^redis%+unix://([^?]*)")
  local state = {}
  local function connected(err)
    state.done, state.err = true, err
  end
  local socket = path and uv.new_pipe(false) or uv.new_tcp()
  if path then
    socket:connect(path, connected)
  else
    local host, port = url:match("^redis://[^/]-([%d.]+):(%d+)")
    assert(host, "no address in " .. url)
    socket:connect(host, tonumber(port), connected)
  end
  loop.wait(TIMEOUT, function()
    return state.done
  end)
  if not state.done or state.err then
    loop.close(socket)
    return nil, state.err or "timeout"
  end
  return socket
end

--- Connects to a server by its URL; nil and a message when that fails.
function redis.connect(url)
  url = url or os.getenv("DLOCK_TEST_REDIS")
  assert(url, "DLOCK_TEST_REDIS is not set: run `make test`")
  local socket, err = open_socket(url)
  if not socket then
    return nil, err
  end
  local self = setmetatable({ socket = socket, input = "" }, client)
  socket:read_start(function(read_err, data)
    if data then
      self.input = self.input .. data
    else
      self.ended = read_err or "closed"
    end
  end)
  local user, password = url:match("^redis://([^:@/]*):([^@/]*)@")
  if password then
    self:call("AUTH", user ~= "" and user or "default", password)
  end
  local db = url:match("^redis://[^/]+/(%d+)")
  if db then
    self:call("SELECT", db)
  end
  return self
end

--- Sends a command and does not read its reply.
function client:send(...)
  self.socket:write(redis.format(...))
end

--- The next reply (or pushed message); nil, message for an error, a timeout
--- or a lost connection.
function client:read(timeout)
  local after, value
  loop.wait(timeout or TIMEOUT, function()
    after, value = parse(self.input, 1)
    return after or self.ended
  end)
  if not after then
    return nil, self.ended or "timeout"
  end
  self.input = self.input:sub(after)
  if value == redis.null then
    return nil
  elseif type(value) == "table" and value.err then
    return nil, value.err
  end
  return value
end

--- One command: its reply, or nil, message.
function client:pcall(...)
  self:send(...)
  return self:read()
end

--- One command: its reply; an error reply raises.
function client:call(...)
  local value, err = self:pcall(...)
  if err then
    error(table.concat({ ... }, " "):sub(1, 80) .. ": " .. err, 2)
  end
  return value
end

--- The names that match.
function client:names(pattern)
  local found, cursor = {}, "0"
  repeat
    local page = self:call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
    cursor = page[1]
    for _, name in ipairs(page[2]) do found[#found + 1] = name end
  until cursor == "0"
  return found
end

--- Adds to `left` the names that match, with the time they stay, but those of
--- the counters of fences and votes, which stay for a day.
function client:left_of(pattern, left)
  for _, name in ipairs(self:names(pattern)) do
    if not name:find("^~dlock:[^:]*:[fv]:") then
      left[#left + 1] = name .. " " .. self:call("PTTL", name) .. " ms"
    end
  end
end

--- The names of what stands beside a lock (prefix and key), but its fence.
function client:parts_of(lock)
  return self:call("KEYS", "~dlock:{*}:[qwhpin]:" .. lock)
end

--- Whether neither the lock nor anything beside it, but its fence, is there.
function client:has_nothing_of(lock)
  return self:call("EXISTS", lock) == 0 and #self:parts_of(lock) == 0
end

--- How many wait in a lock's queue.
function client:queued(lock)
  local names = self:call("KEYS", "~dlock:{*}:q:" .. lock)
  return names[1] and self:call("ZCARD", names[1]) or 0
end

--- Calls of each command so far, by lower-case name.
function client:command_counts()
  local counts = {}
  local text = self:call("INFO", "commandstats")
  for name, calls in text:gmatch("cmdstat_([^:]+):calls=(%d+)") do
    counts[name] = tonumber(calls)
  end
  return counts
end

--- Waits until so many replicas have all that was written. WAIT tells it only
--- behind a write that was passed on. Before the first replica connects, no
--- write is, and the offset stays 0: WAIT then counts each replica that is
--- "online". Such a replica may be passed no command for a second more.
function client:copied(count)
  loop.eventually(count .. " replicas that are up to date", 20, function()
    local said = self:call("INFO", "replication")
    self:call("SET", "copied", "x")
    self:call("DEL", "copied")
    return tonumber(said:match("master_repl_offset:(%d+)")) > 0
      and self:call("WAIT", count, 100) == count
  end)
end

function client:close()
  loop.close(self.socket)
end

local instance = {}
instance.__index = instance

local function command_line(self, config)
  local dir = self.dir
  local settings = {
    port = self.port,
    bind = "127.0.0.1",
    dir = self.data,
    save = "",
    appendonly = "no",
    unixsocket = dir .. "/redis.sock",
    daemonize = "no",
    ["enable-debug-command"] = "yes",
  }
  for name, value in pairs(config) do
    settings[name:gsub("_", "-")] = value
  end
  settings["tls-port"] = self.tls_port or nil
  local lines = {}
  for name, value in pairs(settings) do
    for _, one in ipairs(type(value) == "table" and value or { value }) do
      one = tostring(one)
      lines[#lines + 1] = name .. " " .. (one == "" and '""' or one)
    end
  end
  server.write_file(dir .. "/redis.conf", table.concat(lines, "\n") .. "\n")
  return { "redis-server", dir .. "/redis.conf" }
end

local function launch(self)
  return server.spawn(self.cmd, self.dir .. "/redis.log", function(log)
    return log:find("Ready to accept connections", 1, true)
  end)
end

--- Starts a private server. config: redis.conf settings (an array repeats the
--- setting; _ may stand for -); with certificates (spec/support/certificates)
--- it serves TLS as well. Returns an object with url, tls_url, socket_url, pid,
--- port, tls_port, dir, and stop, kill, pause, resume, start_again, connect.
--- env: more environment for it, { NAME = value }.
function redis.start(config, dir, env)
  local self = setmetatable({ dir = dir or server.new_dir() }, instance)
  self.data = server.memory_dir(self.dir)
  self.server = server.retry(function()
    self.port = server.free_port()
    self.tls_port = config and config.tls_cert_file and server.free_port()
    self.cmd = command_line(self, config or {})
    for name, value in pairs(env or {}) do
      table.insert(self.cmd, 1, name .. "=" .. value)
    end
    table.insert(self.cmd, 1, "env")
    return launch(self)
  end)
  self.pid = self.server.pid
  self.url = "redis://127.0.0.1:" .. self.port
  self.tls_url = self.tls_port and "rediss://127.0.0.1:" .. self.tls_port
  self.socket_url = "redis+unix://" .. self.dir .. "/redis.sock"
  return self
end

--- SIGKILL; start_again() brings it back on the same port.
function instance:kill()
  return self.server:kill()
end

--- Ends as an admin ends it, with a last snapshot where it keeps one.
function instance:shut_down()
  return self.server:terminate()
end

function instance:start_again()
  local again, log = launch(self)
  self.server = assert(again, log)
  self.pid = self.server.pid
end

function instance:pause()
  return self.server:pause()
end

function instance:resume()
  return self.server:resume()
end

function instance:connect()
  return redis.connect(self.url)
end

--- Ends it and removes its directory. May be called again.
function instance:stop()
  if self.dir then
    self.server:kill()
    server.remove_dir(self.dir)
    server.remove_dir(self.data)
    self.dir = nil
  end
end

return redis
