-- What the torture does to a Redis Cluster of three primaries with a replica
-- each: the locks' slots move, or are left open between two nodes; primaries
-- are stopped, killed and started again, and give their place to their replica;
-- connections are killed, scripts forgotten. Nothing of this loses what a node
-- had answered: nodes sync before they answer and judge each other slowly, and
-- a planned failover waits for the replica.

local cluster = require "spec.support.cluster"
local turns = require "spec.torture.turns"
local uv = require "luv"

local NODE_TIMEOUT = 15 -- seconds

local nemesis = { name = "cluster", ttl = 1, io_timeout = 1, portable = true }

nemesis.profile = {
  workers = 8, calm = 8, gap = 0.6,
  kinds = {
    { name = "stop", weight = 3, least = 0.2, most = 1 },
    { name = "long stop", weight = 5, least = 1.3, most = 3 },
    { name = "kill", weight = 4, least = 0.1, most = 1 },
    { name = "client kill", weight = 4, least = 0, most = 0, class = "calls" },
    { name = "script flush", weight = 2, least = 0, most = 0,
      class = "calls" },
    { name = "slot move", weight = 6, least = 0, most = 0, class = "server",
      rest = 0.5 },
    { name = "slot left open", weight = 3, least = 0.1, most = 2,
      class = "server", rest = 1 },
    { name = "node stop", weight = 2, least = 0.3, most = 2.5,
      class = "server", rest = 1 },
    { name = "node kill", weight = 2, least = 0.1, most = 1.5,
      class = "server", rest = 2 },
    { name = "failover", weight = 2, least = 0, most = 0, class = "server",
      rest = 4 },
  },
}

--- A set of its own.
function nemesis.start(dir)
  local self = setmetatable({ excused = {}, yielded = {} },
    { __index = nemesis })
  self.set = cluster.start { node_timeout = 1000 * NODE_TIMEOUT,
    config = { appendonly = "yes", appendfsync = "always" },
    new_dir = function(name)
      local path = dir .. "/" .. name
      assert(uv.fs_mkdir(path, 448))
      return path
    end }
  self.url = self.set.url
  return self
end

-- A slot of a lock, and its node.
local function chosen(self, fault)
  local key = turns.KEYS[1 + math.floor(fault.draw * 97) % #turns.KEYS]
  local slot = self.set:slot_of(key)
  return slot, self.set:owner(slot)
end

-- On each node that is not down.
local function on_all(self, ...)
  for _, node in ipairs(self.set.nodes) do
    local client = node ~= self.down and node:connect()
    if client then
      client:pcall(...)
      client:close()
    end
  end
end

nemesis["client kill"] = function(self, fault)
  on_all(self, "CLIENT", "KILL", "TYPE",
    fault.draw < 0.5 and "normal" or "pubsub", "SKIPME", "yes")
end

nemesis["script flush"] = function(self)
  on_all(self, "SCRIPT", "FLUSH", "SYNC")
end

nemesis["slot move"] = function(self, fault)
  local slot = chosen(self, fault)
  self.set:move(slot, self.set:other(slot))
end

nemesis["slot left open"] = function(self, fault)
  local slot = chosen(self, fault)
  local from, to = self.set:begin(slot, self.set:other(slot))
  local share = fault.draw
  self.set.migrate(slot, from, to, function()
    share = share * 997 % 1
    return share < fault.draw
  end)
  self.open = { slot = slot, from = from, to = to }
end

nemesis["end slot left open"] = function(self)
  local open = self.open
  self.set.migrate(open.slot, open.from, open.to)
  self.set:finish(open.slot, open.to)
end

nemesis["node stop"] = function(self, fault)
  local _, node = chosen(self, fault)
  self.down = node
  node:pause()
end

nemesis["end node stop"] = function(self)
  self.down:resume()
  self.down = nil
end

nemesis["node kill"] = function(self, fault)
  local _, node = chosen(self, fault)
  self.down = node
  node:kill()
end

nemesis["end node kill"] = function(self)
  self.down:start_again()
  self.down = nil
  self.set:settled()
end

-- The others vote a primary's replica into its place only once in twice the
-- nodes' timeout.
nemesis.failover = function(self, fault)
  local slot, node = chosen(self, fault)
  local since = uv.hrtime() / 1e9 - (self.yielded[node] or -math.huge)
  if since < 2 * NODE_TIMEOUT + 1 then
    return "none"
  end
  self.set:failover(slot)
  self.yielded[node] = uv.hrtime() / 1e9
  self.set:settled()
end

function nemesis:heal() end

--- The names on all nodes but those of the fences, once there are none or they
--- have had their time.
function nemesis:leftovers()
  local left = {}
  for _, node in ipairs(self.set:current()) do
    node:call("PING")
    node.client:left_of("*", left)
  end
  return left
end

function nemesis:stop()
  self.set:stop()
end

return nemesis
