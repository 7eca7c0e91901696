-- The admission queue as one would explain it on paper: who holds, who waits,
-- in order, and one rule. No keys, no expiry tricks, no counters: only lists
-- that are walked from the front each time. The shipped scripts are compared
-- with it, step by step.
--
-- The rule. A request fits when nobody holds; or when all who hold share, it
-- is no exclusive one, and either nobody has a limit or all have the same and
-- the sum is within it. Who does not fit stops all behind. Who shares right
-- behind one that shares under another limit, holding or waiting, is refused.
-- A waiter that nobody can wake, or that was silent for too long, is passed
-- over and loses its place; so do those right before whoever comes or asks.
-- But when nobody was heard of for a while it is not their fault: each one that
-- can be woken keeps its place for a second more, once; unless it was to ask
-- before who asks now did so the last time. Who is let in by a request, or
-- passed over, was heard of as well.

local model = {}
model.__index = model

local QUEUE_KEPT = 60000
local KEPT_FOR = 8000
local SELDOM = 6000

-- listening(token): whether a message to that token would be read.
function model.new(listening)
  return setmetatable({ now = 0, holders = {}, queue = {}, queue_ends = 0,
    listening = listening }, model)
end

-- The time is now (ms): what is over is forgotten. An exclusive hold stands
-- to the very end of its last millisecond, a shared one to its beginning: the
-- server's expiry and our own comparison differ in that.
function model:at(now)
  self.now = now
  for i = #self.holders, 1, -1 do
    local h = self.holders[i]
    if h.units == 0 and now > h.ends or h.units > 0 and now >= h.ends then
      table.remove(self.holders, i)
    end
  end
  if now > self.queue_ends then
    self.queue = {}
  end
end

local function find(list, token)
  for i, item in ipairs(list) do
    if item.token == token then
      return item, i
    end
  end
end

function model:holder(token)
  return (find(self.holders, token))
end

function model:waiter(token)
  return find(self.queue, token)
end

function model:exclusive()
  return self.holders[1] and self.holders[1].units == 0 and self.holders[1]
end

function model:fits(units, cap)
  local used = 0
  for _, h in ipairs(self.holders) do
    if h.units == 0 or units == 0 or h.cap ~= cap then
      return false
    end
    used = used + h.units
  end
  return not self.holders[1] or cap == 0 or used + units <= cap
end

-- A new request, perhaps of one who waits.
local function begin(self, w)
  self.asked, self.still = w and w.seen or 0, nil
end

function model:lately(seen)
  return self.now - seen > 50 and self.now - seen <= 600
end

-- Nobody was heard of for a while: they are believed again.
local function silence(self)
  if self.still ~= nil then
    return self.still
  end
  self.still = not self:lately(self.asked)
  for _, w in ipairs(self.queue) do
    self.still = self.still and not self:lately(w.seen)
  end
  for _, w in ipairs(self.still and self.queue or {}) do
    if w.believed <= self.now and w.seen > 0 and self.listening(w.token) then
      if not w.noted then
        self.queue_ends = self.now + QUEUE_KEPT
      end
      w.believed, w.seen, w.noted = self.now + 1000, 0, true
    end
  end
  return self.still
end

function model:believed(w)
  return w.believed > self.now and self.listening(w.token)
end

function model:alive(w)
  if self.still == nil and self:lately(w.seen) then
    self.still = false
  end
  return self:believed(w)
    or w.seen > 0 and self.listening(w.token) and self.asked <= w.believed
      and silence(self)
end

local function hold(self, token, units, cap, ttl)
  self.holders[#self.holders + 1] = { token = token, units = units, cap = cap,
    ends = self.now + ttl }
end

-- Lets in who may come in; the tokens, in order. `mine` is there in person.
-- While an exclusive one holds nobody is looked at.
function model:admit(mine, ttl)
  local granted = {}
  while self.queue[1] and not self:exclusive() do
    local w, first = self.queue[1], not self.holders[1]
    if first then
      table.remove(self.queue, 1) -- it holds or is dead
    end
    if w.token ~= mine and not self:alive(w) then
      local _ = first or table.remove(self.queue, 1)
    elseif not self:fits(w.units, w.cap) then
      break
    else
      local _ = first or table.remove(self.queue, 1)
      hold(self, w.token, w.units, w.cap, w.token == mine and ttl or w.claim)
      granted[#granted + 1] = w.token
    end
  end
  return granted
end

local function enter(self, w)
  local place = #self.queue + 1
  while place > 1 do
    local other = self.queue[place - 1]
    if other.order < w.order
        or other.order == w.order and other.token < w.token then
      break
    end
    place = place - 1
  end
  table.insert(self.queue, place, w)
end

-- Whether more is to be known of a request than its order: see standing.lua.
local function is_special(self, r, us)
  local last = self.queue[#self.queue]
  return r.order or r.units > 0 or r.believe ~= 1000 or r.claim ~= 1000
    or last and last.order >= us
end

-- Whether who asks again leaves it to those before it to keep the queue: it
-- asks seldom, and waits behind one that is noted and believed by its own word,
-- while another one holds alone.
local function leaves_it(self, r)
  local _, place = self:waiter(r.token)
  local before = place and self.queue[place - 1]
  return before and r.how == "refresh" and r.believe > SELDOM
    and self:exclusive() and before.noted and before.seen > 0
    and self:believed(before)
    and not (r.units > 0 and before.units > 0 and before.cap ~= r.cap)
end

-- Who comes finds the queue kept for a minute more if he is the first in a span
-- of time, who asks again if that is over soon, and who gets a note.
local function keeps_queue(self, r, w, noted)
  local last = self.queue[#self.queue]
  if w and w.noted then
    return self.queue_ends - self.now < QUEUE_KEPT - KEPT_FOR
      and not leaves_it(self, r)
  end
  return noted or not last or math.floor(last.order / 1000 / KEPT_FOR)
    ~= math.floor(self.now / KEPT_FOR)
end

local function queue_up(self, r, us)
  local w, last = self:waiter(r.token), self.queue[#self.queue]
  local noted = w or is_special(self, r, us)
  if keeps_queue(self, r, w, noted) then
    self.queue_ends = self.now + QUEUE_KEPT
  end
  if not w then
    w = { token = r.token, units = r.units, cap = r.cap, order = r.order
      or math.max(last and last.order + 1 or 0, us) }
    enter(self, w)
  end
  w.claim, w.believed, w.seen = r.claim, self.now + r.believe, self.now
  w.noted = noted
end

-- Whether the one before the request at that place of the queue shares under
-- another limit, as far as one can tell: the dead say nothing.
function model:other_limit(r, place)
  local before = self.queue[place - 1]
  if r.units == 0 then
    return false
  elseif before then
    before = self:alive(before) and before
  else
    before = self.holders[1]
  end
  return before and before.units > 0 and before.cap ~= r.cap
end

-- Those right before a place of the queue; returns what place it is then.
local function drop_dead(self, place)
  while place and place > 1 and not self:alive(self.queue[place - 1]) do
    place = place - 1
    table.remove(self.queue, place)
  end
  return place
end

-- r: token, units, cap, ttl, how, claim, believe, order. Returns got, busy,
-- wait, gone or limit, and the tokens from the queue that were let in.
function model:acquire(r, us)
  local held = self:holder(r.token)
  begin(self, self:waiter(r.token))
  if held then
    held.ends = math.max(held.ends, self.now + r.ttl)
    return "got", {}
  elseif r.how == "refresh" and not self:waiter(r.token) then
    return "gone", {}
  elseif not self.queue[1] and self:fits(r.units, r.cap) then
    hold(self, r.token, r.units, r.cap, r.ttl)
    return "got", {}
  end
  if r.how ~= "try" then
    queue_up(self, r, us)
  end
  local granted = self:admit(r.token, r.ttl)
  local _, place = self:waiter(r.token)
  place = drop_dead(self, place)
  if self:holder(r.token) then
    return "got", granted
  elseif self:other_limit(r, place or #self.queue + 1) then
    if place then
      table.remove(self.queue, place)
      for _, token in ipairs(self:admit()) do
        granted[#granted + 1] = token
      end
    end
    return "limit", granted
  elseif r.how ~= "try" then
    return "wait", granted
  elseif not self.queue[1] and self:fits(r.units, r.cap) then
    hold(self, r.token, r.units, r.cap, r.ttl)
    return "got", granted
  end
  return "busy", granted
end

-- What any client can do with SET NX PX, whoever waits.
function model:set_if_free(token, ttl)
  if self.holders[1] then
    return false
  end
  hold(self, token, 0, 0, ttl)
  return true
end

-- Returns whether it held, and whom that let in. rest: ms for which the hold
-- must still last.
function model:leave(token, rest)
  begin(self)
  local _, place = self:waiter(token)
  if place then
    table.remove(self.queue, place)
  end
  local held, at = find(self.holders, token)
  if held and rest > 0 then
    held.ends = self.now + rest
  elseif held then
    table.remove(self.holders, at)
  end
  return held ~= nil, self:admit()
end

-- An exclusive hold becomes a reader's until the same time.
function model:downgrade(token)
  begin(self)
  local held = self:holder(token)
  if not held then
    return false, {}
  end
  held.units, held.cap = 1, 0
  held.ends = math.max(held.ends, self.now + 1)
  return true, self:admit()
end

-- It ends exactly then, or at the earliest.
function model:renew(token, ttl, exactly)
  local held = self:holder(token)
  if not held then return -1 end
  local left, ends = held.ends - self.now, self.now + ttl
  held.ends = exactly and ends or math.max(held.ends, ends)
  return left
end

-- A foreign DEL, a break, a FLUSHALL.
function model:void_holders()
  begin(self)
  self.holders = {}
end

function model:void_queue()
  self.queue = {}
end

return model
