-- The modelled Redis (spec/sim/redis_model.lua) against a real server: it
-- answers as that does.

local random = require "spec.sim.random"
local redis = require "spec.support.redis"
local redis_model = require "spec.sim.redis_model"

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
  "ZADD z f m", "ZADD z f m", "ZADD z NX f m", "ZREM z m", "ZPOPMIN z",
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
