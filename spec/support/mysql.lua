-- MariaDB for specs: a private server on a free loopback port, with its data in
-- the run's memory, to be killed, stopped and started again; the client program
-- looks at it from outside.
--
--   local m = mysql.start(); m.url; m:kill(); m:start_again(); m:stop()
--   m:sql "SELECT 1"                            --> "1"
--   local s = m:session(); s:run "BEGIN"; s:close()
--
-- `dlock` is the specs' user, and has a database of that name; `root` needs no
-- password on the socket. Nothing of this machine's own server is read.

local clock = require "spec.support.clock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"
local sql_session = require "spec.support.sql_session"
local template = require "spec.support.template"
local uv = require "luv"

local mysql = {}
mysql.__index = mysql

mysql.password = "sesame"

local run = template.run
local ROOT = uv.getuid() == 0

-- Debian has it where not every user looks.
local function program(name)
  local path = "/usr/sbin/" .. name
  return uv.fs_stat(path) and path or name
end

-- All that is synced is in memory, or need not outlive the machine.
local CONF = [[
[mysqld]
datadir = %s
tmpdir = %s
skip-name-resolve
innodb_flush_log_at_trx_commit = 0
innodb_buffer_pool_size = 16M
innodb_log_file_size = 4M
innodb_temp_data_file_path = ibtmp1:12M:autoextend
innodb_autoextend_increment = 1
key_buffer_size = 1M
aria_pagecache_buffer_size = 1M
aria_log_file_size = 8M
]] .. (ROOT and "user = root\n" or "")

local SERVER = [[
bind-address = 127.0.0.1
port = %d
socket = %s
pid-file = %s/pid
max_connections = %d
]]

local ROLES = ([[
FLUSH PRIVILEGES;
CREATE DATABASE dlock;
CREATE USER dlock@'%%' IDENTIFIED BY '%s';
GRANT ALL ON dlock.* TO dlock@'%%';
CREATE USER replica@'%%' IDENTIFIED BY '%s';
GRANT REPLICATION SLAVE ON *.* TO replica@'%%';
]]):format(mysql.password, mysql.password)

local function make_template(dir)
  local conf = dir .. ".cnf"
  server.write_file(conf, CONF:format(dir, dir))
  run { "mariadb-install-db", "--defaults-file=" .. conf, "--skip-test-db",
    "--auth-root-authentication-method=normal" }
  run({ program "mariadbd", "--defaults-file=" .. conf, "--bootstrap" }, ROLES)
  os.remove(conf)
end

local TLS = "ssl_cert = %s\nssl_key = %s\nssl_ca = %s\n"

local function write_conf(self, opts)
  local text = CONF:format(self.data, self.dir)
    .. SERVER:format(self.port, self.socket, self.dir,
      opts.max_connections or 100)
  if opts.tls then
    text = text .. TLS:format(opts.tls:path "server.crt",
      opts.tls:path "server.key", opts.tls:path "ca.crt")
  end
  if opts.binlog then
    text = text .. "log_bin = bin\nserver_id = 1\nbinlog_format = "
      .. opts.binlog .. "\n"
  end
  server.write_file(self.dir .. "/conf", text .. (opts.conf or ""))
end

local function is_ready(log)
  return log:find("ready for connections", 1, true)
end

local function launch(self)
  local log
  self.server, log = server.spawn(clock.under(self.opts.clock, {
    program "mariadbd", "--defaults-file=" .. self.dir .. "/conf" }),
    self.dir .. "/mysql.log", is_ready, 60)
  self.pid = self.server and self.server.pid
  return self.server and self, log
end

local function start(opts)
  local dir, port = server.new_dir(), server.free_port()
  local self = setmetatable({ dir = dir, port = port, socket = dir .. "/s.sock",
    data = server.memory_dir(dir .. "/data"), opts = opts,
    url = ("%s://dlock:%s@127.0.0.1:%d/dlock"):format(
      opts.tls and "mysqls" or "mysql", mysql.password, port),
  }, mysql)
  self.unix = ("mysql+unix://dlock:%s@%s/dlock"):format(mysql.password,
    self.socket)
  uv.fs_mkdir(self.data, 448) -- 0700
  template.copy("mysql", make_template, self.data)
  write_conf(self, opts)
  local up, log = launch(self)
  if not up then
    self:stop()
    return nil, log
  end
  return self
end

--- Starts a server, from which the user `replica` may replicate. opts: tls
--- (certificates), binlog (writes one, in that format), max_connections (100),
--- conf (lines of its file), clock (one of spec.support.clock).
function mysql.start(opts)
  return server.retry(function() return start(opts or {}) end)
end

local function client(url, ...)
  local user, where, database = url:match("^[%a+]+://([^@]*)@(.*)/([^/]*)$")
  local name, password = user:match("^([^:]*):?(.*)$")
  local host, port = where:match("^(.*):(%d+)$")
  local command = { "mariadb", "--no-defaults", "-N", "-B", "-r", "-u" .. name,
    "--password=" .. password, "--connect-timeout=10", ... }
  if host then
    command[#command + 1] = "-h" .. host
    command[#command + 1] = "-P" .. port
    command[#command + 1] = "--protocol=TCP"
  else
    command[#command + 1] = "-S" .. where
  end
  command[#command + 1] = database
  return command
end

--- What the client says to this, as the user of `url`: a line for each row,
--- with tabs between columns; nil, message. More arguments are options.
function mysql.ask(url, sql, ...)
  local status, out, err = process.run { timeout = 30,
    command = client(url, "-e", sql, ...) }
  if status ~= 0 then return nil, err .. out end
  return (out:gsub("\n$", ""))
end

--- The same of a script, from the client's input; true, or nil, message.
function mysql.feed(url, script)
  local p = process.spawn { command = client(url), stderr = "pipe" }
  p:write(script)
  p:close_stdin()
  local status = p:wait(30)
  p:close()
  if status ~= 0 then return nil, p.err .. p.out end
  return true
end

local function as_root(self)
  return ("mysql+unix://root@%s/dlock"):format(self.socket)
end

--- The same as root, whatever rights there are.
function mysql:sql(sql, ...)
  return mysql.ask(as_root(self), sql, ...)
end

-- What the client wrote to stderr since the last statements.
local function problem_of(p)
  local text = p.err
  p.err = ""
  return text:find("ERROR", 1, true) and text or nil
end

--- A connection of its own, as the user of `url`: what it begins stays open.
function mysql.connect(url)
  return sql_session.new(client(url, "-n", "--force"), "SELECT '--end %d';",
    problem_of)
end

function mysql:session()
  return mysql.connect(as_root(self))
end

function mysql:kill() return self.server:kill() end
function mysql:start_again() assert(launch(self)) end
function mysql:pause() return self.server:pause() end
function mysql:resume() return self.server:resume() end

--- Ends as an admin ends it, with connections cut.
function mysql:shut_down()
  self.server:signal "sigterm"
  assert(loop.look(20, function() return not server.alive(self.pid) end))
end

function mysql:restart()
  self:shut_down()
  self:start_again()
end

--- Begins anew without data, with these lines in its file.
function mysql:begin_anew(conf)
  if server.alive(self.pid) then self:kill() end
  template.renew("mysql", make_template, self.data)
  self.opts.conf = conf
  write_conf(self, self.opts)
  self:start_again()
end

function mysql:stop()
  if not self.dir then return end
  if self.server and server.alive(self.pid) then self:kill() end
  server.remove_dir(self.data) -- it may be inside of that one
  server.remove_dir(self.dir)
  self.dir = nil
end

return mysql
