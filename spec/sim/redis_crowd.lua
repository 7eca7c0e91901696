-- Many who wait at rest: some processes of redis_network.lua, each with many
-- waits for one lock that a foreign client holds for ever. The network is well
-- all the time; processes die or hang, and the server may stand still.

local network = require "spec.sim.redis_network"

local crowd = setmetatable({}, { __index = network })
crowd.__index = crowd

local SEC = 1e9
local BEGIN = 20 * SEC -- when the network of redis_network.lua is well
local KEY = "lock"

-- processes, each with so many readers who wait, one process behind the other.
function crowd.new(client, world, processes, each, ttl)
  local c = setmetatable(network.new(client, world, 3), crowd)
  c.now, c.rate, c.asks, c.wrote = BEGIN, 1, {}, {}
  client.time(c.now)
  c:set_server_time()
  c.db:call("SET", KEY, "foreign")
  for i = 1, processes do
    local node = { n = i, asked = {}, away = 0,
      machine = client.new(3 * i, false, false) }
    node.wires = { c:connect(node, 1, c.server, true) }
    c.nodes[i] = node
    c:to(node, function()
      for _ = 1, each do
        node.machine:acquire(KEY, ttl * SEC, 1, 0, true, true, 0, 1e5 * SEC)
      end
    end)
    c:pass(0.1)
  end
  return c
end

function crowd:pass(seconds) self:run(self.now + seconds * SEC) end

-- Nobody holds.
function crowd:check_holders() end

-- Writes down who asks, and when that was written.
function crowd:flush(wire)
  if wire.node.machine:waits(1) then self.wrote[wire.node] = self.now end
  return network.flush(self, wire)
end

function crowd:was_run(script, arguments, reply)
  assert((script == "join" or script == "refresh") and reply[1] ~= "got",
    "nobody lets go")
  self.asks[#self.asks + 1] = { node = self.caller, at = self.now,
    written = self.wrote[self.caller], token = arguments[1], said = reply[1] }
end

-- The asks of `seconds` from now on.
function crowd:watch(seconds)
  self.asks = {}
  self:pass(seconds)
  return self.asks
end

-- How many wait, and for how many ms the server keeps that.
function crowd:standing()
  for _, name in ipairs(self.db:names()) do
    if name:find(":q:", 1, true) then
      local list = self.db:call("ZRANGE", name, 0, -1)
      return #list, self.db:call("PTTL", name)
    end
  end
  return 0
end

function crowd:hang(i) self.nodes[i].stopped = 1e6 * SEC end

function crowd:kill(i)
  self:bury(self.nodes[i])
  self:listeners(self.nodes[i].wires[1], -1)
end

-- All have their subscription anew.
function crowd:subscribe_anew()
  for _, node in ipairs(self.nodes) do
    self:cut_subscription(node.wires[1], 0)
  end
end

function crowd:close()
  for _, node in ipairs(self.nodes) do
    if not node.gone then node.machine:close() end
  end
end

return crowd
