-- One key on a modelled Redis, with clients, a foreign one and an
-- administrator, driven by the steps of a history. Each step does the same
-- thing by the shipped scripts and by the plain queue, compares what came
-- out, and then looks at what is left on the server.
--
-- Looked at after each step, on the server's data alone: never over capacity,
-- exclusive excludes, shared holders keep the lock's key occupied, units add
-- up, queue and waiters agree, everything has an expiry; and with the plain
-- queue: the same holders until the same times, the same waiters in the same
-- order, the same grants, each published once to the waiter's own channel.
-- Besides: fences rise; nobody is let in past a waiter that lives and came
-- before, but by a plain SET NX right after an expiry or a foreign DEL; after
-- a script that hands on, the first waiter that lives does not fit.

local actions = require "spec.sim.redis_actions"
local checks = require "spec.sim.redis_checks"
local queue_model = require "spec.sim.queue_model"
local redis_model = require "spec.sim.redis_model"

local world = {}
world.__index = world

local KEYS = { L = "lock", F = "f", Q = "q", W = "w", H = "h", P = "p" }
local CLIENTS = 4
local START = 1.7e15
local MEMORY = 600000 -- ms for which a counter stays after its last use

local function wrong(...)
  error({ wrong = string.format(...) }, 0)
end

world.wrong = wrong

local function digits(n)
  return string.format("%.0f", n)
end

local function channel(client)
  return "~dlock:c:" .. client
end

world.channel = channel

-- ---- making ----

function world.new(db, keys, kind, telling)
  db:reset(START)
  local w = setmetatable({ db = db, script_keys = keys, telling = telling,
    log = {}, tokens = {}, clients = {},
    lifted = {}, fence = 0, drawn = 0, kind = kind,
    cap = 2 + kind % 3 }, world)
  w.plain = queue_model.new(function(token)
    return (db.listeners[channel(token:sub(34, 49))] or 0) > 0
  end)
  for i = 1, CLIENTS do
    w:connect(i)
  end
  w:pass(1)
  return w
end

function world:connect(i)
  self.drawn = self.drawn + 1
  local client = ("%016d"):format(self.drawn)
  self.clients[i] = client
  self.db.listeners[channel(client)] = 1
end

function world:say(...)
  if not self.telling then
    return
  end
  local ms = digits(self.db:now() - START / 1000)
  self.log[#self.log + 1] = ms .. "  " .. string.format(...)
end

-- Lets ms pass, and a little.
function world:pass(ms)
  self.db.us = self.db.us + ms * 1000 + 137
  local holders = #self.plain.holders
  self.plain:at(self.db:now())
  if #self.plain.holders < holders then
    self.freed = true
  end
end

-- The key of shared holders stands one millisecond longer than they do. Who
-- knows only the key waits for that.
function world:pass_edge()
  local lock = self.db:find(KEYS.L)
  if lock and lock.ends == self.db:now() then
    self:pass(1)
  end
end

-- What is asked for, by the kind of history: mutex, read and write, permits,
-- permits of changing number, or all at once.
function world:want(a)
  local kind = self.kind % 5
  if kind == 4 then
    kind = math.floor(a * 3.99)
    a = a * 3.99 % 1
  end
  if kind == 0 then
    return 0, 0
  elseif kind == 1 then
    return a < 0.3 and 0 or 1, 0
  end
  local cap = self.cap
  if kind == 3 and a > 0.8 then
    cap = cap + 1
  end
  return 1 + math.floor(a * 997 % 1 * cap), cap
end

function world:token(a, units, cap)
  self.drawn = self.drawn + 1
  local client = self.clients[1 + math.floor(a * CLIENTS)]
  local t = { name = ("%032d:%s:me"):format(self.drawn, client),
    client = client, n = self.drawn, units = units, cap = cap,
    state = "new", ttl = 50 + math.floor(a * 7919 % 1 * 3000) }
  self.tokens[#self.tokens + 1] = t
  self.tokens[t.name] = t
  return t
end

-- A token in that state, or nil. Those of clients that are gone ask nothing.
function world:pick(a, state, dead)
  local list = {}
  for _, t in ipairs(self.tokens) do
    local may = dead or self.db.listeners[channel(t.client)]
    if t.state == state and may then
      list[#list + 1] = t
    end
  end
  return list[1 + math.floor(a * #list)]
end

-- ---- comparing ----

function world:fence_given(f)
  if type(f) ~= "number" or f <= self.fence then
    wrong("fence %s after %s", tostring(f), digits(self.fence))
  end
  if f >= 1e14 then
    wrong("fence %s is too long", digits(f))
  end
  self.fence = f
end

-- Whoever waits, lives and came before `order`, but for those in `granted`.
function world:overtaken(order, token)
  for _, t in ipairs(self.tokens) do
    local place = t.waits and t.name ~= token and t.order < order
    if place and t.believed > self.db:now()
        and self.db.listeners[channel(t.client)] then
      return t
    end
  end
end

function world:let_in(t, order)
  local passed = self:overtaken(order, t.name)
  if passed then
    wrong("#%d was let in past #%d", t.n, passed.n)
  end
  t.waits = false
end

-- The hand-offs of the last script against the plain queue's. The one who
-- asked is not told by a message. Returns whether it was let in, too.
function world:compare_grants(granted, mine, fence)
  local published, asked = {}, false
  for _, p in ipairs(self.db.published) do
    published[#published + 1] = p.text:find("^g ") and p or nil
  end
  self.db.published = {}
  for _, name in ipairs(granted) do
    if mine and name == mine.name then
      self:fence_given(fence)
      self:let_in(mine, mine.order or math.huge)
      asked = true
    else
      self:handed(name, table.remove(published, 1))
    end
  end
  if published[1] then
    wrong("a hand-off too many: %s", published[1].text)
  end
  return asked
end

function world:handed(name, message)
  local t = self.tokens[name]
  if not message then
    wrong("#%d was let in, and nobody told it", t.n)
  end
  local fence, token = message.text:match("^g (%d+) (%S+)$")
  if token ~= name or message.channel ~= channel(name:sub(34, 49)) then
    wrong("hand-off %s to %s, due to %s", message.text, message.channel, name)
  end
  self:say("    handed to #%d", t.n)
  self:fence_given(tonumber(fence))
  self:let_in(t, t.order)
  if self.db:call("PTTL", KEYS.F) < MEMORY then
    wrong("the counter may be gone before who is handed the lock")
  end
  if t.state == "queued" then
    t.state = "held"
  end
end

-- Whether `client` may send a plain INCR: see fence.c.
function world:plain_will_do(client)
  return (self.lifted[client] or 0) >= self.db:now() + MEMORY
end

-- The last arguments of a script that raises the counter.
function world:memory_of(client)
  return MEMORY * 9 / 8, self.lifted[client] and 0 or 1
end

-- Its answer says that the counter was lifted; or that its time was set, too.
function world:was_lifted(client, stays)
  if stays and self.db:call("PTTL", KEYS.F) < MEMORY * 17 / 16 then
    wrong("the counter's time was not set")
  end
  self.lifted[client] = stays and self.db:now() + MEMORY * 17 / 16
    or self.lifted[client] or 0
end

function world:lose()
  self.db.keys = {}
  self.plain:void_holders()
  self.plain:void_queue()
  for _, t in ipairs(self.tokens) do
    t.waits = false
  end
end

-- The server starts again, with the counter as it once was (it was saved when
-- nobody held the lock), and every client connects anew.
function world:restart(counter)
  self:lose()
  self.db.keys[KEYS.F] = counter
  self.lifted = {}
end

function world:eval(name, arguments)
  local reply = self.db:eval(name, self.script_keys[name], arguments)
  if type(reply) == "table" and reply.err then
    wrong("%s: %s", name, reply.err)
  end
  return reply
end

function world:compare_wait(t, reply)
  local w, rank = self.plain:waiter(t.name)
  if not w then
    wrong("#%d waits, but not in the plain queue", t.n)
  end
  if reply[4] ~= digits(w.order) or reply[5] ~= rank - 1 then
    wrong("#%d: order %s rank %s, due %s and %d", t.n, reply[4],
      tostring(reply[5]), digits(w.order), rank - 1)
  end
  t.order, t.believed, t.waits = w.order, w.believed, true
  t.state = "queued"
end

-- Its grant: a fence, and some above it that are set aside and may be given as
-- well. queued: it was seen among the hand-offs; had: it held before.
function world:got(t, reply, spare, queued, had)
  if not queued then
    self:fence_given(reply[2])
  end
  if not queued and not had then
    self:let_in(t, t.order or math.huge)
  end
  local aside = reply[3] or 0 -- a try sets none aside
  if aside < 0 or aside > spare then
    wrong("%s fences are set aside, asked for %d", aside, spare)
  end
  self.fence = self.fence + aside
  t.state = "held"
end

-- For how long one that asks is to be believed to live: mostly the least; now
-- and then so long as one that asks seldom.
local function believe(a)
  return 1000 + math.floor(math.max(a - 0.5, 0) * 10000
    + math.max(a - 0.85, 0) * 120000)
end

-- Its arguments, as the client writes them.
function world:arguments_of(t, r, spare)
  local list = { t.name, t.ttl, t.units, t.cap }
  if r.how ~= "try" then
    for _, v in ipairs { r.claim, r.believe,
        t.order and digits(t.order) or "", spare } do
      list[#list + 1] = v
    end
  end
  list[#list + 1], list[#list + 2] = self:memory_of(t.client)
  return list
end

-- One of the scripts try, join and refresh, against the plain queue.
function world:acquire(t, how, a)
  local r = { token = t.name, ttl = t.ttl, units = t.units, cap = t.cap,
    how = how, claim = math.min(t.ttl, 1000),
    believe = believe(a), order = t.order }
  self:say("#%d %s units %d of %d, ttl %d", t.n, how, t.units, t.cap, t.ttl)
  local had = self.plain:holder(t.name)
  local spare = t.units == 0 and math.floor(a * 31 % 1 * 3) * 500 or 0
  local reply = self:eval(how, self:arguments_of(t, r, spare))
  local due, granted = self.plain:acquire(r, self.db.us)
  if reply[1] ~= due then
    wrong("#%d: %s, due %s", t.n, tostring(reply[1]), due)
  end
  self:say("    %s", due)
  if due == "gone" or due == "limit" then
    t.waits = false -- before those behind it are let in
  end
  local queued = self:compare_grants(granted, t, reply[2])
  if due == "got" then
    self:was_lifted(t.client, true)
    self:got(t, reply, spare, queued, had)
  end
  if due == "wait" or due == "busy" or due == "limit" then
    self.freed = false
  end
  if due == "wait" then
    self:compare_wait(t, reply)
  elseif due ~= "got" then
    t.state = "over"
  end
  return due
end

function world:leave(t, rest)
  local reply = self:eval("leave", { t.name, rest,
    self:memory_of(t.client) })
  reply = type(reply) == "number" and { reply, 0, 0 } or reply
  local held, granted = self.plain:leave(t.name, rest)
  t.waits, t.state = false, "over"
  if (reply[1] == 1) ~= held then
    wrong("leave of #%d: %s, due %s", t.n, tostring(reply[1]), tostring(held))
  end
  if reply[3] == 1 then
    self:was_lifted(t.client)
  end
  if reply[2] ~= 0 then
    wrong("leave of #%d wants to be called again", t.n)
  end
  self:compare_grants(granted)
  self.freed = false
end

-- exactly: an extension, else a renewal.
function world:renew(t, ttl, exactly)
  local left = self:eval("renew", { t.name, ttl, digits(self.fence), 0,
    exactly and 1 or 0, MEMORY * 9 / 8 })
  local due = self.plain:renew(t.name, ttl, exactly)
  self:say("#%d %s %d: %d", t.n, exactly and "extends by" or "renews", ttl,
    left)
  if left ~= due then
    wrong("renewal of #%d: %s left, due %s", t.n, tostring(left),
      tostring(due))
  end
  if left < 0 then
    t.state = "over"
  end
end

function world:check()
  checks.holders(self)
  checks.queue(self)
  checks.head(self)
  local f = self.db:find(KEYS.F)
  if f and (not f.ends or f.ends > self.db:now() + MEMORY * 9 / 8 + 1000) then
    wrong("the fence counter stays for ever")
  end
  for _, h in ipairs(self.plain.holders) do
    if f and f.ends and h.token:find(":me", 1, true) and f.ends < h.ends then
      wrong("the fence counter ends before a hold")
    end
  end
end

-- When everybody has died, nothing stays.
function world:drain()
  self.db.listeners = {}
  if self.db:call("PTTL", KEYS.L) == -1 then
    self.db:call("DEL", KEYS.L)
    self.plain:void_holders()
  end
  self:pass(70000)
  self:check()
  for _, name in ipairs(self.db:names()) do
    if name ~= KEYS.F then
      wrong("%s is left behind", name)
    end
  end
  self:pass(MEMORY * 9 / 8)
  local f = self.db:find(KEYS.F)
  if f and not self:may_stay(f) then
    wrong("the fence counter is left behind: %s",
      self.db:call("GET", KEYS.F))
  end
end

function world:step(numbers)
  local at = numbers[1] * actions.total
  self:pass(1 + math.floor(numbers[6] * 2))
  for _, item in ipairs(actions.list) do
    at = at - item.weight
    if at < 0 then
      item.run(self, numbers[2], numbers[3], numbers[4], numbers[5])
      break
    end
  end
  self:check()
end

-- ---- histories ----

local function play(db, keys, steps, seed, telling)
  local w = world.new(db, keys, seed, telling)
  local ok, problem = pcall(function()
    for _, step in ipairs(steps) do
      w:step(step)
    end
    w:drain()
  end)
  if ok then
    return nil, w
  elseif type(problem) == "table" and problem.wrong then
    return problem.wrong, w
  end
  error(problem, 0)
end

-- A function for histories.run, and one that tells what happened.
function world.player(texts)
  local db = redis_model.new(texts, START)
  local keys = redis_model.keys(texts)
  return function(steps, seed)
    return (play(db, keys, steps, seed))
  end, function(steps, seed)
    local _, w = play(db, keys, steps, seed, true)
    return w.log
  end
end

return world
