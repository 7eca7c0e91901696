-- The network of redis_network.lua with a cluster in the server's place: three
-- shards, of which one has the lock's slot. The processes run the shipped
-- router above one link for each node that they know.
--
-- The slot moves from shard to shard: both nodes are told, then its keys go one
-- after the other, then each node hears of the new owner, in some order.
-- Between any two steps there is time for all else, seconds now and then. The
-- primary of a shard is lost with all that is under way, and another node takes
-- over, with all keys, or with nothing but counters of an earlier time (not
-- while the slot moves: then a cluster may lose what had moved). The lost one
-- comes back as a replica. Nodes hear late of what others did, and tell and
-- redirect by what they know. They stand still, and say CLUSTERDOWN.
--
-- One modelled server has the keys of all nodes; which node has a key is
-- written down beside it, and no node runs a script on keys that it lacks.
--
-- What must hold is in redis_promises.lua, besides here: a waiter that names
-- its place keeps it. redis_link.c looks at the way of each request: it never
-- goes to a node that was told not to have the slot, nor round in a circle
-- without pauses.

local network = require "spec.sim.redis_network"

local cluster = setmetatable({}, { __index = network })
cluster.__index = cluster

local MS, SEC = 1e6, 1e9
local FAULTY = 15 * SEC -- as redis_network.lua has it
local SHARDS = 3
local FIRST = { 0, 5461, 10922, 16384 } -- slots of the shards, but for ours

local DOWN = "CLUSTERDOWN The cluster is down"
local AGAIN = "TRYAGAIN Multiple keys request during rehashing of slot"

-- ---- nodes ----

local function new_server(self, shard)
  local s = { n = #self.servers + 1, shard = shard, listeners = {} }
  s.host = "s" .. s.n
  self.servers[s.n] = s
  return s
end

function cluster.new(client, world, seed, lax, telling)
  local c = setmetatable(network.new(client, world, seed, lax, telling),
    cluster)
  c.routed, c.lingers, c.servers, c.place = true, false, {}, {}
  c.slot = world.slot
  for shard = 1, SHARDS do new_server(c, shard) end
  for _, s in ipairs(c.servers) do
    s.owner, s.primaries = 1, { 1, 2, 3 } -- of the slot; of the shards
  end
  return c
end

-- The primary of the shard that has the slot, as the node believes.
local function has_slot(s) return s.primaries[s.owner] == s.n end

-- Tells all nodes but `first`, each after a while.
function cluster:spread(change, first)
  local last = self.now
  change(first)
  for _, s in ipairs(self.servers) do
    if s ~= first then
      local at = self.now + self:between(0.1, 300) * MS
      last = math.max(last, at)
      self:at(at, function() change(s) end)
    end
  end
  return last
end

-- ---- what a node answers ----

local function said(...) return { err = string.format(...) } end

-- The links that a process has now.
function cluster:wires(node)
  local list = {}
  for k, host in ipairs(node.machine:links()) do
    if host and not node.wires[k] then
      local server = self.servers[tonumber(host:match("%d+"))]
      node.wires[k] = self:connect(node, k, server, false)
      self:reconnect(node.wires[k], 0)
    end
    list[#list + 1] = host and node.wires[k] or nil
  end
  return list
end

-- CLUSTER SLOTS: ours is a range of its own.
local function slots(self, s)
  local out = {}
  local function range(from, to, shard)
    local n = s.primaries[shard]
    local id = ("%08x"):format(n):rep(5)
    if from <= to then
      out[#out + 1] = { from, to, { "s" .. n, 6379, id } }
    end
  end
  for shard = 1, SHARDS do
    local from, to = FIRST[shard], FIRST[shard + 1] - 1
    if self.slot >= from and self.slot <= to then
      range(from, self.slot - 1, shard)
      range(self.slot + 1, to, shard)
    else
      range(from, to, shard)
    end
  end
  range(self.slot, self.slot, s.owner)
  return out
end

-- How many of them the node has.
local function count_here(self, s, keys)
  local here = 0
  for _, key in ipairs(keys) do
    if self.db:find(key) and self.place[key] == s.n then here = here + 1 end
  end
  return here
end

-- A refusal, or nil: it serves these keys.
function cluster:refers(s, keys, asking)
  local all = count_here(self, s, keys) == #keys
  if not keys[1] then
    return
  elseif self.now < (s.refusing or 0) then
    return said(DOWN)
  elseif not has_slot(s) and not (s.importing and asking) then
    return said("MOVED %d s%d:6379", self.slot, s.primaries[s.owner])
  elseif not has_slot(s) then
    return #keys > 1 and not all and said(AGAIN) or nil
  elseif s.migrating and not all then
    return count_here(self, s, keys) > 0 and said(AGAIN)
      or said("ASK %d %s:6379", self.slot, s.migrating.host)
  end
end

-- New keys are where they were made.
local function settle(self, s)
  for name in pairs(self.place) do
    if not self.db:find(name) then self.place[name] = nil end
  end
  for _, name in ipairs(self.db:names()) do
    self.place[name] = self.place[name] or s.n
  end
end

function cluster:script(list)
  local keys, s = {}, self.executes
  for i = 1, tonumber(list[3]) do keys[i] = list[3 + i] end
  local refusal = self:refers(s, keys, self.asking)
  if refusal then
    self:say("    s%d to %d: %s", s.n, self.caller.n, refusal.err)
    return refusal
  end
  local reply = network.script(self, list)
  settle(self, s)
  return reply
end

function cluster:command(list)
  local s, asking = self.executes, self.asking
  self.asking = list[1] == "ASKING"
  if list[1] == "CLUSTER" then
    return slots(self, s)
  elseif self.asking then
    return { ok = "OK" }
  elseif list[1] == "EVAL" or list[1] == "EVALSHA" then
    self.asking = asking
    local reply = self:script(list)
    self.asking = false
    return reply
  end
  return self:refers(s, { list[2] }, asking) or network.command(self, list)
end

function cluster:execute(bytes, wire)
  self.executes, self.asking = wire.server, false
  self.db.listeners = wire.server.listeners
  local maps = bytes:find("SLOTS", 1, true) and wire.server.primaries[
    wire.server.owner]
  local replies = network.execute(self, bytes, wire)
  replies.maps = maps and "s" .. maps
  return replies
end

-- The process is told where the slot is.
function cluster:answer(wire, id, replies)
  if replies.maps then
    self:say("%d has a map of s%d: %s", wire.node.n, wire.server.n,
      replies.maps)
    wire.node.machine:told(replies.maps)
  end
  network.answer(self, wire, id, replies)
end

function cluster:was_run(script, arguments, reply)
  local place = arguments[7]
  if (script == "join" or script == "refresh") and reply[1] == "wait"
      and place ~= "" and place ~= reply[4] then
    error({ wrong = ("a waiter of %s had the place %s, and has %s"):format(
      self.caller.n, place, reply[4]) }, 0)
  end
  return network.was_run(self, script, arguments, reply)
end

-- ---- messages ----

function cluster:down(s) return s.gone or self:stands_still(s) end

-- elsewhere: no channel of the slot is listened to.
function cluster:listen(wire) wire.elsewhere = true end

function cluster:listeners(wire, change, elsewhere)
  local list, channel = wire.server.listeners, wire.node.channel
  if elsewhere then return end
  list[channel] = math.max((list[channel] or 0) + change, 0)
end

local function listens(self, wire, yes)
  self:listeners(wire, yes and 1 or -1, yes ~= wire.elsewhere)
  wire.elsewhere = not yes
end

-- A moment later the process hears of it.
local function tell(self, wire, how)
  local subscription, machine = wire.subscription, wire.node.machine
  self:at(self.now + self:between(0.1, 1) * MS, function()
    wire.joining = false
    self:on(wire, function()
      if subscription ~= wire.subscription then return end
      machine[how](machine, wire.k)
    end)
  end)
end

-- SSUBSCRIBE and SUNSUBSCRIBE, once the connection is there.
function cluster:subscribe(wire)
  network.subscribe(self, wire)
  local subscription, s = wire.subscription, wire.server
  local wants = wire.subscribed and wire.node.machine:asked(wire.k)
  if wire.subscribed and not wants and not wire.elsewhere then
    listens(self, wire, false)
  elseif wants and wire.elsewhere and not wire.joining then
    wire.joining = true
    self:at(self.now + self:between(0.1, 1) * MS, function()
      local same = subscription == wire.subscription and not wire.node.gone
      if same and has_slot(s) and not s.gone then
        listens(self, wire, true)
        tell(self, wire, "subscribed")
      else
        tell(self, wire, "unsubscribed")
      end
    end)
  end
end

-- The node lets those go who listen to a slot that it lacks now.
function cluster:dismiss(s)
  for _, node in ipairs(self.nodes) do
    for _, wire in ipairs(node.gone and {} or self:wires(node)) do
      if wire.server == s and wire.subscribed and not wire.elsewhere then
        listens(self, wire, false)
        tell(self, wire, "unsubscribed")
      end
    end
  end
end

-- ---- a slot that moves ----

-- Each step waits for a live node.
function cluster:later_on(s, span, run)
  self:at(self.now + span, function()
    if s.gone or self:stands_still(s) then
      return self:later_on(s, 10 * MS, run)
    end
    run()
  end)
end

function cluster:pause()
  local open = not self:healthy() and self:chance(0.1)
  return open and self:between(0.1, 3) * SEC or self:between(0.05, 20) * MS
end

-- The keys that are still at the node.
local function rest(self, s)
  local list = {}
  for _, name in ipairs(self.db:names()) do
    if self.place[name] == s.n and name ~= "guarded" then
      list[#list + 1] = name
    end
  end
  return list
end

local function finish(self, from, to)
  local function owns(s)
    if s == from then self:dismiss(s) end
    s.owner = to.shard
    if s == from then s.migrating = nil end
    if s == to then s.importing = nil end
  end
  self:say("s%d has the slot", to.n)
  if self:chance(0.3) then -- each sends to the other for a while
    owns(from)
    self:later_on(to, self:between(0.1, 30) * MS, function()
      self.moving = self:spread(owns, to)
    end)
  else
    owns(to)
    self:later_on(from, self:between(0.1, 30) * MS, function()
      self.moving = self:spread(owns, from)
    end)
  end
end

local function migrate(self, from, to)
  local keys = rest(self, from)
  if not keys[1] then return finish(self, from, to) end
  local key = keys[1 + math.floor(self.r:next() * #keys)]
  self.place[key] = to.n
  self:say("    %s goes to s%d", key, to.n)
  self:later_on(from, self:pause(), function() migrate(self, from, to) end)
end

-- math.huge: it is under way; else when all nodes know.
function cluster:move()
  local from
  for _, s in ipairs(self.servers) do
    if has_slot(s) and not s.gone then from = s end
  end
  if not from or self.now <= (self.moving or 0) then return end
  local shard = 1 + (from.shard + math.floor(self.r:next() * 2)) % SHARDS
  local to = self.servers[from.primaries[shard]]
  if to == from or to.gone then return end
  self.moving = math.huge
  self:say("the slot goes from s%d to s%d", from.n, to.n)
  to.importing = from
  self:later_on(from, self:between(0.05, 5) * MS, function()
    from.migrating = to
    self:later_on(from, self:pause(), function() migrate(self, from, to) end)
  end)
end

-- ---- a primary that is lost ----

local function cut_all(self, s)
  s.restarts = (s.restarts or 0) + 1
  s.listeners = {}
  for _, node in ipairs(self.nodes) do
    for _, wire in ipairs(node.gone and {} or self:wires(node)) do
      if wire.server == s then
        wire.dead[wire.epoch] = true
        self:cut_subscription(wire, 0)
        self:cut(wire)
      end
    end
  end
end

local function take_over(self, old)
  local s = new_server(self, old.shard)
  s.owner, s.primaries = old.owner, {}
  for shard, n in ipairs(old.primaries) do s.primaries[shard] = n end
  self:say("s%d takes over for s%d", s.n, old.n)
  if has_slot(old) and self:chance(0.3) and self.saved then
    self:set_server_time()
    self:excuse()
    self.db.keys, self.saved, self.place = self.saved, nil, {}
    self:say("    with an old counter")
  end
  for name, n in pairs(self.place) do
    if n == old.n then self.place[name] = s.n end
  end
  settle(self, s)
  self.moving = self:spread(function(one)
    one.primaries[old.shard] = s.n
  end, s)
  self:at(self.moving + self:between(0, 2) * SEC, function()
    old.gone = false
  end)
end

function cluster:lose()
  local s = self.servers[self.servers[#self.servers].primaries[
    1 + math.floor(self.r:next() * SHARDS)]]
  if s.gone or self.now <= (self.moving or 0) then return end
  self.moving, s.gone = math.huge, true
  self:say("s%d is lost", s.n)
  cut_all(self, s)
  self:at(self.now + self:between(0.3, 2) * SEC, function()
    take_over(self, s)
  end)
end

-- ---- bad times ----

function cluster:server_trouble()
  self:at(self.now + self:between(0, 600) * MS, function()
    local what, s = self.r:next(),
      self.servers[1 + math.floor(self.r:next() * #self.servers)]
    if self.now > 20 * SEC then
      return
    elseif self:healthy() or what < 0.6 then
      self:move()
    elseif what < 0.75 then
      self:lose()
    elseif what < 0.82 then
      self:stand_still(s, self:between(100, 3000) * MS)
    elseif what < 0.88 then
      s.refusing = math.min(self.now + self:between(1, 1500) * MS, FAULTY)
      self:say("s%d: %s", s.n, DOWN)
    elseif what < 0.94 then
      self:save()
    else
      self:say("SCRIPT FLUSH")
      for name in pairs(self.db.scripts) do self.forgotten[name] = true end
    end
    self:server_trouble()
  end)
end

return cluster
