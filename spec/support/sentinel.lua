-- A primary, replicas and Sentinels on free loopback ports, for specs. The
-- Sentinels look often and are quick to judge, so a failover takes about a
-- second.
--
--   local set = sentinel.start { replicas = 1, sentinels = 3 }
--   set.url                        -- redis+sentinel://…/mymaster
--   set:primary():kill()           -- one of set.nodes, as redis.start gives it
--   set:switched(before)           -- waits until another one is named
--   set:failover(); set:stop()

local loop = require "spec.support.loop"
local redis = require "spec.support.redis"
local server = require "spec.support.server"

local sentinel = {}
local set = {}
set.__index = set

local NAME = "mymaster"
-- While a failover is under way its leader looks at the replicas once a second
-- only. A replica of which it heard nothing for five of its ping periods is not
-- chosen, and others turn a new primary back that they were not told of for
-- four of their publish periods.
local FAST = { "ping-period", 1000, "info-period", 100, "ask-period", 50,
  "publish-period", 400 }

-- ---- one Sentinel ----

local member = {}
member.__index = member

local function launch(self)
  return server.spawn({ "redis-server", self.dir .. "/sentinel.conf",
    "--sentinel" }, self.dir .. "/sentinel.log", function(log)
    return log:find("Sentinel ID is", 1, true)
  end)
end

function member:connect()
  return redis.connect("redis://127.0.0.1:" .. self.port)
end

--- One command, on a connection of its own.
function member:call(...)
  local client = assert(self:connect())
  local reply = client:call(...)
  client:close()
  return reply
end

--- Its view of the set, as name = value.
function member:view()
  local found, list = {}, self:call("SENTINEL", "MASTER", NAME)
  for i = 1, #list, 2 do found[list[i]] = list[i + 1] end
  return found
end

function member:pause() return self.server:pause() end
function member:resume() return self.server:resume() end
function member:kill() return self.server:kill() end

function member:start_again()
  local again, log = launch(self)
  self.server = assert(again, log)
  self:call("SENTINEL", "DEBUG", (table.unpack or unpack)(FAST))
end

local function new_member(of, primary_port)
  local self = setmetatable({ set = of,
    dir = server.memory_dir() or server.new_dir() }, member)
  self.server = server.retry(function()
    self.port = server.free_port()
    server.write_file(self.dir .. "/sentinel.conf", table.concat({
      "port " .. self.port, "bind 127.0.0.1", "dir " .. self.dir,
      ("sentinel monitor %s 127.0.0.1 %d %d"):format(NAME, primary_port,
        of.quorum),
      ("sentinel down-after-milliseconds %s %d"):format(NAME, of.down_after),
      ("sentinel failover-timeout %s 1500"):format(NAME),
      ("sentinel parallel-syncs %s 4"):format(NAME),
    }, "\n") .. "\n")
    return launch(self)
  end)
  self.pid = self.server.pid
  self:call("SENTINEL", "DEBUG", (table.unpack or unpack)(FAST))
  return self
end

-- ---- the set ----

--- Starts them. opts: replicas (1), sentinels (3), down_after (600, ms),
--- config (of the Redis servers).
function sentinel.start(opts)
  opts = opts or {}
  local self = setmetatable({ nodes = {}, sentinels = {},
    quorum = math.floor((opts.sentinels or 3) / 2) + 1,
    down_after = opts.down_after or 600 }, set)
  local config = { ["repl-diskless-sync-delay"] = 0,
    ["repl-ping-replica-period"] = 1, ["min-replicas-max-lag"] = 1 }
  for name, value in pairs(opts.config or {}) do config[name] = value end
  self.nodes[1] = redis.start(config)
  for i = 1, opts.replicas or 1 do
    config.replicaof = "127.0.0.1 " .. self.nodes[1].port
    self.nodes[i + 1] = redis.start(config)
  end
  local hosts = {}
  for i = 1, opts.sentinels or 3 do
    self.sentinels[i] = new_member(self, self.nodes[1].port)
    hosts[i] = "127.0.0.1:" .. self.sentinels[i].port
  end
  self.hosts = table.concat(hosts, ",")
  self.url = ("redis+sentinel://%s/%s"):format(self.hosts, NAME)
  self:settled()
  return self
end

--- One command to a node, on a connection of its own; nil when it does not
--- answer. A Sentinel that gives a node another part in the set closes the
--- connections of all its clients, so it may have to be said again: nothing
--- but what may be done twice.
function sentinel.tell(node, ...)
  for _ = 1, 3 do
    local client = node:connect()
    if not client then return nil end
    local reply, message = client:pcall(...)
    local cut = client.ended
    client:close()
    if not cut then
      assert(not message, message)
      return reply
    end
  end
end

--- What a node says of its copying, as name = value; {} if it says nothing.
function sentinel.replication(node)
  local found = {}
  local text = sentinel.tell(node, "INFO", "replication") or ""
  for name, value in text:gmatch("([%w_]+):(%w*)") do found[name] = value end
  return found
end

-- That a primary calls a replica "online" says less: until that one confirms
-- what it copied, which it does once a second, no command is passed on to it.
-- Promoted before, it knows nothing of what was written meanwhile.
local function has_all(node, primary, written)
  if node == primary then return true end
  local said = sentinel.replication(node)
  return written > 0 and said.master_link_status == "up"
    and tonumber(said.master_port) == primary.port
    and tonumber(said.slave_repl_offset) >= written
end

--- Waits until every Sentinel knows all the others and every replica, and
--- these follow the primary and have all that was written there.
function set:settled()
  local function one_is(m)
    local view = m:view()
    return tonumber(view["num-slaves"]) >= #self.nodes - 1
      and tonumber(view["num-other-sentinels"]) >= #self.sentinels - 1
      and view.flags == "master"
  end
  loop.eventually("Sentinels that know each other", 75, function()
    for _, m in ipairs(self.sentinels) do
      if not one_is(m) then return false end
    end
    local primary = self:primary()
    local said = primary and sentinel.replication(primary) or {}
    local written = tonumber(said.master_repl_offset) or 0
    if said.role ~= "master" then return false end
    for _, node in ipairs(self.nodes) do
      if not has_all(node, primary, written) then return false end
    end
    return true
  end)
end

--- The node at a port.
function set:node(port)
  for _, node in ipairs(self.nodes) do
    if node.port == tonumber(port) then return node end
  end
end

--- The node that the first Sentinel which answers names as the primary.
function set:primary()
  for _, m in ipairs(self.sentinels) do
    local client = server.alive(m.server.pid) and m:connect()
    if client then
      local found = client:call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
      client:close()
      return self:node(found[2])
    end
  end
end

--- A node that is not the primary.
function set:replica()
  local primary = self:primary()
  for _, node in ipairs(self.nodes) do
    if node ~= primary then return node end
  end
end

local function said(self)
  local texts = {}
  for i, m in ipairs(self.sentinels) do
    texts[i] = ("%d:\n%s"):format(i,
      server.read_file(m.server.log):sub(-2000))
  end
  return table.concat(texts, "\n")
end

--- Waits until the Sentinels name another node than `before`, and that is a
--- primary; returns it. One that stood still for two seconds does nothing for
--- the next thirty (TILT). `meanwhile` is called before each look.
function set:switched(before, timeout, meanwhile)
  local found
  local ok, message = pcall(loop.eventually, "a failover", timeout or 75,
  function()
    if meanwhile then meanwhile() end
    found = self:primary()
    if not found or found == before then return false end
    return sentinel.replication(found).role == "master"
  end)
  if not ok then
    error(tostring(message) .. "\nthe Sentinels said:\n" .. said(self), 2)
  end
  return found
end

--- A planned failover; returns the new primary. It is asked for again when it
--- was given up: on a busy machine a replica passes for down in between.
function set:failover()
  local first, given_up = self.sentinels[1], -1
  return self:switched(self:primary(), nil, function()
    local log = server.read_file(first.server.log)
    local _, count = log:gsub("%-failover%-abort", "")
    if count > given_up then
      local client = first:connect()
      if client:pcall("SENTINEL", "FAILOVER", NAME) then given_up = count end
      client:close()
    end
  end)
end

function set:stop()
  for _, m in ipairs(self.sentinels) do
    if m.dir then
      m.server:kill()
      server.remove_dir(m.dir)
      m.dir = nil
    end
  end
  for _, node in ipairs(self.nodes) do node:stop() end
end

return sentinel
