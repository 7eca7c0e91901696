-- Clients of a modelled Redis over a network that does everything a network
-- may do. The clients are the shipped state machines (redis_client.c), the
-- server runs the shipped scripts (redis_model.lua); time, delays, cuts,
-- pauses and deaths come from a seed.
--
-- The network: a command connection keeps the order of what it carries; each
-- way takes a moment, sometimes much longer; it is cut at any time, what is
-- under way then is executed or not, its answer is lost, and what is still on
-- its way may arrive until the next connection has had the server drop the
-- old one (CLIENT KILL). Messages take their own time, more than a claim now
-- and then, overtake each other and come twice; the subscription is cut, too,
-- and the server notices late. A client may stand still (SIGSTOP) or die. The
-- server's clock runs faster or slower than theirs, within the margin.
--
-- What must hold: by their own clocks (the deadline that the engine keeps), no
-- two believe to hold what excludes each other; a later holder's fence is
-- larger; when the network is well again, everybody gets the lock in bounded
-- time; when all is over, nothing is left on the server.

local agents = require "spec.sim.redis_agents"
local random = require "spec.sim.random"
local redis_model = require "spec.sim.redis_model"

local network = {}
network.__index = network

local MS, SEC = 1e6, 1e9
local START = 1.7e15 -- the server's clock, in us
local FAULTY, HEALTHY = 25 * SEC, 40 * SEC -- until when

local function wrong(...)
  error({ wrong = string.format(...) }, 0)
end

agents(network, FAULTY, HEALTHY)

-- ---- making ----

function network.new(client, texts, seed, lax, telling)
  client.time(1)
  local n = setmetatable({ client = client, r = random.new(seed), now = 1,
    db = redis_model.new(texts, START), names = {}, events = {}, nodes = {},
    agents = {}, beliefs = {}, fence = 0, last = 0, seed = seed, lax = lax,
    telling = telling, log = {}, kind = seed % 3 }, network)
  for name, text in pairs(texts) do
    n.names[text] = name
  end
  for number, text in pairs(client.scripts()) do
    n.names[("0"):rep(40 - #number) .. number] = n.names[text]
  end
  n.rate = 1 + (n.r:next() - 0.5) * 0.01
  for i = 1, 4 do
    n:join(i)
  end
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
-- lock long if anybody forgets it for them.
function network:join(i)
  self.joined = (self.joined or 0) + 1
  local node = { n = i, mortal = i % 2 == 0, epoch = 1, up = true,
    arrived = 0, answered = 0, flying = {}, subscription = 0, dead = {},
    machine = self.client.new(self.seed * 1000 + self.joined) }
  self.nodes[i] = node
  self:agent(node)
  if i == 1 then
    self:agent(node)
  end
  self:maybe_trouble(node)
end

-- ---- the server ----

local function parse(bytes)
  local commands, at = {}, 1
  while at <= #bytes do
    local count, after = bytes:match("^%*(%d+)\r\n()", at)
    local list = {}
    for i = 1, tonumber(count) do
      local size, from = bytes:match("^%$(%d+)\r\n()", after)
      list[i] = bytes:sub(from, from + size - 1)
      after = from + size + 2
    end
    commands[#commands + 1], at = list, after
  end
  return commands
end

local unpack = table.unpack or unpack

function network:tell_script(script, arguments, reply)
  if self.telling then
    local text = type(reply) == "table" and table.concat(reply, " ") or reply
    self:say("    server: %s %s: %s", script,
      (table.concat(arguments, " "):gsub("(%x%x%x%x)%x+:(%x%x%x%x)%x+:me",
      "%2/%1")), tostring(text):sub(1, 60))
  end
end

function network:command(list)
  local name = list[1]
  if name == "EVALSHA" and self:chance(0.01) then
    return { err = "NOSCRIPT No matching script." }
  elseif name == "EVAL" or name == "EVALSHA" then
    local count, keys, arguments = tonumber(list[3]), {}, {}
    for i = 4, #list do
      local to = i < 4 + count and keys or arguments
      to[#to + 1] = list[i]
    end
    local script = assert(self.names[list[2]], "an unknown script")
    local reply = self.db:eval(script, keys, arguments)
    self:tell_script(script, arguments, reply)
    return reply
  end
  return self.db:call(unpack(list))
end

function network:set_server_time()
  self.db.us = START + math.floor(self.now / 1000 * self.rate)
end

function network:execute(bytes)
  local replies, queued = {}, nil
  self:set_server_time()
  for _, list in ipairs(parse(bytes)) do
    if list[1] == "MULTI" then
      queued = {}
      replies[#replies + 1] = { ok = "OK" }
    elseif list[1] == "EXEC" then
      replies[#replies + 1], queued = queued, nil
    elseif queued then
      queued[#queued + 1] = self:command(list)
      replies[#replies + 1] = { ok = "QUEUED" }
    else
      replies[#replies + 1] = self:command(list)
    end
  end
  self:publish()
  return replies
end

function network:publish()
  local published = self.db.published
  self.db.published = {}
  for _, p in ipairs(published) do
    for _, node in ipairs(self.nodes) do
      if node.channel == p.channel and node.subscribed then
        self:send_message(node, p.text)
      end
    end
  end
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

function network:listeners(channel, change)
  local listeners = self.db.listeners
  listeners[channel] = math.max((listeners[channel] or 0) + change, 0)
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
    end
    self:listeners(node.channel, 1)
    node.subscribed = true
    self:at(self.now + self:between(0.1, 1) * MS, function()
      self:to(node, function()
        node.machine:heard()
      end)
    end)
  end)
end

function network:cut_subscription(node)
  if not node.subscribed then
    return
  end
  self:say("%d's subscription is cut", node.n)
  node.subscribed = false
  node.subscription = node.subscription + 1
  self:at(self.now + (self:chance(0.5) and 0 or self:between(0, 2) * SEC),
    function()
      self:listeners(node.channel, -1)
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

function network:arrive(node, epoch, id, bytes)
  if node.dead[epoch] then
    return
  end
  local replies = self:execute(bytes)
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

function network:flush(node)
  if not node.up then
    return
  end
  for _, id in ipairs(node.machine:requests()) do
    local bytes, epoch = node.machine:write(id), node.epoch
    node.flying[id] = true
    node.arrived = math.max(node.arrived, self.now + self:delay())
    self:at(node.arrived, function()
      self:arrive(node, epoch, id, bytes)
    end)
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
function network:refuse(node, id)
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
    elseif not self:healthy() and self:chance(0.3) then
      self:to(node, function()
        for _, id in ipairs(node.machine:requests()) do
          self:refuse(node, id)
        end
      end)
      return self:reconnect(node, epoch)
    end
    self:to(node, function()
      if self.lax ~= "kill" then
        node.dead[epoch] = true
      end
      node.epoch, node.up = epoch + 1, true
      node.arrived, node.answered = self.now, self.now
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
  until not events[1]
  self:subscribe(node)
end

function network:die(node)
  self:say("%d dies", node.n)
  node.gone = true
  node.machine:close()
  for _, agent in ipairs(node.agents) do
    agent.gone = true
    self.beliefs[agent] = nil
  end
  local epoch = node.epoch
  if node.subscribing then
    local subscribed = node.subscribed
    self:at(self.now + self:between(0, 1) * SEC, function()
      node.dead[epoch] = true
      if subscribed then
        self:listeners(node.channel, -1)
      end
    end)
  end
  self:at(self.now + self:between(0.1, 2) * SEC, function()
    self:join(node.n)
  end)
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
      node.stopped = self.now + self:between(0.05, 4) * SEC
      self:say("%d stands still until %.1f", node.n, node.stopped / MS)
    elseif what < 0.93 and node.mortal then
      return self:die(node)
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
  self:run(HEALTHY)
  self:check_stuck()
  self:run(HEALTHY + 12 * SEC)
  self:check_end()
end

-- One history: nil, or what went wrong, and what was told.
function network.history(client, texts, seed, lax, telling)
  local n = network.new(client, texts, seed, lax, telling)
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
