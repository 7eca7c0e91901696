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
local server = require "spec.sim.redis_server"

local network = {}
network.__index = network

local MS, SEC = 1e6, 1e9
local FAULTY, HEALTHY = 15 * SEC, 30 * SEC -- until when
local IO_TIMEOUT = 2 * SEC

agents(network, HEALTHY)
promises(network, FAULTY)
server(network, FAULTY)

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
    kind = seed % 3, lingers = seed % 5 == 4 }, network)
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

-- Somebody's process. Those with a short ttl may die; the others keep the
-- lock long if anybody forgets it for them. The first two are event loops, in
-- the first of which four want the lock, so that it is handed on locally.
function network:join(i)
  self.joined = (self.joined or 0) + 1
  local mortal, resident = i % 2 == 0, i <= 2
  local node = { n = i, mortal = mortal, resident = resident, epoch = 1,
    up = true, arrived = 0, answered = 0, flying = {}, asked = {},
    subscription = 0, dead = {}, away = 0,
    ttl = mortal and math.floor(self:between(0.3, 3) * SEC) or 30 * SEC,
    machine = self.client.new(self.seed * 1000 + self.joined, resident,
      self.lingers) }
  self.nodes[i] = node
  for _ = 1, i == 1 and 4 or 1 do
    self:agent(node)
  end
  self:maybe_trouble(node)
end

-- ---- messages ----

function network:send_message(node, text)
  local copies = not self:healthy() and self:chance(0.1) and 2 or 1
  for _ = 1, copies do
    local delay = self:between(0.05, 1) * MS
    if not self:healthy() and self:chance(0.2) then
      delay = self:between(0.1, 6) * SEC
    end
    local subscription = node.subscription
    self:at(self.now + delay, function()
      if subscription ~= node.subscription and self:chance(0.5) then
        return
      end
      self:to(node, function()
        self:say("%d hears %s", node.n, text:sub(1, 52))
        node.machine:message(text)
      end)
    end)
  end
end

-- There is none to be had now.
local function no_subscription(self, node)
  self:to(node, function()
    node.machine:deny(self:denies() and "denied" or "unavailable")
  end)
  self:at(self.now + self:between(10, 200) * MS, function()
    node.subscribing = false
    self:to(node, function() end)
  end)
end

function network:subscribe(node)
  if node.subscribing or not node.machine:wanted() then
    return
  end
  node.subscribing = true
  node.channel = node.machine:channel()
  local delay = self:healthy() and 1 or self:chance(0.1) and 400 or 1
  self:at(self.now + delay * self:between(0.2, 1) * MS, function()
    if node.gone then
      return
    elseif self:down() or self:denies() then
      return no_subscription(self, node)
    end
    self:listen(node)
    node.subscribed = true
    local subscription = node.subscription
    self:at(self.now + self:between(0.1, 1) * MS, function()
      self:to(node, function()
        if subscription == node.subscription then
          node.machine:heard()
        end
      end)
    end)
  end)
end

-- late: when the server notices; nil: at once, or later.
function network:cut_subscription(node, late)
  if not node.subscribed then
    return
  end
  self:say("%d's subscription is cut", node.n)
  node.subscribed = false
  node.subscription = node.subscription + 1
  late = late or self:chance(0.5) and 0 or self:between(0, 2) * SEC
  local elsewhere = node.elsewhere
  self:at(self.now + late, function()
    self:listeners(node.channel, -1, elsewhere)
  end)
  self:to(node, function()
    node.machine:deafen()
    node.subscribing = false
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

function network:arrive(node, epoch, start, id, bytes)
  if node.dead[epoch] or start ~= self.restarts then -- nobody has it
    return
  elseif self:stands_still() then
    return self:at(self.still, function()
      self:arrive(node, epoch, start, id, bytes)
    end)
  end
  local replies = self:execute(bytes, node)
  node.answered = math.max(node.answered, self.now + self:delay())
  self:at(node.answered, function()
    self:to(node, function()
      if epoch == node.epoch and node.flying[id] then
        node.flying[id] = nil
        node.machine:answer(id, replies)
      end
    end)
  end)
end

-- Whoever waits too long for an answer gives the connection up.
local function await(self, node, id, epoch)
  self:at(self.now + IO_TIMEOUT + MS, function()
    self:to(node, function()
      if epoch == node.epoch and node.flying[id] then
        self:cut(node)
      end
    end)
  end)
end

function network:flush(node)
  if not node.up then
    return
  elseif node.machine:retreats() then -- it writes nothing more on this one
    if not next(node.flying) then
      self:cut(node)
    end
    return
  end
  for _, id in ipairs(node.machine:requests()) do
    local bytes, epoch = node.machine:write(id), node.epoch
    local start = self.restarts
    node.flying[id] = true
    local delay = self:delay()
    node.arrived = math.max(node.arrived, self.now + delay)
    if delay > 5 * MS and self:chance(0.3) then -- what is slow is cut
      self:at(self.now + delay * self.r:next(), function()
        self:cut(node)
      end)
    end
    self:at(node.arrived, function()
      self:arrive(node, epoch, start, id, bytes)
    end)
    await(self, node, id, epoch)
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
function network:cut(node)
  if not node.up then
    return
  end
  self:say("%d's connection is cut", node.n)
  local epoch = node.epoch
  node.up = false
  if self:chance(0.5) then
    node.dead[epoch] = true
  end
  self:to(node, function()
    local lost = sorted(node.flying)
    node.flying = {}
    for _, id in ipairs(lost) do
      node.machine:lose(id)
    end
  end)
  self:reconnect(node, epoch)
end

-- Not written, and not worth waiting for; unless it was withdrawn when an
-- earlier one was refused.
function network:turn_away(node, id)
  for _, waiting in ipairs(node.machine:requests()) do
    if waiting == id then
      return node.machine:lose(id)
    end
  end
end

function network:reconnect(node, epoch)
  local delay = self:between(1, self:chance(0.3) and 2500 or 50) * MS
  self:at(self.now + delay, function()
    if node.gone then
      return
    elseif self:down() or self.now < node.away
        or not self:healthy() and self:chance(0.3) then
      self:to(node, function()
        for _, id in ipairs(node.machine:requests()) do
          self:turn_away(node, id)
        end
      end)
      return self:reconnect(node, epoch)
    end
    self:to(node, function()
      if self.lax ~= "kill" and not self.lingers then
        node.dead[epoch] = true
      end
      node.epoch, node.up = epoch + 1, true
      node.arrived, node.answered = self.now, self.now
      node.machine:returned(node.epoch % 3 == 0)
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

function network:pump(node)
  repeat
    local events = node.machine:events()
    for _, event in ipairs(events) do
      self:happened(node, event)
    end
    self:flush(node)
  until not events[1] or node.gone
  self:subscribe(node)
  self:check_holders()
end

function network:die(node)
  self:say("%d dies", node.n)
  self:bury(node)
  local epoch = node.epoch
  if node.subscribing then
    local subscribed = node.subscribed
    self:at(self.now + self:between(0, 1) * SEC, function()
      node.dead[epoch] = true
      if subscribed then
        self:listeners(node.channel, -1, node.elsewhere)
      end
    end)
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
    local what = self.r:next()
    if what < 0.45 then
      self:cut(node)
    elseif what < 0.65 then
      self:cut_subscription(node)
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
      self:cut(node)
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
  local world = { db = redis_model.new(texts, network.START), names = {} }
  for name, text in pairs(texts) do
    world.names[text] = name
  end
  for digest, text in pairs(client.scripts()) do
    world.names[digest] = world.names[text]
  end
  return world
end

-- One history: nil, or what went wrong, and what was told.
function network.history(client, world, seed, lax, telling)
  local n = network.new(client, world, seed, lax, telling)
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
