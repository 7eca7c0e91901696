-- etcd for specs: private members on free loopback ports, to be killed, stopped
-- and started again, and etcdctl, which looks at them from outside.
--
--   local e = etcd.start { members = 3 }; e.url; e[1]:kill(); e:stop()
--   etcd.ctl(e.url, "get", "/dlock", "--prefix", "--keys-only")

local loop = require "spec.support.loop"
local members = require "spec.support.members"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"

local etcd = {}
etcd.__index = etcd
local member = {}
member.__index = member

--- The command line of etcdctl with these words, for the servers of `url`.
function etcd.command(url, ...)
  local scheme, authority = url:match("^(etcds?)://([^/]*)")
  local user, hosts = authority:match("^([^@]*)@(.*)$")
  hosts = hosts or authority
  local command = { "env", "ETCDCTL_API=3", "etcdctl", "--endpoints",
    (scheme == "etcds" and "https://" or "")
      .. hosts:gsub(",", scheme == "etcds" and ",https://" or ",") }
  if user then
    command[#command + 1] = "--user=" .. user
  end
  for _, word in ipairs { ... } do command[#command + 1] = word end
  return command
end

--- What etcdctl says to these words, of the servers of `url`; nil, message.
function etcd.ctl(url, ...)
  local status, out, err = process.run { timeout = 30,
    command = etcd.command(url, ...) }
  if status ~= 0 then
    return nil, tostring(err) .. tostring(out)
  end
  return out
end

--- The names of all keys that begin with prefix.
function etcd.keys(url, prefix)
  local found = {}
  local out = assert(etcd.ctl(url, "get", prefix, "--prefix", "--keys-only"))
  for key in out:gmatch("[^\n]+") do found[#found + 1] = key end
  return found
end

local function command_line(self, opts, cluster)
  local scheme = opts.tls and "https" or "http"
  local cmd = { "etcd", "--name", self.name, "--data-dir", self.data .. "/data",
    "--listen-client-urls", scheme .. "://127.0.0.1:" .. self.port,
    "--advertise-client-urls", scheme .. "://127.0.0.1:" .. self.port,
    "--listen-peer-urls", "http://127.0.0.1:" .. self.peer,
    "--initial-advertise-peer-urls", self.advertised,
    "--initial-cluster", cluster, "--heartbeat-interval", "50",
    "--election-timeout", "500" }
  if opts.tls then
    for name, file in pairs { ["--cert-file"] = "server.crt",
        ["--key-file"] = "server.key", ["--trusted-ca-file"] = "ca.crt" } do
      cmd[#cmd + 1], cmd[#cmd + 2] = name, opts.tls:path(file)
    end
    cmd[#cmd + 1] = "--client-cert-auth"
  end
  for _, word in ipairs(opts.arguments or {}) do cmd[#cmd + 1] = word end
  return cmd
end

local function is_ready(log)
  return log:find("ready to serve client requests", 1, true)
end

local function launch(self, ready)
  local log
  self.server, log = server.spawn(self.cmd, self.dir .. "/etcd.log",
    ready or is_ready, 60)
  self.pid = self.server and self.server.pid
  return self.server and self, log
end

local function new(opts)
  local self, cluster, hosts = setmetatable({}, etcd), {}, {}
  for i = 1, opts.members or 1 do
    local dir = server.new_dir()
    self[i] = setmetatable({ name = "m" .. i, dir = dir,
      data = server.memory_dir(dir),
      port = server.free_port(), peer = server.free_port() }, member)
    local link = opts.between and proxy.start("127.0.0.1:" .. self[i].peer)
    self[i].link = link
    self[i].advertised = "http://127.0.0.1:"
      .. (link and link.port or self[i].peer)
    cluster[i] = self[i].name .. "=" .. self[i].advertised
    hosts[i] = "127.0.0.1:" .. self[i].port
  end
  for _, one in ipairs(self) do
    one.cmd = command_line(one, opts, table.concat(cluster, ","))
    one.url = (opts.tls and "etcds" or "etcd") .. "://127.0.0.1:" .. one.port
  end
  self.urls = {}
  for i, one in ipairs(self) do self.urls[i] = one.url end
  self.url = (opts.tls and "etcds://" or "etcd://") .. table.concat(hosts, ",")
  return self
end

--- Starts members (1) of one cluster. opts: members, tls (certificates, which
--- then ask for the client's), arguments (of etcd), between (makes cut work).
function etcd.start(opts)
  opts = opts or {}
  return server.retry(function()
    local self = new(opts)
    for _, one in ipairs(self) do -- they only serve together
      local up, log = launch(one, #self > 1 and function() return true end)
      if not up then
        self:stop()
        return nil, log
      end
    end
    for _, one in ipairs(self) do
      if not loop.look(60, function()
        return is_ready(server.read_file(one.dir .. "/etcd.log"))
      end) then
        local log = server.read_file(one.dir .. "/etcd.log")
        self:stop()
        return nil, log
      end
    end
    self.list = opts.between and assert(etcd.ctl(self.url, "member", "list"))
    return self
  end)
end

local function is_leader(one)
  local out = etcd.ctl(one.url, "endpoint", "status", "--command-timeout=1s")
  return out and out:match("^[^,]*,[^,]*,[^,]*,[^,]*, (%a+)") == "true"
end

--- The number of the leader; nil if there is none after `seconds` (20).
function etcd:leader(seconds)
  local leader
  loop.look(seconds or 20, function()
    for i, one in ipairs(self) do
      leader = is_leader(one) and i or leader
    end
    return leader
  end)
  return leader
end

--- Cuts a member off from the others, but not from its clients. The others know
--- it by what its connections to them say.
function etcd:cut(id)
  self.apart = {}
  for i, one in ipairs(self) do
    self.apart[i] = i ~= id and { sent = "X-Server-From: "
      .. self.list:match("(%x+), %a+, " .. self[id].name .. ",") } or {}
    one.link:hold("both", self.apart[i])
  end
end

--- Ends that.
function etcd:join()
  for i, one in ipairs(self) do
    one.link:discard()
    one.link:reset(self.apart[i])
  end
end

--- True when each member has committed a write, which is tried for so long.
function etcd:serves(seconds)
  return loop.look(seconds, function()
    for _, one in ipairs(self) do
      if not etcd.ctl(one.url, "put", "serves", "", "--command-timeout=1s") then
        return false
      end
    end
    return true
  end)
end

function etcd:stop()
  for _, one in ipairs(self) do
    if one.dir then
      if one.server then
        one.server:kill()
      end
      server.remove_dir(one.dir)
      server.remove_dir(one.data) -- it may be the same one
      one.dir = nil
      if one.link then one.link:stop() end
    end
  end
end

members.define(member, etcd, launch)

return etcd
