-- PostgreSQL for specs: private servers on free loopback ports, with standbys
-- and a PgBouncer if asked for, to be killed, stopped, promoted and started
-- again; psql looks at them from outside.
--
--   local p = postgres.start { standbys = 1 }; p.url; p[1]:kill(); p:stop()
--   p:sql "SELECT 1"                            --> "1"
--   local s = p:session(); s:run "BEGIN"; s:close()
--
-- The server refuses root, so root starts it as the user that Debian's package
-- has made. `dlock` is the specs' user, and has a database of that name;
-- `postgres` is the superuser, and needs no password on this machine.

local clock = require "spec.support.clock"
local loop = require "spec.support.loop"
local members = require "spec.support.members"
local process = require "spec.support.process"
local server = require "spec.support.server"
local sql_session = require "spec.support.sql_session"
local template = require "spec.support.template"
local uv = require "luv"

local postgres = {}
postgres.__index = postgres
local member = {}
member.__index = member

postgres.password = "sesame"

local run = template.run
local ROOT = uv.getuid() == 0
local BASE = "/usr/lib/postgresql"

local found -- the folder of its programs

--- Where a program of PostgreSQL is: in the newest version's folder, as Debian
--- has them, or in PATH.
function postgres.program(name)
  if not found then
    local newest, scan = 0, uv.fs_scandir(BASE)
    while scan do
      local version = uv.fs_scandir_next(scan)
      if not version then break end
      local number = tonumber(version) or 0
      if number > newest and uv.fs_stat(("%s/%s/bin/postgres"):format(BASE,
          version)) then
        newest = number
      end
    end
    found = newest > 0 and ("%s/%d/bin/"):format(BASE, newest) or ""
  end
  return found .. name
end

local function as_user(command)
  if not ROOT then return command end
  local all = { "setpriv", "--reuid=postgres", "--regid=postgres",
    "--clear-groups", "--" }
  for _, word in ipairs(command) do all[#all + 1] = word end
  return all
end

--- Lets the server's user through a folder of ours and those above it. It
--- cannot list them.
function postgres.let_in(dir)
  local path = assert(uv.fs_realpath(dir))
  while ROOT and path:find("/dlock%-test%-") do
    assert(uv.fs_chmod(path, 457)) -- 0711
    path = path:match("^(.*)/")
  end
end

-- A folder that the server's user owns.
local function give(dir)
  uv.fs_mkdir(dir, 448) -- 0700
  if ROOT then
    run { "chown", "-R", "postgres:postgres", dir }
    postgres.let_in(dir:match("^(.*)/"))
  end
  return dir
end

local ROLES = ([[
CREATE ROLE dlock LOGIN PASSWORD '%s'
CREATE DATABASE dlock OWNER dlock
]]):format(postgres.password)

local function make_template(dir)
  give(dir)
  run(as_user { postgres.program "initdb", "-D", dir, "-U", "postgres",
    "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8",
    "--wal-segsize=1" })
  run(as_user { postgres.program "postgres", "--single", "-D", dir,
    "-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap", "postgres" },
    ROLES)
end

-- All that is synced is in memory, or need not outlive the machine.
local CONF = [[
listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = '%s'
unix_socket_permissions = 0777
max_connections = %d
fsync = off
full_page_writes = off
dynamic_shared_memory_type = mmap
shared_buffers = 16MB
min_wal_size = 8MB
max_wal_size = 64MB
wal_keep_size = 32MB
jit = off
]]

local TLS = [[
ssl = on
ssl_cert_file = 'server.crt'
ssl_key_file = 'server.key'
ssl_ca_file = 'ca.crt'
]]

local HBA = [[
local all,replication postgres trust
local all all scram-sha-256
host all,replication postgres 127.0.0.1/32 trust
%s all all 127.0.0.1/32 scram-sha-256%s
]]

local function own(path)
  if ROOT then run { "chown", "postgres:postgres", path } end
end

local function write(self, name, text)
  server.write_file(self.data .. "/" .. name, text)
  own(self.data .. "/" .. name)
end

local function write_conf(self, opts)
  write(self, "dlock.conf", CONF:format(self.port, self.socket,
    opts.max_connections or 100) .. (opts.tls and TLS or "")
    .. (self.conf or "") .. (opts.conf or ""))
  write(self, "postgresql.conf", "include 'dlock.conf'\n")
  write(self, "pg_hba.conf", (opts.hba or "") .. HBA:format(opts.tls
    and "hostssl" or "host", opts.certificate and " clientcert=verify-ca"
    or ""))
  for _, name in ipairs(opts.tls and { "server.crt", "server.key", "ca.crt" }
    or {}) do
    write(self, name, server.read_file(opts.tls:path(name)))
    uv.fs_chmod(self.data .. "/" .. name, 384) -- 0600
  end
end

local function is_ready(log)
  return log:find("ready to accept", 1, true)
end

local function launch(self)
  local log
  self.server, log = server.spawn(self.cmd, self.dir .. "/postgres.log",
    is_ready, 60)
  self.pid = self.server and self.server.pid
  return self.server and self, log
end

local function add(self, opts)
  local i = #self + 1
  local port, dir = server.free_port(), server.new_dir()
  local one = setmetatable({ dir = dir, port = port, opts = opts,
    socket = give(dir .. "/s"), data = server.memory_dir(dir .. "/data"),
    url = ("%s://dlock:%s@127.0.0.1:%d/dlock"):format(
      opts.tls and "postgress" or "postgres", postgres.password, port),
  }, member)
  one.unix = ("postgres+unix://dlock:%s@%s/.s.PGSQL.%d/dlock"):format(
    postgres.password, one.socket, port)
  one.cmd = as_user(clock.under(opts.clock, { postgres.program "postgres",
    "-D", one.data }))
  give(one.data)
  self[i] = one
  return one
end

local function standby_conf(of)
  return ("primary_conninfo = 'host=%s port=%d user=postgres'\n")
    :format(of.socket, of.port)
end

local BOUNCER = [[
[databases]
dlock = host=127.0.0.1 port=%d dbname=dlock
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s/users
pool_mode = transaction
default_pool_size = %d
]]

-- With its defaults, but for the mode: what needs another one is a finding.
local function start_bouncer(self, opts)
  local at = self[1]
  local dir, port = give(at.dir .. "/b"), server.free_port()
  local program = "/usr/sbin/pgbouncer"
  server.write_file(dir .. "/users", ('"dlock" "%s"\n'):format(
    postgres.password))
  server.write_file(dir .. "/conf", BOUNCER:format(at.port, port, dir,
    opts.pool_size or 20))
  own(dir .. "/users")
  own(dir .. "/conf")
  local one, log = server.spawn(as_user { uv.fs_stat(program) and program
    or "pgbouncer", dir .. "/conf" }, at.dir .. "/bouncer.log",
    function(text) return text:find("process up", 1, true) end, 20)
  assert(one, log)
  one.port = port
  one.url = at.url:gsub(":%d+/", ":" .. port .. "/")
  self.bouncer = one
end

local function start_all(opts)
  local self = setmetatable({ opts = opts }, postgres)
  for i = 1, 1 + (opts.standbys or 0) do
    local one = add(self, opts)
    template.copy("postgres", make_template, one.data)
    if i > 1 then
      one.conf = standby_conf(self[1])
      write(one, "standby.signal", "")
    end
    write_conf(one, opts)
    local up, log = launch(one)
    if not up then
      self:stop()
      return nil, log
    end
  end
  local hosts = {}
  for i, one in ipairs(self) do hosts[i] = "127.0.0.1:" .. one.port end
  self.url = self[1].url:gsub("127.0.0.1:%d+", table.concat(hosts, ","))
  self.unix = self[1].unix
  if opts.synchronous then self[1]:wait_for_commits(true) end
  if opts.bouncer then start_bouncer(self, opts) end
  return self
end

--- Starts a primary. opts: standbys (so many that follow it), synchronous (a
--- commit waits for one of them), bouncer (PgBouncer by transactions, in
--- self.bouncer; pool_size), tls (certificates), certificate (asks for the
--- client's), max_connections (100), conf, hba (lines of these files), clock
--- (of spec.support.clock; its folder lets all in).
function postgres.start(opts)
  return server.retry(function() return start_all(opts or {}) end)
end

local function psql(url, ...)
  local user, rest, database = url:match("^[%a+]+://([^@]*)@(.*)/([^/]*)$")
  local hosts, ports = {}, {}
  for one in rest:gmatch("[^,]+") do
    local host, port = one:match("^(.*)/%.s%.PGSQL%.(%d+)$")
    if not host then host, port = one:match("^(.*):(%d+)$") end
    hosts[#hosts + 1], ports[#ports + 1] = host, port
  end
  local name, password = user:match("^([^:]*):?(.*)$")
  local command = { "env", "PGPASSWORD=" .. password, "PGCONNECT_TIMEOUT=10",
    postgres.program "psql", "-X", "-A", "-t", "-q",
    "-h", table.concat(hosts, ","), "-p", table.concat(ports, ","),
    "-U", name, ... }
  command[#command + 1] = database
  return command
end

--- Where it is, for other programs that use libpq.
function postgres:conninfo()
  return ("host=127.0.0.1 port=%d dbname=dlock user=dlock password=%s"):format(
    self[1].port, postgres.password)
end

--- What psql says to this, as the user of `url`: a line for each row, with '|'
--- between columns; nil, message.
function postgres.ask(url, sql)
  local status, out, err = process.run { timeout = 30,
    command = psql(url, "-v", "ON_ERROR_STOP=1", "-c", sql) }
  if status ~= 0 then return nil, err .. out end
  return (out:gsub("\n$", ""))
end

--- The same as the superuser, whatever rights there are.
function member:sql(sql)
  return postgres.ask(("postgres+unix://postgres@%s/.s.PGSQL.%d/dlock")
    :format(self.socket, self.port), sql)
end

local function problem_of(_, rest)
  return rest:match("^true ?(.*)$")
end

--- A connection of its own, as the user of `url` (or the superuser): what it
--- begins stays open.
function postgres.connect(url)
  return sql_session.new(psql(url, "-v", "VERBOSITY=terse"),
    "\\echo '--end' %d :ERROR :LAST_ERROR_MESSAGE", problem_of)
end

function member:session()
  return postgres.connect(("postgres+unix://postgres@%s/.s.PGSQL.%d/dlock")
    :format(self.socket, self.port))
end

--- Sets a parameter, for new transactions too.
function member:set(name, value)
  assert(self:sql(("ALTER SYSTEM SET %s = '%s'"):format(name, value)))
  assert(self:sql "SELECT pg_reload_conf()")
end

--- Whether commits wait for a standby, which then has each that was answered.
function member:wait_for_commits(wanted)
  self:set("synchronous_standby_names", wanted and "*" or "")
end

-- The postmaster and what it has forked.
local function family(self)
  local all = { self.pid }
  for pid in server.read_file(("/proc/%d/task/%d/children"):format(self.pid,
      self.pid)):gmatch("%d+") do
    all[#all + 1] = tonumber(pid)
  end
  return all
end

--- Returns when a standby has all that the primary has now.
function member:catch_up(primary)
  local at = assert(primary:sql "SELECT pg_current_wal_lsn()")
  loop.eventually("the standby has all", 20, function()
    return self:sql(("SELECT pg_last_wal_replay_lsn() >= '%s'"):format(at))
      == "t"
  end)
end

--- A standby gets nothing more of what the primary commits. (One that is only
--- stopped would find it in its socket.)
function member:hear_no_more()
  self:set("primary_conninfo", "")
  loop.eventually("it hears nothing", 20, function()
    return self:sql "SELECT count(*) FROM pg_stat_wal_receiver" == "0"
  end)
end

--- Becomes a primary.
function member:promote()
  assert(self:sql "SELECT pg_promote(true, 60)" == "t")
  self.conf = nil
end

--- Ends as an admin ends it, with connections cut.
function member:shut_down()
  self.server:signal "sigint"
  assert(loop.look(20, function() return not server.alive(self.pid) end))
end

function member:restart()
  self:shut_down()
  self:start_again()
end

--- Begins anew as a standby of another.
function member:follow(other)
  if server.alive(self.pid) then self:kill() end
  run { "find", self.data, "-mindepth", "1", "-delete" }
  run(as_user { postgres.program "pg_basebackup", "-D", self.data, "-h",
    other.socket, "-p", other.port, "-U", "postgres", "-c", "fast", "-X",
    "stream", "--no-sync" })
  self.conf = standby_conf(other)
  write(self, "standby.signal", "")
  write(self, "postgresql.auto.conf", "")
  write_conf(self, self.opts)
  self:start_again()
end

function member:is_primary()
  return self:sql "SELECT pg_is_in_recovery()" == "f"
end

function postgres:sql(sql) return self[1]:sql(sql) end
function postgres:session() return self[1]:session() end

function postgres:stop()
  if self.bouncer then self.bouncer:kill() end
  for _, one in ipairs(self) do
    if one.dir then
      if one.server and server.alive(one.pid) then one:kill() end
      server.remove_dir(one.data) -- it may be inside of that one
      server.remove_dir(one.dir)
      one.dir = nil
    end
  end
end

members.define(member, postgres, launch)
members.define_pair(postgres)

--- SIGKILL to all of its processes, as when its machine goes.
function member:kill()
  local all = family(self)
  for _, pid in ipairs(all) do uv.kill(pid, "sigkill") end
  return loop.look(10, function()
    for _, pid in ipairs(all) do
      if server.alive(pid) then return false end
    end
    return true
  end)
end

--- SIGSTOP to all of its processes; what it forks meanwhile is stopped too.
function member:pause()
  for _, pid in ipairs(family(self)) do
    if server.alive(pid) then assert(server.pause_pid(pid)) end
  end
end

function member:resume()
  for _, pid in ipairs(family(self)) do uv.kill(pid, "sigcont") end
end

return postgres
