-- The shipped server scripts against a plain queue, in random histories on a
-- modelled Redis (spec/sim/redis_world.lua says what is looked at).
--
--   DLOCK_SIM=100000 ...   that many histories (default: some thousand)
--   DLOCK_SIM_SEED=n       the history n alone, as a failure prints it; else
--                          new ones each time (the faults: always the same)
--   DLOCK_SIM=100000 SPEC=spec/sim/redis_spec.lua make test LUA=luajit

local faults = require "spec.faults.redis_scripts"
local histories = require "spec.sim.histories"
local lot = require "spec.support.lot"
local random = require "spec.sim.random"
local redis = require "spec.support.redis"
local redis_model = require "spec.sim.redis_model"
local redis_world = require "spec.sim.redis_world"
local seeds = require "spec.sim.seeds"

local LENGTH = 40
local ENOUGH = 4000 -- histories in which a fault must show
local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 1000
local is_mine = lot.draw("faults of the scripts")

-- Replaces plain text in all scripts that have it.
local function with_fault(texts, fault)
  local out, found = {}, false
  for name, text in pairs(texts) do
    local from, to = text:find(fault.find, 1, true)
    found = found or from ~= nil
    out[name] = from and text:sub(1, from - 1) .. fault.put
      .. text:sub(to + 1) or text
  end
  assert(found, "nowhere in the scripts: " .. fault.find)
  return out
end

describe("simulated redis", function()
  local texts = redis_model.texts()

  it("admits as the plain queue does", function()
    local run, tell = redis_world.player(texts)
    local first, count = seeds.draw("redis", COUNT)
    assert.is_nil(histories.run(first, count, LENGTH, run, tell))
  end)

  local function look_for(fault)
    it("would notice that " .. fault.name, function()
      local run = redis_world.player(with_fault(texts, fault))
      for seed = 1, ENOUGH do
        if run(histories.make(seed, LENGTH, 6), seed) then
          return
        end
      end
      error("not noticed in " .. ENOUGH .. " histories")
    end)
  end

  for i, fault in ipairs(seeds.faults(faults)) do
    if is_mine(i) then
      look_for(fault)
    end
  end

  -- lift: what the scripts are told of the counter.
  local function of_one_key(lift)
    local db, keys, orders

    local function token(n)
      return ("%032d:%016d:me"):format(n, n)
    end

    local function listen(n, on)
      db.listeners[("~dlock:c:%016d"):format(n)] = on and 1 or nil
    end

    local function ask(n, how, believe, units, cap)
      db.us = db.us + 10
      local reply = db:eval("acquire", keys.acquire,
        { token(n), 30000, units or 0, cap or 0, how, 1000, believe or 60000,
          how == "refresh" and orders[n] or "", 0, 675000, 1 })
      orders[n] = reply[4] or orders[n]
      return reply
    end

    -- 0 holds, 1 to n wait, and all of them live.
    local function queue_up(n, believe)
      assert.equal("got", ask(0, "join")[1])
      for i = 1, n do
        listen(i, true)
        assert.equal("wait", ask(i, "join", believe)[1])
      end
    end

    local function leave(n)
      return db:eval("leave", keys.leave, { token(n), 0, 675000, lift })
    end

    before_each(function()
      db = redis_model.new(texts, 1.7e15)
      keys, orders = redis_model.keys(texts), {}
    end)

    it("drops 2,500 dead waiters in calls that end", function()
      queue_up(2501)
      for n = 1, 2500 do
        listen(n, false)
      end
      local calls = 0
      local reply = leave(0)
      while reply[2] == 1 do
        calls = calls + 1
        assert.is_true(calls < 4)
        assert.same({}, db.published)
        reply = leave(0)
      end
      assert.equal(2, calls)
      assert.equal(1, #db.published)
      assert.equal(token(2501), db:call("GET", "lock"))
    end)

    it("drops 250 dead ones before a waiter while the lock is held", function()
      queue_up(251)
      for n = 1, 250 do
        listen(n, false)
      end
      local calls = 0
      local reply
      repeat
        calls = calls + 1
        reply = ask(251, "refresh")
      until reply[7] == 0 or calls > 9
      assert.equal(3, calls)
      assert.equal(0, reply[5])
    end)

    -- By a pattern: a message is then heard although its reader is dead.
    it("loses a claim at most to the dead that a pattern hears", function()
      for n, age in ipairs { 300, 5000 } do
        db.keys, db.patterns = {}, 1
        queue_up(30)
        for dead = 1, 29 do
          listen(dead, false)
        end
        db.us = db.us + age * 1000
        leave(0)
        assert.equal(token(n == 1 and 1 or 30), db:call("GET", "lock"))
        db.us = db.us + 900 * 1000
        if n == 1 then
          db.us = db.us + 101 * 1000
          ask(30, "refresh")
        end
        assert.equal(token(30), db:call("GET", "lock"))
      end
    end)

    it("passes over a stopped client while others ask", function()
      for _, last in ipairs { "refresh", "release" } do
        db.keys = {}
        queue_up(2, 1000)
        for _ = 1, last == "refresh" and 4 or 3 do
          db.us = db.us + 300 * 1000
          ask(2, "refresh", 1000)
        end
        db.us = db.us + 150 * 1000
        leave(0)
        assert.equal(token(2), db:call("GET", "lock"), last)
        leave(2)
      end
    end)

    it("passes over a stopped reader when those let in had asked", function()
      assert.equal("got", ask(0, "join")[1])
      for n = 1, 4 do
        listen(n, true)
        assert.equal("wait", ask(n, "join", 1000, 1)[1])
      end
      for _ = 1, 3 do
        db.us = db.us + 300 * 1000
        for n = 1, 3 do
          ask(n, "refresh", 1000, 1)
        end
      end
      db.us = db.us + 150 * 1000
      leave(0)
      assert.equal(3, #db.published)
    end)

    it("counts all readers that a lift of the counter lets in", function()
      assert.equal("got", ask(0, "join", nil, 1)[1])
      for n, units in ipairs { 0, 1, 1 } do -- readers behind a writer
        listen(n, true)
        assert.equal("wait", ask(n, "join", nil, units)[1])
      end
      db:call("SET", "f", "1000000000007")
      leave(1)
      assert.equal(2, #db.published)
      local last = db.published[2].text:match("^g (%d+) ")
      assert.equal(last, db:call("GET", "f"))
    end)

    -- Each of them too soon to ask a second time.
    it("keeps a queue in which all come and go", function()
      queue_up(2, 1000)
      for n = 0, 300 do
        db.us = db.us + 250 * 1000
        leave(n)
        assert.equal(token(n + 1), db:call("GET", "lock"))
        assert.is_true(db:call("PTTL", "f") >= 600000)
        listen(n + 3, true)
        assert.equal("wait", ask(n + 3, "join", 1000)[1])
      end
    end)

    local function rest_of_queue()
      return db:call("PTTL", "q")
    end

    it("keeps a queue in which all ask often", function()
      queue_up(2)
      db:call("PEXPIRE", "lock", 1e9)
      for _ = 1, 6 do
        db.us = db.us + 9e6
        assert.equal("wait", ask(2, "refresh", 6000)[1])
        assert.equal(60000, rest_of_queue())
      end
    end)

    it("keeps a queue when those in front fall silent", function()
      queue_up(3, 24000)
      db:call("PEXPIRE", "lock", 1e9)
      db.us = db.us + 20e6
      for _, n in ipairs { 2, 3 } do
        ask(n, "refresh", 24000)
      end
      assert.is_true(rest_of_queue() <= 40000) -- the first one's business
      db.us = db.us + 20e6
      ask(3, "refresh", 24000)
      assert.is_true(rest_of_queue() <= 20000) -- the second one was heard of
      ask(2, "refresh", 24000)
      assert.equal(60000, rest_of_queue())
    end)

    -- More of them than are looked at when the server may have stood still.
    it("drops all who hang before one that asks again and again", function()
      queue_up(150, 24000)
      db:call("PEXPIRE", "lock", 1e9)
      local ranks = {}
      for i = 1, 3 do
        db.us = db.us + 20e6
        local reply
        repeat
          reply = ask(150, "refresh", 24000)
        until reply[7] == 0
        ranks[i] = reply[5]
      end
      assert.same({ 149, 149, 0 }, ranks)
    end)

    it("tells who stands behind another that there is no counter", function()
      queue_up(2)
      db:call("SET", "f", "none")
      assert.matches("~counter=text~", ask(2, "refresh").err)
    end)

    -- Between them stood a writer.
    it("refuses who asks again right behind another limit", function()
      queue_up(0)
      for n, units in ipairs { 1, 0, 1 } do
        listen(n, true)
        assert.equal("wait", ask(n, "join", nil, units, n == 1 and 3 or 0)[1])
      end
      assert.equal("wait", ask(3, "refresh", nil, 1)[1])
      leave(2)
      assert.equal("limit", ask(3, "refresh", nil, 1)[1])
    end)

    -- Lost, or an older one.
    it("hands on at the clock when the counter was lost", function()
      for old = 0, lift do
        db = redis_model.new(texts, 1.7e15)
        queue_up(1, 1000)
        if old == 0 then
          db:call("DEL", "f")
        else
          db:call("SET", "f", "1000000000007", "KEEPTTL")
        end
        leave(0)
        local clock = 1e12 + math.floor((db.us / 1e3 - 1.6e12) * 64)
        local fence = tonumber(db.published[1].text:match("^g (%d+) "))
        assert.is_true(fence >= clock)
        assert.is_true(db:call("PTTL", "f") >= 600000)
      end
    end)

    it("takes a marker that it did not write for a foreign holder", function()
      ask(1, "join", nil, 1)
      assert.equal("got", ask(2, "join", nil, 1)[1])
      db:call("SET", "lock", "~s17")
      listen(3, true)
      assert.equal("wait", ask(3, "join", nil, 1)[1])
      assert.equal("~s17", db:call("GET", "lock"))
    end)

    it("hands on in order when it stood still", function()
      queue_up(5, 1000)
      db.us = db.us + 1500 * 1000
      assert.equal("wait", ask(3, "refresh", 1000)[1]) -- whoever is first
      for n = 0, 4 do
        assert.equal(token(n), db:call("GET", "lock"))
        leave(n)
        db.us = db.us + 100 * 1000
      end
      assert.equal(token(5), db:call("GET", "lock"))
    end)
  end

  describe("(one key)", function() of_one_key(1) end)
  describe("(one key, counter known)", function() of_one_key(0) end)
end)

-- ---- the model itself ----

local CALL = "return redis.call(unpack(ARGV))"

-- nil, false and null are one; what is left of a time, a thousand seconds here,
-- may differ by the time that all the calls took.
local function same(command, real, ours)
  if command == "PTTL" and real and real > 0 then
    return math.abs(real - ours) < 100000
  elseif type(real) ~= "table" then
    return (real or false) == ours
  elseif #real ~= #ours then
    return false
  end
  for i, v in ipairs(real) do
    local mine = ours[i]
    if v == redis.null then
      v = false
    end
    if v ~= mine then
      return false
    end
  end
  return true
end

local SHAPES = {
  "SET s v PX n", "SET s v NX PX n", "SET s v NX", "SET s v KEEPTTL",
  "GET s", "INCR c",
  "INCRBY c n", "EXISTS k", "EXISTS k k", "DEL k", "PTTL k", "PEXPIRE k n",
  "ZADD z f m", "ZADD z f m", "ZADD z f m", "ZREM z m", "ZPOPMIN z",
  "ZRANGE z 0 0",
  "ZRANGE z i i WITHSCORES", "ZRANGE z -1 -1 WITHSCORES", "ZRANK z m",
  "ZSCORE z m", "ZRANGEBYSCORE z -inf f LIMIT 0 2", "HSET h m v",
  "HSET h m v m v", "HGET h m", "HDEL h m", "HMGET h m m", "PUBSUB NUMSUB v",
  "PUBLISH v v",
}

local function make_command(r)
  local function draw(n)
    return math.floor(r:next() * n)
  end
  local word = {
    s = function() return "s" .. draw(2) end,
    c = function() return "c" .. draw(2) end,
    z = function() return "z" .. draw(2) end,
    h = function() return "h" .. draw(2) end,
    k = function()
      local letter = draw(4) + 1
      return ("sczh"):sub(letter, letter) .. draw(2)
    end,
    v = function() return "v" .. draw(3) end,
    m = function() return "m" .. draw(5) end,
    n = function() return tostring(1000000 + draw(3)) end,
    i = function() return tostring(draw(6) - 3) end,
    f = function()
      local pick = draw(4)
      return pick == 0 and tostring(draw(3)) or pick == 1 and "0.1"
        or pick == 2 and "1700000000123456" or "-" .. 1 + draw(9)
    end,
  }
  local list = {}
  for part in SHAPES[1 + draw(#SHAPES)]:gmatch("%S+") do
    list[#list + 1] = word[part] and word[part]() or part
  end
  return list
end

local unpack = table.unpack or unpack

describe("the model of redis", function()
  local server, r, db

  before_each(function()
    server = redis.start {}
    r = server:connect()
    local now = r:call("TIME")
    db = redis_model.new({ call = CALL }, now[1] * 1000000 + now[2])
  end)

  after_each(function()
    r:close()
    server:stop()
  end)

  it("answers random commands as a server does", function()
    local draw = random.new(7)
    for _ = 1, 2000 do
      local list = make_command(draw)
      local real, err = r:pcall("EVAL", CALL, "0", unpack(list))
      local ours = db:eval("call", {}, list)
      local ok
      if err then
        ok = type(ours) == "table" and ours.err ~= nil
      else
        if type(real) == "string" and type(ours) == "table" then
          ours = ours.ok
        end
        ok = same(list[1], real, ours)
      end
      if not ok then
        assert.same(real or err, ours, table.concat(list, " "))
        error("seemingly the same: " .. table.concat(list, " "))
      end
    end
  end)

  it("turns values as a server does", function()
    db.scripts.values = [[
      redis.call('SET', 'n', 1700000000123 * 32)
      redis.call('ZADD', 'z', 1700000000123 + 0.5, 'm')
      return { redis.call('GET', 'n'), 1.9, -1.9, true, 'x',
        redis.call('ZSCORE', 'z', 'm'), redis.call('GET', 'none'),
        string.format('%.0f', redis.call('INCR', 'n') + 0),
        redis.call('PTTL', 'none'), nil, 'not seen' }
    ]]
    local real = r:call("EVAL", db.scripts.values, "0")
    assert.equal(9, #real)
    assert.is_true(same("EVAL", real, db:eval("values", {}, {})))
  end)

  it("keeps a key to the end of its last millisecond", function()
    db:call("SET", "k", "v", "PX", 10)
    db.us = db.us + 10000
    assert.equal(0, db:call("PTTL", "k"))
    assert.equal("v", db:call("GET", "k"))
    db.us = db.us + 1000
    assert.is_false(db:call("GET", "k"))
  end)
end)
