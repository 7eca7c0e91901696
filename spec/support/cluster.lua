-- A Redis Cluster on free loopback ports, for specs: primaries, with replicas.
-- Nodes are quick to judge, so a failover takes about a second.
--
--   local set = cluster.start { primaries = 3, replicas = 1 }
--   set.url                      -- redis+cluster://…
--   set:owner(slot):kill()       -- one of set.nodes, as redis.start gives it
--   set:move(slot, to); set:stop()

local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local uv = require "luv"

local cluster = {}
local set = {}
set.__index = set

local SLOTS = 16384

-- A cluster's bus listens on a port of its own, 10,000 above unless told.
local function start_node(opts, dir)
  local config = { ["cluster-enabled"] = "yes",
    ["cluster-port"] = server.free_port(),
    ["cluster-node-timeout"] = opts.node_timeout or 500,
    ["cluster-allow-replica-migration"] = "no",
    ["repl-diskless-sync-delay"] = 0, ["repl-ping-replica-period"] = 1 }
  for name, value in pairs(opts.config or {}) do config[name] = value end
  local bus = opts.apart and proxy.start("127.0.0.1:" .. config["cluster-port"])
  config["cluster-announce-bus-port"] = bus and bus.port or nil
  local node = redis.start(config, dir)
  node.bus, node.bus_port = bus, bus and bus.port or config["cluster-port"]
  --- One command, on one connection for all; raises for an error.
  function node:call(...)
    if not self.client or self.client.ended then
      self.client = assert(self:connect())
    end
    return self.client:call(...)
  end
  node.id = node:call("CLUSTER", "MYID")
  return node
end

--- Starts them. opts: primaries (3), replicas (1, of each), node_timeout (ms),
--- config (of the servers; with certificates and tls_cluster they speak TLS),
--- new_dir (makes a directory of that name), apart (the first can be cut off).
function cluster.start(opts)
  opts = opts or {}
  local self = setmetatable({ nodes = {}, primaries = opts.primaries or 3 },
    set)
  local count = self.primaries * (1 + (opts.replicas or 1))
  for i = 1, count do
    self.nodes[i] = start_node(opts,
      opts.new_dir and opts.new_dir("cluster-" .. i))
  end
  local first = self.nodes[1]
  for i, node in ipairs(self.nodes) do
    node:call("CLUSTER", "SET-CONFIG-EPOCH", i)
    if i <= self.primaries then
      node:call("CLUSTER", "ADDSLOTSRANGE",
        math.floor((i - 1) * SLOTS / self.primaries),
        math.floor(i * SLOTS / self.primaries) - 1)
    end
    if i > 1 then
      node:call("CLUSTER", "MEET", "127.0.0.1", first.tls_port or first.port,
        first.bus_port)
    end
  end
  self:eventually("nodes that know each other", function(node)
    local _, known = node:call("CLUSTER", "NODES"):gsub(" connected", "")
    return known >= count
  end)
  for i = self.primaries + 1, count do
    self.nodes[i]:call("CLUSTER", "REPLICATE",
      self.nodes[(i - 1) % self.primaries + 1].id)
  end
  local hosts = {}
  for i, node in ipairs(self.nodes) do
    hosts[i] = "127.0.0.1:" .. (node.tls_port or node.port)
  end
  self.hosts = table.concat(hosts, ",", 1, self.primaries)
  self.url = (self.nodes[1].tls_port and "rediss" or "redis")
    .. "+cluster://" .. self.hosts
  self:settled()
  return self
end

--- Waits until look(node) is true on each node that lives.
function set:eventually(what, look)
  loop.eventually(what, 30, function()
    for _, node in ipairs(self.nodes) do
      if server.alive(node.pid) and not look(node) then return false end
    end
    return true
  end)
end

-- Who has which slots, and since which epoch, as the node knows.
local function view(node)
  local primaries = {}
  for line in node:call("CLUSTER", "NODES"):gmatch "[^\n]+" do
    local id, flags, epoch, slots =
      line:match "^(%x+) %S+ (%S+) %S+ %d+ %d+ (%d+) %S+(.*)$"
    if flags:find "master" then
      primaries[#primaries + 1] = id .. epoch .. slots:gsub(" %[.-%]", "")
    end
  end
  table.sort(primaries)
  return table.concat(primaries, "\n")
end

--- Waits until all nodes tell the same. A slot that moves on before that may
--- end without an owner: an older claim reaches a node that knows no newer one.
function set:agreed()
  local first
  loop.eventually("nodes that agree", 30, function()
    first = nil
    for _, node in ipairs(self.nodes) do
      if server.alive(node.pid) then
        local seen = view(node)
        first = first or seen
        if seen ~= first then return false end
      end
    end
    return true
  end)
end

--- Waits until the cluster serves, and each replica has what its primary has.
function set:settled()
  self:agreed()
  self:eventually("a cluster that serves", function(node)
    local said = node:call("INFO", "replication")
    return node:call("CLUSTER", "INFO"):find("cluster_state:ok", 1, true)
      and (said:find("role:master", 1, true)
        or said:find("master_link_status:up", 1, true))
      and (self.nodes[self.primaries + 1] == nil
        or not said:find("role:master", 1, true)
        or said:find("state=online", 1, true))
  end)
end

--- The nodes that are primaries now.
function set:current()
  local found = {}
  for _, node in ipairs(self.nodes) do
    if server.alive(node.pid)
        and node:call("INFO", "replication"):find("role:master", 1, true) then
      found[#found + 1] = node
    end
  end
  return found
end

--- The node that serves a slot, by what that node says itself.
function set:owner(slot)
  for _, node in ipairs(self:current()) do
    for _, range in ipairs(node:call("CLUSTER", "SLOTS")) do
      if slot >= range[1] and slot <= range[2] and range[3][3] == node.id then
        return node
      end
    end
  end
end

--- The slot of a lock.
function set:slot_of(key)
  return self.nodes[2]:call("CLUSTER", "KEYSLOT", "dlock:" .. key)
end

--- Another primary than the slot's.
function set:other(slot)
  local owner = self:owner(slot)
  for _, node in ipairs(self:current()) do
    if node ~= owner then return node end
  end
end

--- Begins to move a slot; returns the nodes. It stays open until finish.
function set:begin(slot, to)
  local from = self:owner(slot)
  to:call("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id)
  from:call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
  return from, to
end

--- Moves the slot's keys that `which` (nil: all) says yes to.
function set.migrate(slot, from, to, which)
  repeat
    local moved = 0
    for _, key in ipairs(from:call("CLUSTER", "GETKEYSINSLOT", slot, 100)) do
      if not which or which(key) then
        from:call("MIGRATE", "127.0.0.1", to.tls_port or to.port, key, 0, 5000)
        moved = moved + 1
      end
    end
  until moved == 0
end

function set:finish(slot, to)
  to:call("CLUSTER", "SETSLOT", slot, "NODE", to.id)
  for _, node in ipairs(self:current()) do
    if node ~= to then node:call("CLUSTER", "SETSLOT", slot, "NODE", to.id) end
  end
  self:agreed()
end

--- Moves a slot with all its keys.
function set:move(slot, to)
  local from = self:owner(slot)
  if from ~= to then
    self:begin(slot, to)
    set.migrate(slot, from, to)
    self:finish(slot, to)
  end
end

--- The first node and the others hear nothing of each other (clients do). What
--- a node sends begins with its id and its slots, here from 0 on.
function set:cut_off()
  local first = self.nodes[1]
  for _, node in ipairs(self.nodes) do
    node.bus:hold("both", node ~= first
      and { sent = first.id .. ("\255"):rep(8) } or nil)
  end
end

--- Waits until another node than `before` serves the slot; returns that one.
function set:switched(slot, before, meanwhile)
  local found
  loop.eventually("a failover", 30, function()
    if meanwhile then meanwhile() end
    found = self:owner(slot)
    return found and found ~= before
  end)
  return found
end

--- A planned failover of the slot's shard; returns the new primary. It is
--- asked for again when it was given up, as on a busy machine.
function set:failover(slot)
  local before, asked = self:owner(slot), -1e9
  for _, node in ipairs(self.nodes) do
    local said = node:call("INFO", "replication")
    if tonumber(said:match("master_port:(%d+)")) == before.port then
      return self:switched(slot, before, function()
        if uv.hrtime() - asked > 2e9 then
          asked = uv.hrtime()
          node.client:pcall("CLUSTER", "FAILOVER")
        end
      end)
    end
  end
  error "the shard has no replica"
end

function set:stop()
  for _, node in ipairs(self.nodes) do
    if node.client then node.client:close() end
    node:stop()
    if node.bus then node.bus:stop() end
  end
end

return cluster
