-- Fences of two servers that serve one key at the same time, as in a failover
-- while some clients have gone to the new primary and others not yet: random
-- histories of clients that go from one modelled Redis to the other, with the
-- shipped script and the plain INCR, of servers that lose their last writes or
-- all data, on one clock.
--
-- What must hold of each grant: its fence is above all that this server gave;
-- above all that *either* gave before anybody last raised this server's counter
-- to the clock (the first request on a connection does); and not beyond the
-- clock. So a fence falls only below one that the other server gave since then.
-- That this happens, and ends with the next who comes, is looked at as well.
--
-- In every other history the clients use wait_replicas: a replica follows one
-- of the servers, a grant counts only there, and so does the lift. It goes to
-- the other one some time after that was made the primary. Then no fence falls.
--
--   DLOCK_SIM=100000 ...   that many histories
--   DLOCK_SIM_SEED=n       the history n alone

local histories = require "spec.sim.histories"
local redis_model = require "spec.sim.redis_model"
local seeds = require "spec.sim.seeds"

local COUNT, LENGTH = tonumber(os.getenv("DLOCK_SIM")) or 100, 60
local CLIENTS, START = 4, 1.7e15

local function copy(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = copy(v) end
  return out
end

-- ---- the world ----

local world = {}
world.__index = world

-- made: what is the same in all histories.
function world.new(made, waits)
  local w = setmetatable({ keys = made.keys, servers = {}, clients = {},
    log = {}, us = START, drawn = 0, highest = 0, fell = 0, waits = waits,
    careless = made.careless }, world)
  for i, db in ipairs(made.dbs) do
    db:reset(START)
    w.servers[i] = { db = db, name = i, highest = 0, above = 0, saved = {} }
  end
  for i = 1, CLIENTS do w.clients[i] = { name = i, at = w.servers[1] } end
  w.followed = w.servers[1]
  return w
end

function world:say(...)
  if not self.telling then return end
  self.log[#self.log + 1] = ("%.1f  "):format((self.us - START) / 1000)
    .. string.format(...)
end

function world:pass(a)
  self.us = self.us + 137 + math.floor(a ^ 4 * 1e5)
  for _, s in ipairs(self.servers) do s.db.us = self.us end
end

-- All who are connected to it have new connections then.
function world:lose(s, data)
  s.db.keys = copy(data)
  for _, c in ipairs(self.clients) do
    if c.at == s then c.lifted = false end
  end
end

-- The other server is made the primary; it was none before, so nobody is
-- connected to it. Or the replica goes to it, if that was done.
function world:fail_over()
  local other = self.servers[3 - self.followed.name]
  if other.promoted then
    self.followed.promoted, self.followed = false, other
    self:say("the replica goes to server %d", other.name)
  else
    other.promoted = true
    self:lose(other, other.db.keys)
    self:say("server %d is made the primary", other.name)
  end
end

-- The first request on a connection lifts; the small script never does.
function world:acquire(c, a)
  self.drawn = self.drawn + 1
  local token = ("%032d:%016d:me"):format(self.drawn, c.name)
  local db, lifts = c.at.db, not c.lifted
  if not lifts and a < 0.7 then
    local got = db:eval("take", self.keys.take, { token, 1000 })
    if got then return type(got) == "number" and got, false end
  end
  local got = db:eval("join", self.keys.join, { token, 1000, 0, 0, 1000, 1000,
    "", math.floor(a * 8), 600000, lifts and 1 or 0 })
  db:call("DEL", "q", "w") -- nobody waits
  local fence = got[1] == "got" and got[2]
  local sure = self:counts(c.at) or self.careless
  c.lifted = c.lifted or fence and sure -- else it asks so again
  return fence, lifts
end

-- Whether what it gives counts.
function world:counts(s) return not self.waits or s == self.followed end

function world:granted(c, fence, lifted)
  local s = c.at
  local clock = 1e12 + math.floor((self.us / 1000 - 1.6e12) * 64)
  self:say("client %d, server %d: fence %.0f%s", c.name, s.name, fence,
    lifted and ", lifted" or "")
  if lifted then s.above = self.highest end
  if fence <= s.highest then return "a server's fence falls" end
  if fence <= s.above then return "a fence is below one before the lift" end
  if fence > clock then return "a fence is beyond the clock" end
  if self.waits and fence <= self.highest then return "a fence falls" end
  if fence <= self.highest then self.fell = self.fell + 1 end
  s.highest = fence
  self.highest = math.max(self.highest, fence)
end

function world:step(numbers)
  local c = self.clients[1 + math.floor(numbers[1] * CLIENTS)]
  local s, what = c.at, numbers[2]
  self:pass(numbers[3])
  if what < 0.7 then
    local fence, lifted = self:acquire(c, numbers[4])
    local counts = self:counts(s)
    if fence and (numbers[5] < 0.8 or not counts) then
      s.db:call("DEL", "lock")
    end
    return fence and counts and self:granted(c, fence, lifted) or nil
  elseif what < 0.9 then
    c.at, c.lifted = self.servers[numbers[4] < 0.5 and 1 or 2], false
    self:say("client %d goes to server %d", c.name, c.at.name)
  elseif what < 0.94 and self.waits then
    self:fail_over()
  elseif what < 0.94 then
    s.saved = copy(s.db.keys)
  elseif what < 0.98 then
    self:lose(s, s.saved)
    self:say("server %d loses its last writes", s.name)
  else
    self:lose(s, {})
    self:say("server %d loses all", s.name)
  end
end

-- careless: a lift that no replica has counts.
local function player(texts, careless)
  local fell, made = 0, { keys = redis_model.keys(texts),
    careless = careless,
    dbs = { redis_model.new(texts, START), redis_model.new(texts, START) } }
  local function play(steps, seed, telling)
    local w, wrong = world.new(made, seed % 2 == 1), nil
    w.telling = telling
    for _, numbers in ipairs(steps) do
      wrong = wrong or w:step(numbers)
    end
    fell = fell + w.fell
    return wrong, w.log
  end
  local function tell(steps, seed)
    return select(2, play(steps, seed, true))
  end
  return play, tell, function() return fell end
end

describe("two servers that serve at one time, simulated:", function()
  local texts, bare = redis_model.texts()

  it("a fence falls only below what the other gave since the last lift",
  function()
    local play, tell, fell = player(texts)
    local first, count = seeds.draw("primaries", COUNT)
    assert.is_nil(histories.run(first, count, LENGTH, play, tell))
    assert.is_true(seeds.again ~= nil or fell() > 0)
  end)

  local function notices(play)
    for seed = 1, 400 do
      if play(histories.make(seed, LENGTH, 6), seed) then return end
    end
    error("not noticed")
  end

  it("would notice a first request that does not lift", function()
    local find = bare("lift or f < FIRST")
    local broken = copy(texts)
    assert.is_truthy(texts.join:find(find, 1, true))
    broken.join = texts.join:gsub(find, "f < FIRST")
    notices(player(broken))
  end)

  it("would notice that a lift counts which no replica has", function()
    notices(player(texts, true))
  end)
end)
