-- A waiter on Redis, and a server that says at each step what a real one says
-- only when things cross: which answers and messages are believed, and when
-- the next question is asked.

local dlock = require "dlock"
local fake_server = require "spec.support.fake_server"
local meanwhile = require "spec.support.meanwhile"

local FENCE = 40000000000000

-- `step(n, push, believe)` answers the n-th question of who waits (the first is
-- its joining); push sends it a message. wait{...} is the answer that it waits,
-- got the one that it holds. RANK: so far behind that it asks again after half
-- a second, and then after 1.5 s at the earliest. believe: for how many ms it
-- wants to be believed to live, which says when it will ask next.
local SERVER = [[
  local FENCE, RANK = 40000000000000, 200
  local subscriber, channel, token
  local n = 0
  local function text(s) return ("$%d\r\n%s\r\n"):format(#s, s) end
  local function number(i) return (":%.0f\r\n"):format(i) end
  local function wait(o)
    return "*7\r\n" .. text "wait" .. number(o.left or 20000) .. number(FENCE)
      .. text "1700000000000000" .. number(o.rank or RANK) .. text "somebody"
      .. number(o.more or 0)
  end
  local function got(fence)
    return "*3\r\n" .. text "got" .. number(fence) .. number(0)
  end
  local function push(kind, fence)
    local message = ("%s %.0f %s"):format(kind, fence, token)
    subscriber.socket:write("*3\r\n" .. text "message" .. text(channel)
      .. text(message))
  end
  local function later(seconds, fn)
    local timer = require("luv").new_timer()
    timer:start(seconds * 1000, 0, function() timer:close() fn() end)
  end
  local step = STEP
  return function(name, words, client)
    if name == "SUBSCRIBE" then
      subscriber, channel = client, words[2]
    elseif name == "EVALSHA" and acquires(words) then
      local keys = tonumber(words[3])
      token = words[keys + 4]
      if script_of(words) == "TRY" then
        return "*2\r\n" .. text "busy" .. text "somebody"
      end
      n = n + 1
      return step(n, push, tonumber(words[keys + 9]))
    end
    return true
  end]]

describe("a waiter on redis", function()
  local f, store

  local function start(step)
    f = fake_server.start((SERVER:gsub("STEP", function() return step end)))
    store = assert(dlock.open { url = f.url, io_timeout = 5,
      connect_timeout = 5 })
  end

  after_each(function()
    store:close(0.2)
    f:stop()
  end)

  it("takes no hand-off from before it was queued", function()
    start [[function(n, push)
      if n == 1 then
        later(0.1, function() push("g", FENCE) end)
        return wait {}
      end
      return got(FENCE + 9)
    end]]
    assert.are.equal(FENCE + 9, assert(store:lock("k")).fence)
  end)

  it("takes no hand-off whose claim is half over", function()
    start [[function(n, push)
      if n == 2 then
        later(0.7, function() push("g", FENCE + 1) end)
      end
      if n <= 2 then return wait {} end
      return got(FENCE + 9)
    end]]
    assert.are.equal(FENCE + 9, assert(store:lock("k")).fence)
  end)

  -- With it hundreds are let in, who ask as well: what it would ask later came
  -- too late. The first in a queue may know it only by that: it stood for more
  -- than two seconds (in which it asks seven times).
  for rank, at in pairs { [8] = 1, [0] = 9 } do
    it(("begins no hold that it shares with a crowd by a message, place %d")
      :format(rank), function()
      start(([[function(n, push)
        if n > %d then return got(FENCE + 9) end
        if n == %d then later(0.1, function() push("g", FENCE + 1) end) end
        return wait { rank = %d }
      end]]):format(at, at, rank))
      local lease = assert(assert(store:rwlock("k")):read():acquire())
      assert.are.equal(FENCE + 9, lease.fence)
    end)
  end

  it("asks at once when a message crossed its question", function()
    start [[function(n, push)
      if n > 20 then return got(FENCE + 9) end
      push("g", FENCE + n)
      return { raw = wait {}, delay = 0.02 }
    end]]
    assert(store:lock("k", { timeout = 15 }))
  end)

  it("asks on while there are dead ones to be dropped", function()
    start [[function(n)
      return n > 20 and got(FENCE + 9) or wait { more = 1 }
    end]]
    assert(store:lock("k", { timeout = 15 }))
  end)

  it("asks when the holder's time is over, if it is the first", function()
    start [[function(n)
      return n > 100 and got(FENCE + 9) or wait { rank = 0, left = 5 }
    end]]
    assert(store:lock("k", { timeout = 15 }))
  end)

  it("asks again soon after it joined, and then less and less", function()
    start [[function(n, _, believe)
      assert(n > 2 or believe == (n == 1 and 1000 or 6000), believe)
      if n < 4 then return wait {} end
      assert(believe > 7000 and believe <= 24000, believe)
      return got(FENCE + 9)
    end]]
    assert(store:lock("k", { timeout = 15 }))
  end)

  -- So does one whose ttl is short, which may be a dead holder's as well. (Who
  -- takes a queue that moves for one that stands wants to be believed for more
  -- than 7 s at its fourth question. Each may be late.)
  it("asks as often as before while its queue moves", function()
    for ttl, rank in pairs { [30] = "400 - n * 70", [2] = "200" } do
      start(([[function(n, _, believe)
        assert(n == 1 or believe <= 7000, believe)
        if n > 3 then return got(FENCE + 9) end
        return wait { rank = %s }
      end]]):format(rank))
      assert(store:lock("k", { timeout = 20, ttl = ttl }))
      if ttl == 30 then
        store:close(0.2)
        f:stop()
      end
    end
  end)

  it("leaves when it was cancelled while it joined", function()
    start [[function() return { raw = wait {}, delay = 0.3 } end]]
    local canceller = dlock.canceller()
    local lease, _, code = meanwhile.when(function()
      return f:count("EVALSHA") > 1 -- "busy" was the answer to the first one
    end, function()
      canceller:cancel()
    end, function()
      return store:lock("k", { cancel = canceller })
    end)
    assert.is_nil(lease)
    assert.are.equal("cancelled", code)
    local _, _, digests = require("spec.sim.redis_model").texts()
    assert.are.equal(1, f:count("EVALSHA " .. digests.leave))
  end)
end)
