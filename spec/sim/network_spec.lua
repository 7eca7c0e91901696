-- The shipped engine and the shipped state machines of the Redis store, in
-- several processes, on a network that loses, delays and repeats, with the
-- shipped scripts on a modelled Redis (spec/sim/redis_network.lua says what
-- happens and what must hold).
--
--   DLOCK_SIM_NETWORK=1000 ...   that many histories (default: some dozens)
--   DLOCK_SIM_SEED=n             the history n alone, told step by step; else
--                                new ones each time (the faults: the same)
--   DLOCK_LONG=1                 all faults under each Lua

local faults = require "spec.faults.redis_client"
local lot = require "spec.support.lot"
local redis_crowd = require "spec.sim.redis_crowd"
local redis_machine = require "spec.sim.redis_machine"
local redis_network = require "spec.sim.redis_network"
local seeds = require "spec.sim.seeds"

local COUNT = tonumber(os.getenv("DLOCK_SIM_NETWORK")) or 40
local ENOUGH = 3000 -- histories in which a fault must show
-- It is the same C whatever runs it: each Lua looks for a part of the faults.
-- Those that take hundreds of histories to show are looked for in the long run
-- only.
local is_mine = lot.draw("faults of the network", 24)
local LONG = os.getenv("DLOCK_LONG") == "1"

describe("simulated network", function()
  local machines

  setup(function() machines = redis_machine.new() end)
  teardown(function() machines:remove() end)

  local function client(name, fault)
    local machine = machines:load(name, fault)
    return machine, redis_network.world(machine, machines.texts)
  end

  it("never has two holders, strands no waiter and leaves nothing", function()
    local machine, world = client("redis_client")
    local first, count = seeds.draw("network", COUNT)
    for seed = first, first + count - 1 do
      local problem, log = redis_network.history(machine, world, seed, nil,
        seeds.again ~= nil)
      assert.is_nil(problem, seeds.advise(("seed %d: %s\n%s"):format(seed,
        problem or "", table.concat(log, "\n"))))
    end
  end)

  describe("(a crowd at rest)", function()
    -- 372 waits in three processes, of which those of the third ask as seldom
    -- as anybody does: every 20 s.
    local crowd

    local function at_rest()
      local machine, world = client("redis_client")
      crowd = redis_crowd.new(machine, world, 3, 124, 30)
      crowd:pass(45)
    end

    after_each(function()
      if crowd then crowd:close() end
      crowd = nil
    end)

    local function asks_of(i, asks)
      local own = {}
      for _, a in ipairs(asks) do
        if a.node.n == i then own[#own + 1] = a end
      end
      return own
    end

    -- The most of them in one of their seconds.
    local function most_in_a_second(asks)
      local most = 0
      for i, a in ipairs(asks) do
        local n = 0
        while asks[i + n] and asks[i + n].at < a.at + 1e9 do n = n + 1 end
        most = math.max(most, n)
      end
      return most
    end

    it("asks every 20 s, each client at four moments of a second", function()
      at_rest()
      local times, count, ticks = {}, 0, {}
      local asks = crowd:watch(40)
      for _, a in ipairs(asks_of(3, asks)) do
        times[a.token] = (times[a.token] or 0) + 1
      end
      for _, n in pairs(times) do
        count = count + 1
        assert.equal(2, n)
      end
      assert.equal(124, count)
      for i = 2, 3 do
        for _, a in ipairs(asks_of(i, asks)) do
          ticks[i] = ticks[i] or a.written % 0.25e9
          assert.equal(ticks[i], a.written % 0.25e9)
        end
      end
      assert.are_not.equal(ticks[2], ticks[3])
    end)

    it("is spread evenly again when all asked at once, and has its queue for as"
      .. " long as it stands", function()
      at_rest()
      crowd:subscribe_anew()
      assert.is_true(most_in_a_second(asks_of(3, crowd:watch(1))) >= 124)
      assert.is_true(most_in_a_second(asks_of(3, crowd:watch(20))) < 20)
      for _ = 1, 8 do
        crowd:pass(12)
        local n, left = crowd:standing()
        assert.equal(372, n)
        assert.is_true(left > 50000, left)
      end
    end)

    it("has its queue when all in front hang, or die", function()
      for _, ends in ipairs { "hang", "kill" } do
        at_rest()
        crowd[ends](crowd, 1)
        crowd[ends](crowd, 2)
        for _, a in ipairs(crowd:watch(45)) do
          assert.equal("wait", a.said)
        end
        assert.is_true(select(2, crowd:standing()) > 30000)
        crowd:pass(20)
        assert.equal(124, (crowd:standing()))
        crowd:close()
      end
    end)
  end)

  local function look_for(i, fault)
    it("would notice that " .. fault.name, function()
      local machine, world = client("faulty" .. i, fault)
      for seed = 1, ENOUGH do
        if redis_network.history(machine, world, seed, fault.lax) then
          return
        end
      end
      error("not noticed in " .. ENOUGH .. " histories")
    end)
  end

  for i, fault in ipairs(seeds.faults(faults)) do
    if is_mine(i) and (LONG or not fault.rare) then
      look_for(i, fault)
    end
  end
end)
