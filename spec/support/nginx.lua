-- A private nginx with the Lua module for specs: on a free loopback port, in a
-- directory of its own, with the dlock of this source tree. And a small HTTP
-- client of which many requests can be under way at once.
--
--   local n = nginx.start { workers = 1, http = "…", server = "location …" }
--   n:get("/x") --> status, body
--   local r = n:begin("/x"); r:abort(); r:finish()
--   n:reload(); n:workers(); n:complaints(); n:stop()

local uv = require "luv"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"

local nginx = {}
nginx.__index = nginx

local TIMEOUT = 20

local MODULES = {
  "/usr/lib/nginx/modules/ndk_http_module.so",
  "/usr/lib/nginx/modules/ngx_http_lua_module.so",
}

local CONFIG = [[
@modules@
@user@
daemon @daemon@;
worker_processes @workers@;
pid @dir@/nginx.pid;
error_log stderr notice;
env DLOCK_TEST_REDIS;
env DLOCK_TEST_REDISS;
env DLOCK_TEST_CLUSTER;
env SSL_CERT_FILE;
@main@
events { worker_connections @connections@; }
http {
  access_log off;
  client_body_temp_path @dir@/body;
  proxy_temp_path @dir@/proxy;
  fastcgi_temp_path @dir@/fastcgi;
  uwsgi_temp_path @dir@/uwsgi;
  scgi_temp_path @dir@/scgi;
  keepalive_requests 1000000;
  lua_package_path '@path@';
  lua_package_cpath '@cpath@';
  @http@
  server {
    listen 127.0.0.1:@port@ backlog=2048 reuseport;
    @server@
  }
}
]]

local function modules()
  local lines = {}
  for _, path in ipairs(MODULES) do
    lines[#lines + 1] = "load_module " .. path .. ";"
  end
  return table.concat(lines, "\n")
end

-- Module paths as they are here, but absolute.
local function absolute(path)
  return (path:gsub("[^;]+", function(one)
    return one:sub(1, 1) == "/" and one or uv.cwd() .. "/" .. one
  end))
end

local function write_config(self)
  local opts = self.opts
  local values = {
    modules = modules(), dir = self.dir, port = self.port,
    user = uv.getuid() == 0 and "user root;" or "",
    daemon = opts.daemon and "on" or "off",
    workers = opts.workers or 1,
    connections = opts.connections or 4096,
    main = opts.main or "", http = opts.http or "", server = opts.server or "",
    path = absolute(package.path), cpath = absolute(package.cpath),
  }
  server.write_file(self.dir .. "/nginx.conf",
    (CONFIG:gsub("@(%w+)@", function(name) return values[name] end)))
end

local COMMAND = { "nginx", "-e", "stderr", "-c", "nginx.conf", "-p" }

--- Waits until done() says yes.
nginx.wait_for = loop.look

-- Only a master that is nobody's child, and knows its own path, obeys SIGUSR2.
-- It has its port when the command ends, and writes its pid down after that.
local function launch_daemon(self)
  local log = self.dir .. "/log"
  local status = process.run { command = { "sh", "-c",
    ('"$(command -v nginx)" %s %s 2>%s'):format(
      table.concat(COMMAND, " ", 2), self.dir, log) } }
  local pid = status == 0 and loop.look(TIMEOUT, function()
    return tonumber((server.read_file(self.dir .. "/nginx.pid")
      :match("^(%d+)\n")))
  end)
  if not pid then
    return nil, server.read_file(log)
  end
  server.remember(pid)
  return setmetatable({ pid = pid, log = log }, server)
end

local function launch(self)
  self.port = server.free_port()
  write_config(self)
  if self.opts.daemon then
    return launch_daemon(self)
  end
  local one, log = server.spawn(
    { COMMAND[1], COMMAND[2], COMMAND[3], COMMAND[4], COMMAND[5], COMMAND[6],
      self.dir },
    self.dir .. "/log",
    function(text) return text:find("start worker process %d") end)
  return one, log
end

--- Starts one. opts: workers (1), main, http, server (text for the
--- configuration), daemon (true: as a service runs it).
function nginx.start(opts)
  local self = setmetatable({ opts = opts, dir = server.new_dir() }, nginx)
  self.server = server.retry(function() return launch(self) end)
  self.pid = self.server.pid
  return self
end

--- The pids of the workers, those that are shutting down too.
function nginx:workers()
  local list, pid = {}, self.pid
  local path = ("/proc/%d/task/%d/children"):format(pid, pid)
  for child in server.read_file(path):gmatch("%d+") do
    list[#list + 1] = tonumber(child)
  end
  return list
end

--- Sends SIGHUP and waits for the new workers; `server_text`, if given, is the
--- new configuration. Returns the old workers' pids.
function nginx:reload(server_text)
  local old, known = self:workers(), {}
  for _, pid in ipairs(old) do known[pid] = true end
  if server_text then
    self.opts.server = server_text
    write_config(self)
  end
  self.server:signal("sighup")
  local fresh = loop.look(TIMEOUT, function()
    for _, pid in ipairs(self:workers()) do
      if not known[pid] then return true end
    end
  end)
  assert(fresh, "no new worker: " .. self:log())
  return old
end

--- Seconds until all these processes are gone, or nil.
function nginx:wait_gone(pids, timeout)
  local began = uv.hrtime()
  local gone = loop.look(timeout or TIMEOUT, function()
    for _, pid in ipairs(pids) do
      if server.alive(pid) then return false end
    end
    return true
  end)
  return gone and (uv.hrtime() - began) / 1e9
end

function nginx:log()
  return server.read_file(self.dir .. "/log")
end

--- The lines of the log that are warnings or worse.
function nginx:complaints()
  local list = {}
  for line in self:log():gmatch("[^\n]+") do
    if line:find("%[warn%]") or line:find("%[error%]")
      or line:find("%[crit%]") or line:find("%[alert%]")
      or line:find("%[emerg%]") then
      list[#list + 1] = line
    end
  end
  return list
end

--- Ends it, its workers too, and removes its directory.
function nginx:stop()
  if not self.dir then
    return
  end
  local workers = self:workers()
  self.server:terminate()
  for _, pid in ipairs(workers) do
    if server.alive(pid) then uv.kill(pid, "sigkill") end
  end
  self:wait_gone(workers, 5)
  server.remove_dir(self.dir)
  self.dir = nil
end

-- ---- the client ----

local request = {}
request.__index = request

-- Status and body of a whole response, or nil.
local function parse(text, ended)
  local head = text:find("\r\n\r\n", 1, true)
  if not head then
    return nil
  end
  local status = tonumber(text:match("^HTTP/1%.%d (%d+)"))
  local length = tonumber(text:sub(1, head):lower()
    :match("content%-length: (%d+)"))
  local body = text:sub(head + 4)
  if length and #body >= length or ended then
    return status, body
  end
end

--- Sends a request and does not wait. It is HTTP/1.0: the end of the
--- connection is the end of the body. opts: method (GET), headers (lines).
function nginx:begin(path, opts)
  opts = opts or {}
  local self_ = setmetatable({ text = "", socket = uv.new_tcp() }, request)
  self_.socket:connect("127.0.0.1", self.port, function(err)
    if err then
      self_.ended = err
      return
    end
    self_.socket:write((opts.method or "GET") .. " " .. path
      .. " HTTP/1.0\r\nHost: x\r\n"
      .. (opts.headers and opts.headers .. "\r\n" or "") .. "\r\n")
    self_.socket:read_start(function(problem, data)
      if data then
        self_.text = self_.text .. data
      else
        self_.ended = problem or true
      end
    end)
  end)
  uv.run("nowait")
  return self_
end

--- Waits for the answer: status, body; or nil and what happened.
function request:finish(timeout)
  loop.wait(timeout or TIMEOUT, function()
    return self.ended or parse(self.text, false)
  end)
  local status, body = parse(self.text, self.ended ~= nil)
  loop.close(self.socket)
  if status then
    return status, body
  end
  return nil, self.ended and ("closed: " .. tostring(self.ended)) or "timeout"
end

--- Closes the connection: the client has gone away.
function request:abort()
  loop.close(self.socket)
end

--- A request from start to end: status, body.
function nginx:get(path, timeout, opts)
  return self:begin(path, opts):finish(timeout)
end

--- Only the client, for a server that somebody else started.
function nginx.client(port)
  return setmetatable({ port = port }, nginx)
end

--- Runs wrk and returns requests/s, and its whole output.
function nginx:wrk(path, opts)
  local status, out = process.run {
    command = { "wrk", "-t1", "-c" .. (opts.connections or 64),
      "-d" .. (opts.seconds or 2) .. "s", "--latency",
      ("http://127.0.0.1:%d%s"):format(self.port, path) },
    timeout = 60,
  }
  assert(status == 0, out)
  return tonumber(out:match("Requests/sec:%s*([%d.]+)")), out
end

return nginx
