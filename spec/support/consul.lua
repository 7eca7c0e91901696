-- Consul for specs: private servers on free loopback ports, to be killed,
-- stopped and started again, and an agent that is none; curl looks at them from
-- outside.
--
--   local c = consul.start { members = 3 }; c[1].url; c[1]:kill(); c:stop()
--   consul.get(c.url, "/v1/kv/dlock/?keys")

local loop = require "spec.support.loop"
local members = require "spec.support.members"
local process = require "spec.support.process"
local server = require "spec.support.server"

local consul = {}
consul.__index = consul
local member = {}
member.__index = member

local path -- of the program

--- Its path.
function consul.program()
  if not path then
    local status, out, err = process.run { command = { ".ci/consul" },
      timeout = 300 }
    assert(status == 0, err)
    path = out:match("([^\n]+)\n$")
  end
  return path
end

--- The command line of consul with these words, for the servers of `url`.
function consul.command(url, ...)
  local address = url:match("^consuls?://([^/]*)"):gsub("^.*@", "")
  local token = url:match("^consuls?://:([^@/]*)@")
  return { "env", "CONSUL_HTTP_ADDR=" .. address,
    "CONSUL_HTTP_TOKEN=" .. (token or ""), consul.program(), ... }
end

--- What the servers of `url` (a CA: with TLS) answer to a request; with a
--- body it is a PUT. nil: they do not, or it is an error.
function consul.get(url, what, body, token)
  local scheme, address = url:match("^(consuls?)://([^/]*)")
  local command = { "curl", "-s", "-f", "--max-time", "5",
    "-H", "X-Consul-Token: " .. (token or ""),
    (scheme == "consuls" and "https://" or "http://")
      .. address:gsub("^.*@", "") .. what }
  if body then
    for _, word in ipairs { "-X", "PUT", "-d", body } do
      command[#command + 1] = word
    end
  end
  local status, out = process.run { command = command, timeout = 30 }
  return status == 0 and out or nil
end

--- The names of all keys that begin with prefix, which has no '/' in front.
function consul.keys(url, prefix, token)
  local found = {}
  local out = consul.get(url, "/v1/kv/" .. prefix .. "?keys", nil, token) or ""
  for key in out:gmatch('"([^"]+)"') do found[#found + 1] = key end
  return found
end

local function command_line(self, opts, all)
  local cmd = { consul.program(), "agent", "-node", self.name,
    "-disable-host-node-id", "-bind", "127.0.0.1", "-client", "127.0.0.1",
    "-serf-lan-port", self.serf, "-dns-port", -1, "-grpc-port", -1,
    "-http-port", opts.tls and -1 or self.port, "-https-port",
    opts.tls and self.port or -1, "-log-level", "info",
    "-config-file", self.dir .. "/conf.hcl" }
  local function add(...)
    for _, word in ipairs { ... } do cmd[#cmd + 1] = word end
  end
  if self ~= all.agent then
    add("-server-port", self.rpc, "-serf-wan-port", -1)
  end
  if opts.members or opts.conf then
    add("-data-dir", self.data)
    if self ~= all.agent then add("-server", "-bootstrap-expect", #all) end
  else
    add("-dev") -- syncs nothing to disk
  end
  for _, one in ipairs(all) do
    if one ~= self then
      add("-retry-interval", "1s", "-retry-join", "127.0.0.1:" .. one.serf)
    end
  end
  for i, word in ipairs(cmd) do cmd[i] = tostring(word) end
  return cmd
end

-- Sessions may be short, and whoever tests from here has many connections.
local CONF = [[
session_ttl_min = "%s"
performance {
  raft_multiplier = 1
  leave_drain_time = "100ms"
}
limits { http_max_conns_per_client = %d }
connect { enabled = false }
disable_update_check = true
]]

local TLS = [[
ca_file = "%s"
cert_file = "%s"
key_file = "%s"
verify_incoming_https = true
]]

local function write_conf(self, opts)
  local text = CONF:format(opts.ttl_min or "1s", opts.connections or 4000)
    .. (opts.conf or "")
  if opts.tls then
    text = text .. TLS:format(opts.tls:path "ca.crt",
      opts.tls:path "server.crt", opts.tls:path "server.key")
  end
  server.write_file(self.dir .. "/conf.hcl", text)
end

local function is_ready(log)
  return log:find("Synced node info", 1, true)
end

local function launch(self, ready)
  local log
  self.server, log = server.spawn(self.cmd, self.dir .. "/consul.log",
    ready or is_ready, 60)
  self.pid = self.server and self.server.pid
  return self.server and self, log
end

local function everybody(self)
  local list = { (table.unpack or unpack)(self) }
  list[#list + 1] = self.agent
  return list
end

local function new(opts)
  local self, scheme = setmetatable({}, consul), opts.tls and "consuls" or
    "consul"
  local function add(i, name)
    local port = server.free_port()
    local dir = server.new_dir()
    self[i] = setmetatable({ name = name, port = port, dir = dir,
      data = server.memory_dir(dir .. "/data"),
      rpc = server.free_port(), serf = server.free_port(),
      url = scheme .. "://127.0.0.1:" .. port }, member)
  end
  self.urls = {}
  for i = 1, opts.members or 1 do
    add(i, "m" .. i)
    self.urls[i] = self[i].url
  end
  if opts.agent then add("agent", "agent") end
  self.url = (self.agent or self[1]).url
  for _, one in ipairs(everybody(self)) do
    one.cmd = command_line(one, opts, self)
    write_conf(one, opts)
  end
  return self
end

--- Starts servers (1) of one datacenter. opts: members, agent (one more that is
--- no server, with the url), tls (certificates, which then ask for the
--- client's), connections (at most from an address), ttl_min (of a session),
--- conf (more of the configuration).
function consul.start(opts)
  opts = opts or {}
  return server.retry(function()
    local self, log = new(opts), nil
    for _, one in ipairs(everybody(self)) do -- they only serve together
      local up
      up, log = launch(one, #self > 1 and function() return true end)
      if not up then
        self:stop()
        return nil, log
      end
    end
    for _, one in ipairs(everybody(self)) do
      local up = loop.look(60, function()
        log = server.read_file(one.dir .. "/consul.log")
        return is_ready(log)
      end)
      if not up then
        self:stop()
        return nil, log
      end
    end
    return self
  end)
end

--- The number of the leader; nil if there is none after 20 seconds.
function consul:leader()
  local leader
  loop.look(20, function()
    for _, one in ipairs(self) do
      local at = consul.get(one.url, "/v1/status/leader") or ""
      for i, other in ipairs(self) do
        leader = at == ('"127.0.0.1:%d"'):format(other.rpc) and i or leader
      end
    end
    return leader
  end)
  return leader
end

--- True when each has committed a write, which is tried for so long.
function consul:serves(seconds)
  return loop.look(seconds, function()
    for _, one in ipairs(self) do
      if not consul.get(one.url, "/v1/kv/serves", "") then
        return false
      end
    end
    return true
  end)
end

function consul:stop()
  for _, one in ipairs(everybody(self)) do
    if one.dir then
      if one.server then
        one.server:kill()
      end
      server.remove_dir(one.dir)
      server.remove_dir(one.data) -- it may be inside of that one
      one.dir = nil
    end
  end
end

members.define(member, consul, launch)

return consul
