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
local redis_model = require "spec.sim.redis_model"
local redis_world = require "spec.sim.redis_world"
local seeds = require "spec.sim.seeds"

local LENGTH = 40
local ENOUGH = 4000 -- histories in which a fault must show
local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 1000
local is_mine = lot.draw("faults of the scripts")

-- Replaces plain text in all scripts that have it; nil: none has.
local function replaced(texts, find, put)
  local out, found = {}, false
  for name, text in pairs(texts) do
    local from, to = text:find(find, 1, true)
    found = found or from ~= nil
    out[name] = from and text:sub(1, from - 1) .. put .. text:sub(to + 1)
      or text
  end
  return found and out
end

-- What is to be found is code, or a part of a string.
local function with_fault(texts, bare, fault)
  return replaced(texts, fault.find, fault.put)
    or replaced(texts, bare(fault.find), " " .. fault.put .. " ")
    or error("nowhere in the scripts: " .. fault.find)
end

describe("simulated redis", function()
  local texts, bare = redis_model.texts()

  it("admits as the plain queue does", function()
    local run, tell = redis_world.player(texts)
    local first, count = seeds.draw("redis", COUNT)
    assert.is_nil(histories.run(first, count, LENGTH, run, tell))
  end)

  local function look_for(fault)
    it("would notice that " .. fault.name, function()
      local run = redis_world.player(with_fault(texts, bare, fault))
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
      local reply = db:eval(how, keys[how],
        { token(n), 30000, units or 0, cap or 0, 1000, believe or 60000,
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

    it("passes over the dead who asked just now", function()
      for _, believe in ipairs { 1000, 2000 } do -- without a note, and with one
        db = redis_model.new(texts, 1.7e15)
        queue_up(3, believe)
        listen(1, false)
        listen(2, false)
        leave(0)
        assert.equal(token(3), db:call("GET", "lock"))
        assert.equal(0, db:call("EXISTS", "q", "w"))
      end
    end)

    it("hands on where no message can be kept from replicas", function()
      for _, set_repl in ipairs {
        false, -- no such function
        function() error({ err = "ERR not allowed" }, 0) end,
      } do
        db = redis_model.new(texts, 1.7e15)
        db.env.redis.set_repl = set_repl or nil
        queue_up(2, 1000)
        listen(1, false)
        db.elsewhere["~dlock:c:" .. token(1):sub(34, 49)] = 1
        leave(0)
        assert.equal(token(2), db:call("GET", "lock"))
        assert.equal(1, #db.published)
        assert.equal(token(2), db.published[1].text:match("^g %d+ (.*)"))
        assert.equal(0, db:call("EXISTS", "q", "w"))
      end
    end)

    it("drops the dead that joined just before", function()
      queue_up(2, 1000)
      listen(2, false)
      listen(3, true)
      assert.equal(1, ask(3, "join", 1000)[5])
    end)

    it("drops who hangs when one joins", function()
      queue_up(2, 1000)
      for _ = 1, 4 do
        db.us = db.us + 300 * 1000
        ask(1, "refresh", 1000)
      end
      db.us = db.us + 150 * 1000
      listen(3, true)
      assert.equal(1, ask(3, "join", 1000)[5])
    end)

    it("gives the counter its time when one joins no queue", function()
      queue_up(0)
      db:call("PEXPIRE", "f", 599000)
      listen(1, true)
      assert.equal("wait", ask(1, "join", 1000)[1])
      leave(0)
      assert.equal(token(1), db:call("GET", "lock"))
      assert.is_true(db:call("PTTL", "f") >= 600000)
    end)

    it("keeps the place of who joins twice", function()
      queue_up(2, 1000)
      local order = orders[1]
      local reply = ask(1, "join", 1000)
      assert.equal("wait", reply[1])
      assert.equal(order, reply[4])
      assert.equal(0, reply[5])
    end)

    -- Who asks seldom leaves that to the one before it, if that asks by itself.
    it("keeps the queue behind one that is believed anew", function()
      queue_up(2, 1000)
      db.us = db.us + 1500 * 1000
      for _ = 1, 2 do
        db:call("PEXPIRE", "q", 40000)
        assert.equal("wait", ask(2, "refresh")[1])
        assert.is_true(db:call("PTTL", "q") > 59000)
        db.us = db.us + 500 * 1000
      end
    end)

    it("tells who watches that the holder is another one", function()
      queue_up(1, 1000)
      db:call("ZADD", "n", "1", "me")
      db.listeners.me = 1
      leave(0)
      assert.same({ channel = "me", text = "c lock" }, db.published[1])
      assert.equal(0, db:call("EXISTS", "n"))
    end)

    it("forgets what was noted of a hold", function()
      queue_up(1, 1000)
      db:call("HSET", "i", token(0), "1 2 ", "!" .. token(0), "1")
      leave(0)
      assert.equal(token(1), db:call("GET", "lock"))
      assert.equal(0, db:call("EXISTS", "i"))
    end)

    it("hands on for as long as the waiter wants", function()
      assert.equal("got", ask(0, "join")[1])
      listen(1, true)
      db:eval("join", keys.join, { token(1), 300, 0, 0, 300, 1000, "", 0,
        675000, 1 })
      leave(0)
      assert.equal(token(1), db:call("GET", "lock"))
      assert.equal(300, db:call("PTTL", "lock"))
    end)

    it("ends a hold though its counter counts no further", function()
      for _, odd in ipairs { "99999999999999", "none" } do
        db = redis_model.new(texts, 1.7e15)
        queue_up(1, 1000)
        db:call("SET", "f", odd, "KEEPTTL")
        local reply = leave(0)
        assert.equal(1, type(reply) == "table" and reply[1] or reply)
        assert.is_false(db:call("GET", "lock"))
        assert.same({}, db.published)
      end
    end)

    -- When it joins, or when it has waited for long.
    it("gives the counter its time for who is handed the lock", function()
      queue_up(1)
      listen(2, true)
      for _, n in ipairs { 2, 1 } do
        db:call("PEXPIRE", "f", 599000)
        if n == 2 then
          assert.equal("wait", ask(2, "join", 1000)[1]) -- behind a note
          leave(1)
        else
          assert.equal("wait", ask(1, "join")[1])
        end
        leave(n == 2 and 0 or 2)
        assert.equal(token(n), db:call("GET", "lock"))
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
