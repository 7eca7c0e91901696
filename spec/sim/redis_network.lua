-- Processes with a modelled Redis, over a network that does everything a
-- network may do. The processes run the shipped engine and the shipped state
-- machines (redis_client.c), the server the shipped scripts (redis_server.lua);
-- time, delays, cuts, pauses and deaths come from a seed.
--
-- The network: a command connection keeps the order of what it carries; each
-- way takes a moment, sometimes much longer; it is cut at any time, what is
-- under way then is executed or not, its answer is lost, and what is still on
-- its way may arrive until the next connection has had the server drop the
-- old one (CLIENT KILL); in some histories it may not be told to, and then it
-- arrives whenever it does. What is not answered within the time for it has its
-- connection cut by the client. Messages take their own time, more than a claim
-- now and then, overtake each other and come twice; the subscription is cut,
-- too, and the server notices late, or it is one to a replica, where it does
-- not count. A process may stand still (SIGSTOP) or die. The server's clock
-- runs faster or slower than theirs, within the margin.
--
-- What must hold is in redis_promises.lua: by the deadlines that the engine
-- keeps, no two hold what excludes each other, but by force; who goes from hand
-- to hand passes nobody who came before; fences rise, those of guarded writes
-- too; less time that was asked for counts at once; each request is told of in
-- time, and is done once; when the network is well again, everybody gets the
-- lock in bounded time; when all is over, nothing is left on the server, nor in
-- a process. redis_host.c sees to it that the store ends each operation once,
-- and answers each renewal once.

local agents = require "spec.sim.redis_agents"
local promises = require "spec.sim.redis_promises"
local random = require "spec.sim.random"
local redis_model = require "spec.sim.redis_model"
local redis_server = require "spec.sim.redis_server"

local network = {}
network.__index = network

local MS, SEC = 1e6, 1e9
local FAULTY, HEALTHY = 15 * SEC, 30 * SEC -- until when
local IO_TIMEOUT = 2 * SEC

agents(network, HEALTHY)
promises(network, FAULTY)
redis_server(network, FAULTY)

local function wrong(...)
  error({ wrong = string.format(...) }, 0)
end

-- ---- making ----

function network.new(client, world, seed, lax, telling)
  client.time(1)
  world.db:reset(network.START)
  local n = setmetatable({ client = client, r = random.new(seed), now = 1,
    db = world.db, names = world.names, events = {}, nodes = {}, agents = {},
    parcels = {}, excused = {}, given = {}, written = {},
    released = {}, left = {}, detached = {}, queued = {}, holding = {},
    forgotten = {}, fence = 0, newest = 0, exclusive_fence = 0, guarded = 0,
    writes = 0, last = 0, seed = seed, lax = lax, telling = telling, log = {},
    kind = seed % 3, lingers = seed % 5 == 4, server = {} }, network)
  n.rate = 1 + (n.r:next() - 0.5) * 0.01
  return n
end

function network:chance(p)
  return self.r:next() < p
end

function network:between(low, high)
  return low + self.r:next() * (high - low)
end

function network:say(...)
  if self.telling then
    self.log[#self.log + 1] = ("%9.1f ms  "):format(self.now / MS)
      .. string.format(...)
  end
end

-- Runs `run` at a time; of the same time in this order.
function network:at(time, run)
  local list = self.events
  self.last = self.last + 1
  local event = { time = math.max(time, self.now), n = self.last, run = run }
  local place = #list + 1
  while place > 1 and list[place - 1].time <= event.time do
    place = place - 1
  end
  table.insert(list, place, event) -- the next one stands last
end

function network:healthy()
  return self.now > FAULTY
end

-- One link of a process: its connections to a server, by the link's number.
function network:connect(node, k, server, up)
  return { node = node, k = k, server = server, epoch = 1, up = up,
    arrived = 0, answered = 0, flying = {}, subscription = 0, dead = {} }
end

-- Somebody's process. Those with a short ttl may die; the others keep the
-- lock long if anybody forgets it for them. The first two are event loops, in
-- the first of which four want the lock, so that it is handed on locally.
function network:join(i)
  self.joined = (self.joined or 0) + 1
  local mortal, resident = i % 2 == 0, i <= 2
  local node = { n = i, mortal = mortal, resident = resident, asked = {},
    away = 0,
    ttl = mortal and math.floor(self:between(0.3, 3) * SEC) or 30 * SEC,
    machine = self.client.new(self.seed * 1000 + self.joined, resident,
      self.lingers, self.routed) }
  node.wires = self.routed and {} or { self:connect(node, 1, self.server,
    true) }
  self.nodes[i] = node
  for _ = 1, i == 1 and 4 or 1 do
    self:agent(node)
  end
  self:maybe_trouble(node)
end

-- The links that a process has now.
function network:wires(node) return node.wires end

-- ---- messages ----

function network:send_message(wire, text)
  local node = wire.node
  local copies = not self:healthy() and self:chance(0.1) and 2 or 1
  for _ = 1, copies do
    local delay = self:between(0.05, 1) * MS
    if not self:healthy() and self:chance(0.2) then
      delay = self:between(0.1, 6) * SEC
    end
    local subscription = wire.subscription
    self:at(self.now + delay, function()
      if subscription ~= wire.subscription and self:chance(0.5) then
        return
      end
      self:on(wire, function()
        self:say("%d hears %s", node.n, text:sub(1, 52))
        node.machine:message(wire.k, text)
      end)
    end)
  end
end

-- There is none to be had now.
local function no_subscription(self, wire)
  self:on(wire, function()
    wire.node.machine:deny(wire.k, self:denies() and "denied" or "unavailable")
  end)
  self:at(self.now + self:between(10, 200) * MS, function()
    wire.subscribing = false
    self:to(wire.node, function() end)
  end)
end

function network:subscribe(wire)
  local node = wire.node
  if wire.subscribing or not node.machine:wanted(wire.k) then
    return
  end
  wire.subscribing = true
  node.channel = node.machine:channel()
  local delay = self:healthy() and 1 or self:chance(0.1) and 400 or 1
  self:at(self.now + delay * self:between(0.2, 1) * MS, function()
    if node.gone then
      return
    elseif self:down(wire.server) or self:denies() then
      return no_subscription(self, wire)
    end
    self:listen(wire)
    wire.subscribed = true
    local subscription = wire.subscription
    self:at(self.now + self:between(0.1, 1) * MS, function()
      self:on(wire, function()
        if subscription == wire.subscription then
          node.machine:heard(wire.k)
        end
      end)
    end)
  end)
end

-- late: when the server notices; nil: at once, or later.
function network:cut_subscription(wire, late)
  if not wire.subscribed then
    return
  end
  self:say("%d's subscription is cut", wire.node.n)
  wire.subscribed = false
  wire.subscription = wire.subscription + 1
  late = late or self:chance(0.5) and 0 or self:between(0, 2) * SEC
  local elsewhere = wire.elsewhere
  self:at(self.now + late, function()
    self:listeners(wire, -1, elsewhere)
  end)
  self:on(wire, function()
    wire.node.machine:deafen(wire.k)
    wire.subscribing = false
  end)
end

-- ---- requests ----

function network:delay()
  if self:healthy() then
    return self:between(0.05, 0.5) * MS
  elseif self:chance(0.05) then
    return self:between(0.01, 3) * SEC
  end
  return self:between(0.05, self:chance(0.1) and 200 or 1) * MS
end

function network:arrive(wire, epoch, start, id, bytes)
  local server = wire.server
  if wire.dead[epoch] or start ~= server.restarts then -- nobody has it
    return
  elseif self:stands_still(server) then
    return self:at(server.still, function()
      self:arrive(wire, epoch, start, id, bytes)
    end)
  end
  local replies = self:execute(bytes, wire)
  wire.answered = math.max(wire.answered, self.now + self:delay())
  self:at(wire.answered, function()
    self:on(wire, function()
      if epoch == wire.epoch and wire.flying[id] then
        wire.flying[id] = nil
        self:answer(wire, id, replies)
      end
    end)
  end)
end

function network:answer(wire, id, replies)
  wire.node.machine:answer(wire.k, id, replies)
end

-- Whoever waits too long for an answer gives the connection up.
local function await(self, wire, id, epoch)
  self:at(self.now + IO_TIMEOUT + MS, function()
    self:on(wire, function()
      if epoch == wire.epoch and wire.flying[id] then
        self:cut(wire)
      end
    end)
  end)
end

function network:flush(wire)
  local machine, k = wire.node.machine, wire.k
  if not wire.up then
    return
  elseif machine:retreats(k) then -- it writes nothing more on this one
    if not next(wire.flying) then
      self:cut(wire)
    end
    return
  end
  while machine:waits(k) do
    local id, bytes = machine:write(k)
    local epoch, start = wire.epoch, wire.server.restarts
    wire.flying[id] = true
    local delay = self:delay()
    wire.arrived = math.max(wire.arrived, self.now + delay)
    if delay > 5 * MS and self:chance(0.3) then -- what is slow is cut
      self:at(self.now + delay * self.r:next(), function()
        self:cut(wire)
      end)
    end
    self:at(wire.arrived, function()
      self:arrive(wire, epoch, start, id, bytes)
    end)
    await(self, wire, id, epoch)
  end
end

local function sorted(set)
  local list = {}
  for id in pairs(set) do
    list[#list + 1] = id
  end
  table.sort(list)
  return list
end

-- What is under way may still arrive until the server has dropped the old
-- connection, unless it was lost with it.
function network:cut(wire)
  local machine, k = wire.node.machine, wire.k
  if not wire.up then
    return
  end
  self:say("%d's connection is cut", wire.node.n)
  local epoch = wire.epoch
  wire.up = false
  if self:chance(0.5) then
    wire.dead[epoch] = true
  end
  self:on(wire, function()
    local lost = sorted(wire.flying)
    wire.flying = {}
    machine:down(k)
    for _, id in ipairs(lost) do
      if machine:has(k) then machine:lose(k, id) end
    end
  end)
  self:reconnect(wire, epoch)
end

function network:reconnect(wire, epoch)
  local node, machine = wire.node, wire.node.machine
  local delay = self:between(1, self:chance(0.3) and 2500 or 50) * MS
  self:at(self.now + delay, function()
    if node.gone or not machine:has(wire.k) then
      return
    elseif self:down(wire.server) or self.now < node.away
        or not self:healthy() and self:chance(0.3) then
      self:on(wire, function() machine:refuse(wire.k) end)
      return self:reconnect(wire, epoch)
    end
    self:on(wire, function()
      if self.lax ~= "kill" and not self.lingers then
        wire.dead[epoch] = true
      end
      wire.epoch, wire.up = epoch + 1, true
      wire.arrived, wire.answered = self.now, self.now
      machine:returned(wire.k, wire.epoch % 3 == 0)
      self:say("%d is connected again", node.n)
    end)
  end)
end

-- ---- processes ----

-- Has a living process do something, when it runs again.
function network:to(node, run)
  if node.gone then
    return
  elseif node.stopped and node.stopped > self.now then
    return self:at(node.stopped, function()
      self:to(node, run)
    end)
  end
  run()
  self:pump(node)
end

-- The same while it has that link.
function network:on(wire, run)
  self:to(wire.node, function()
    if wire.node.machine:has(wire.k) then run() end
  end)
end

function network:pump(node)
  repeat
    local events = node.machine:events()
    for _, event in ipairs(events) do
      self:happened(node, event)
    end
    for _, wire in ipairs(self:wires(node)) do
      self:flush(wire)
    end
  until not events[1]
  for _, wire in ipairs(self:wires(node)) do
    self:subscribe(wire)
  end
  self:check_holders()
end

function network:die(node)
  self:say("%d dies", node.n)
  local wires = self:wires(node)
  self:bury(node)
  for _, wire in ipairs(wires) do
    local epoch, subscribed = wire.epoch, wire.subscribed
    if wire.subscribing then
      self:at(self.now + self:between(0, 1) * SEC, function()
        wire.dead[epoch] = true
        if subscribed then
          self:listeners(wire, -1, wire.elsewhere)
        end
      end)
    end
  end
  self:at(self.now + self:between(0.1, 2) * SEC, function()
    self:join(node.n)
  end)
end

function network:bury(node)
  node.gone = true
  for i = #self.agents, 1, -1 do
    if self.agents[i].node == node then
      table.remove(self.agents, i)
    end
  end
  if not node.machine:close() then
    wrong("something of %d outlives it", node.n)
  end
end

-- One bad thing after another, until the network is to be well.
function network:maybe_trouble(node)
  self:at(self.now + self:between(0, 4) * SEC, function()
    if node.gone or self:healthy() then
      return
    end
    local what, wires = self.r:next(), self:wires(node)
    local wire = wires[1 + math.floor(what * 997 % 1 * #wires)]
    if what < 0.65 then
      if wire and what < 0.45 then self:cut(wire) end
      if wire and what >= 0.45 then self:cut_subscription(wire) end
    elseif what < 0.85 then
      local ends = self.now + self:between(0.05, 4) * SEC
      if (node.stopped or 0) <= self.now then
        node.stopped = ends -- else what waits for it keeps its order
      end
      self:say("%d stands still until %.1f", node.n, node.stopped / MS)
    elseif what < 0.93 and node.mortal then
      return self:die(node)
    elseif what >= 0.93 then
      node.away = math.min(self.now + self:between(2, 8) * SEC, FAULTY)
      self:say("%d has no network until %.1f", node.n, node.away / MS)
      for _, one in ipairs(wires) do self:cut(one) end
    end
    self:maybe_trouble(node)
  end)
end

-- ---- running ----

function network:next_timer()
  local first, whose = math.huge, nil
  for _, node in ipairs(self.nodes) do
    local time = not node.gone and node.machine:next()
    if time and node.stopped then
      time = math.max(time, node.stopped)
    end
    if time and time < first then
      first, whose = time, node
    end
  end
  return first, whose
end

function network:run(until_time)
  local steps = 0
  while true do
    local event = self.events[#self.events]
    local time, node = self:next_timer()
    local first = math.min(time, event and event.time or math.huge)
    if first > until_time then
      break
    end
    steps = steps + 1
    if steps > 1e6 then
      wrong("it goes round and round")
    end
    self.now = math.max(self.now, first)
    self.client.time(math.floor(self.now))
    if event and event.time <= time then
      table.remove(self.events)
      event.run()
    else
      self:to(node, function()
        node.machine:fire()
      end)
    end
  end
end

function network:play()
  for i = 1, 4 do self:join(i) end
  self:server_trouble()
  for quarter = 1, HEALTHY / SEC * 4 do
    self:run(quarter * SEC / 4)
    self:check_answered()
    self:check_tokens()
  end
  self:check_stuck()
  self:run(HEALTHY + 12 * SEC)
  self:check_end()
  for _, node in ipairs(self.nodes) do
    if not node.gone then
      self:bury(node)
    end
  end
end

-- What histories share: the server's scripts, and their names.
function network.world(client, texts)
  local world = { db = redis_model.new(texts, network.START), names = {},
    slot = client.slot("lock") }
  for name, text in pairs(texts) do
    world.names[text] = name
  end
  for digest, text in pairs(client.scripts()) do
    world.names[digest] = world.names[text]
  end
  return world
end

-- One history: nil, or what went wrong, and what was told. kind: the network,
-- if another one.
function network.history(client, world, seed, lax, telling, kind)
  local n = (kind or network).new(client, world, seed, lax, telling)
  local ok, problem = pcall(n.play, n)
  for _, node in ipairs(n.nodes) do
    node.machine:close()
  end
  if ok then
    return nil, n.log
  elseif type(problem) == "table" and problem.wrong then
    return problem.wrong, n.log
  end
  error(problem, 0)
end

return network
