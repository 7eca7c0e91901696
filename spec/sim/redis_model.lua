-- A Redis in plain Lua: the commands that dlock's server scripts use, on a
-- clock that the test moves, so that the shipped scripts run in a simulation
-- a hundred thousand times a minute and nothing in it is left to chance.
--
-- What it must get right is what the scripts lean on: a key with an expiry
-- lives until its time has *passed* (at the very millisecond it still stands,
-- with a PTTL of 0); PEXPIRE of nothing left deletes; empty collections
-- vanish with their expiry; scores are doubles and come back as text; numbers
-- given to redis.call become text by "%.17g"; a script's numbers are cut to
-- integers on the way out; an array ends at its first nil; scripts see no
-- clock but TIME and cannot make globals. What the model does not know it
-- refuses loudly. spec/sim/model_spec compares it with a real server.

local sandbox = require "spec.sim.redis_sandbox"

local model = {}
model.__index = model

local unpack = table.unpack or unpack
local SCRIPTS = "csrc/store/redis/scripts"
local EMBED = "csrc/store/redis/embed.lua"

-- ---- the scripts, as the library carries them ----

local function run_file(path, arguments)
  local env = setmetatable({ arg = arguments }, { __index = _G })
  if setfenv then
    return setfenv(assert(loadfile(path)), env)()
  end
  return assert(loadfile(path, "t", env))()
end

-- The texts and their digests by name, as C would read them in the header.
function model.read(header)
  local texts, digests, name = {}, {}, nil
  local escapes = { n = "\n", ["?"] = "?", ["\\"] = "\\", ['"'] = '"' }
  for line in io.lines(header) do
    name = line:match("dlk_script_([%w_]+)%[%] =$") or name
    local quoted = line:match('^%s*"(.*)";?$')
    if name and quoted then
      texts[name] = (texts[name] or "") .. quoted:gsub("\\(.)", escapes)
    elseif name then
      digests[name] = line:match('_sha "(%x+)"$') or digests[name]
    end
  end
  return texts, digests
end

-- The texts by name: embed.lua makes the header, as in the build, and what C
-- would read in it is what travels to the server. The header stays if a path
-- is given. Returns as well what makes code look as it does in the texts, and
-- the texts' digests.
function model.texts(keep)
  local header = keep or os.tmpname()
  local bare = run_file(EMBED, { [0] = EMBED, SCRIPTS, header })
  local texts, digests = model.read(header)
  if not keep then
    os.remove(header)
  end
  return texts, function(code)
    return (code:gsub("[^\n]+", bare))
  end, digests
end

local PARTS = { lock = "lock", fence = "f", queue = "q", waiters = "w",
  holders = "h", permits = "p", info = "i", news = "n" }

-- Which keys each script is given, by its head: "-- KEYS: lock, fence". Its
-- form for clusters is given the same.
function model.keys(texts)
  local keys = {}
  for name in pairs(texts) do
    keys[name] = {}
    local file = name:gsub("_cluster$", ""):gsub("_shard$", "")
    for line in io.lines(SCRIPTS .. "/" .. file .. ".lua") do
      for word in (line:match("^%-%- KEYS: (.*)") or ""):gmatch("%a+") do
        keys[name][#keys[name] + 1] = PARTS[word]
      end
    end
  end
  return keys
end

-- ---- values ----

local function text_of(v)
  assert(type(v) == "string" or type(v) == "number",
    "redis.call takes strings and numbers")
  return type(v) == "number" and string.format("%.17g", v) or v
end

local function fail(text)
  error({ err = text }, 0)
end

local function integer(v)
  if not v:find("^-?%d+$") then
    fail("ERR value is not an integer or out of range")
  end
  return tonumber(v)
end

local function float(v)
  local n = v == "-inf" and -math.huge or v == "+inf" and math.huge
    or tonumber(v)
  if not n or n ~= n then
    fail("ERR value is not a valid float")
  end
  return n
end

function model:now() return math.floor(self.us / 1000) end

function model:find(key, kind)
  local entry = self.keys[key]
  if entry and entry.ends and self:now() > entry.ends then
    self.keys[key] = nil
    entry = nil
  end
  if entry and kind and entry.kind ~= kind then
    fail("WRONGTYPE Operation against a key holding the wrong kind of value")
  end
  return entry
end

function model:make(key, kind)
  local entry = self:find(key, kind)
  if not entry then
    entry = { kind = kind, at = {}, list = kind == "zset" and {} or nil,
      count = 0 }
    self.keys[key] = entry
  end
  return entry
end

-- Sorted by score, then by bytes.
local function before(a, b)
  if a.score ~= b.score then
    return a.score < b.score
  end
  return a.member < b.member
end

local function position(entry, item)
  local low, high = 1, #entry.list + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(entry.list[middle], item) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function zset_remove(entry, member)
  local item = entry.at[member]
  if not item then
    return 0
  end
  table.remove(entry.list, position(entry, item))
  entry.at[member] = nil
  return 1
end

-- ---- commands ----

local commands = {}

function commands.GET(db, key)
  local entry = db:find(key, "string")
  return entry and entry.value or false
end

function commands.SET(db, key, value, ...)
  local options, nx, px, keep = { ... }, false, nil, nil
  local i = 1
  while options[i] do
    if options[i] == "NX" then
      nx = true
    elseif options[i] == "KEEPTTL" then
      keep = db:find(key)
    elseif options[i] == "PX" then
      i = i + 1
      px = integer(options[i])
      local _ = px > 0 or fail("ERR invalid expire time in 'set' command")
    else
      fail("ERR syntax error")
    end
    i = i + 1
  end
  if nx and db:find(key) then
    return false
  end
  db.keys[key] = { kind = "string", value = value,
    ends = px and db:now() + px or keep and keep.ends }
  return { ok = "OK" }
end

function commands.DEL(db, ...)
  local n = 0
  for _, key in ipairs({ ... }) do
    n = n + (db:find(key) and 1 or 0)
    db.keys[key] = nil
  end
  return n
end

function commands.EXISTS(db, ...)
  local found = 0
  for _, key in ipairs { ... } do
    found = found + (db:find(key) and 1 or 0)
  end
  return found
end

function commands.INCRBY(db, key, by)
  local entry = db:make(key, "string")
  entry.value = string.format("%.0f", integer(entry.value or "0") + integer(by))
  return tonumber(entry.value)
end

function commands.INCR(db, key) return commands.INCRBY(db, key, "1") end

function commands.PEXPIRE(db, key, ms)
  local entry = db:find(key)
  ms = integer(ms)
  if not entry then
    return 0
  elseif ms <= 0 then
    db.keys[key] = nil
  else
    entry.ends = db:now() + ms
  end
  return 1
end

function commands.PTTL(db, key)
  local entry = db:find(key)
  if not entry then
    return -2
  end
  return entry.ends and entry.ends - db:now() or -1
end

function commands.TIME(db)
  return { string.format("%.0f", math.floor(db.us / 1000000)),
    string.format("%.0f", db.us % 1000000) }
end

function commands.ZADD(db, key, ...)
  local list, added = { ... }, 0
  local entry = db:make(key, "zset")
  if list[1] == "NX" then
    table.remove(list, 1)
    if entry.at[list[2]] then return 0 end
  end
  for i = 1, #list, 2 do
    local score, member = float(list[i]), list[i + 1]
    added = added + 1 - zset_remove(entry, member)
    local item = { score = score, member = member }
    entry.at[member] = item
    table.insert(entry.list, position(entry, item), item)
  end
  return added
end

function commands.ZREM(db, key, ...)
  local entry, n = db:find(key, "zset"), 0
  for _, member in ipairs({ ... }) do
    n = n + (entry and zset_remove(entry, member) or 0)
  end
  if entry and not entry.list[1] then
    db.keys[key] = nil
  end
  return n
end

local function members(entry, first, last, scores)
  local out = {}
  for i = first, last do
    local item = entry.list[i]
    out[#out + 1] = item.member
    if scores then
      out[#out + 1] = text_of(item.score)
    end
  end
  return out
end

function commands.ZRANGE(db, key, first, last, option)
  local entry = db:find(key, "zset")
  if option and option ~= "WITHSCORES" then
    fail("ERR syntax error")
  elseif not entry then
    return {}
  end
  local n = #entry.list
  first, last = integer(first), integer(last)
  first = math.max(first < 0 and first + n or first, 0)
  last = math.min(last < 0 and last + n or last, n - 1)
  return members(entry, first + 1, last + 1, option)
end

function commands.ZPOPMIN(db, key)
  local first = commands.ZRANGE(db, key, "0", "0", "WITHSCORES")
  local _ = first[1] and commands.ZREM(db, key, first[1])
  return first
end

-- Without "(" and offsets: no script asks for them.
function commands.ZRANGEBYSCORE(db, key, low, high, word, offset, limit)
  local entry = db:find(key, "zset")
  low, high = float(low), float(high)
  if word and (word ~= "LIMIT" or offset ~= "0") then
    fail("ERR syntax error")
  end
  limit = limit and integer(limit) or math.huge
  local out = {}
  for _, item in ipairs(entry and entry.list or {}) do
    if item.score >= low and item.score <= high and #out < limit then
      out[#out + 1] = item.member
    end
  end
  return out
end

function commands.ZRANK(db, key, member)
  local entry = db:find(key, "zset")
  local item = entry and entry.at[member]
  return item and position(entry, item) - 1 or false
end

function commands.ZSCORE(db, key, member)
  local entry = db:find(key, "zset")
  local item = entry and entry.at[member]
  return item and text_of(item.score) or false
end

function commands.HSET(db, key, ...)
  local list, added = { ... }, 0
  local entry = db:make(key, "hash")
  for i = 1, #list, 2 do
    if not entry.at[list[i]] then
      added = added + 1
    end
    entry.at[list[i]] = assert(list[i + 1], "HSET: odd number of arguments")
  end
  entry.count = entry.count + added
  return added
end

function commands.HGET(db, key, field)
  local entry = db:find(key, "hash")
  return entry and entry.at[field] or false
end

function commands.HMGET(db, key, ...)
  local entry, out = db:find(key, "hash"), {}
  for i, field in ipairs({ ... }) do
    out[i] = entry and entry.at[field] or false
  end
  return out
end

function commands.HDEL(db, key, ...)
  local entry, n = db:find(key, "hash"), 0
  for _, field in ipairs({ ... }) do
    if entry and entry.at[field] then
      entry.at[field] = nil
      n = n + 1
    end
  end
  if entry then
    entry.count = entry.count - n
    if entry.count == 0 then
      db.keys[key] = nil
    end
  end
  return n
end

function commands.PUBLISH(db, channel, text)
  local listeners = db.listeners[channel] or 0
  local replicated = db.replicates and (db.elsewhere[channel] or 0) > 0
  if listeners > 0 or replicated then
    db.published[#db.published + 1] = { channel = channel, text = text,
      replicated = replicated or nil, unheard = listeners == 0 or nil }
  end
  return listeners + db.patterns
end

commands.SPUBLISH = commands.PUBLISH

function commands.PUBSUB(db, what, ...)
  if what ~= "NUMSUB" and what ~= "SHARDNUMSUB" then
    fail("ERR syntax error")
  end
  local out = {}
  for _, channel in ipairs({ ... }) do
    out[#out + 1] = channel
    out[#out + 1] = db.listeners[channel] or 0
  end
  return out
end

-- One command; its reply as scripts see it. Raises {err = text}.
function model:call(name, ...)
  local list = { name, ... }
  for i = 1, #list do
    list[i] = text_of(list[i])
  end
  local run = commands[list[1]]
  if not run then
    error({ unknown = "the model of Redis does not know " .. list[1] }, 0)
  end
  self.calls = self.calls + 1
  if not self.replicates and not list[1]:find("PUBLISH$") then
    error({ unknown = "replicas would miss " .. list[1] }, 0)
  end
  return run(self, unpack(list, 2))
end

-- ---- scripts ----

local function strings(list)
  local out = {}
  for i, v in ipairs(list) do
    out[i] = text_of(v)
  end
  return out
end

-- Runs a script by name; the reply, or {err = text}.
function model:eval(name, keys, arguments)
  self.chunks[name] = self.chunks[name]
    or sandbox.compile(assert(self.scripts[name], name), name, self.env)
  self.replicates = true
  self.given.KEYS, self.given.ARGV = strings(keys), strings(arguments)
  local ok, reply = pcall(self.chunks[name])
  if ok then
    return sandbox.outward(reply)
  elseif type(reply) == "string" then
    return { err = "ERR " .. reply }
  end
  return reply.err and reply or error(reply.unknown, 0)
end

-- ---- the world around ----

-- texts: what model.texts gave; us: the clock, in microseconds.
function model.new(texts, us)
  local db = setmetatable({ keys = {}, us = us, listeners = {}, patterns = 0,
    elsewhere = {}, replicates = true, published = {}, scripts = texts,
    chunks = {}, calls = 0 }, model)
  db.env, db.given = sandbox.of(db)
  return db
end

-- As new, but keeps the compiled scripts.
function model:reset(us)
  self.keys, self.listeners, self.published = {}, {}, {}
  self.elsewhere = {} -- who listens at a replica
  self.patterns = 0 -- who listens to all channels
  self.us = us
end

-- Keys that still stand, sorted.
function model:names()
  local all, out = {}, {}
  for key in pairs(self.keys) do all[#all + 1] = key end
  table.sort(all)
  for _, key in ipairs(all) do
    if self:find(key) then out[#out + 1] = key end
  end
  return out
end

return model
