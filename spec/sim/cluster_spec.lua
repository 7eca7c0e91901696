-- The shipped router, engine and state machines of the Redis store, in several
-- processes, with the shipped scripts on a modelled cluster whose slot moves
-- and whose primaries are lost (spec/sim/redis_cluster.lua says what happens
-- and what must hold).
--
--   DLOCK_SIM_CLUSTER=1000 ...   that many histories
--   DLOCK_SIM_SEED=n             the history n alone, told step by step
--   DLOCK_LONG=1                 all faults under each Lua

local faults = require "spec.faults.redis_cluster"
local lot = require "spec.support.lot"
local redis_cluster = require "spec.sim.redis_cluster"
local redis_machine = require "spec.sim.redis_machine"
local seeds = require "spec.sim.seeds"

local COUNT = tonumber(os.getenv("DLOCK_SIM_CLUSTER")) or 100
local ENOUGH = 3000 -- histories in which a fault must show
local LONG = os.getenv("DLOCK_LONG") == "1"
local is_mine = lot.draw("faults of the cluster", 24)

describe("simulated cluster", function()
  local machines

  setup(function() machines = redis_machine.new() end)
  teardown(function() machines:remove() end)

  local function player(name, fault)
    local client = machines:load(name, fault)
    local world = redis_cluster.world(client, machines.texts)
    return function(seed, telling)
      return redis_cluster.history(client, world, seed, nil, telling,
        redis_cluster)
    end
  end

  it("has one holder, and asks no node again and again", function()
    local play = player "cluster"
    local first, count = seeds.draw("cluster", COUNT)
    for seed = first, first + count - 1 do
      local problem, log = play(seed, seeds.again ~= nil)
      assert.is_nil(problem, seeds.advise(("seed %d: %s\n%s"):format(seed,
        problem or "", table.concat(log, "\n"))))
    end
  end)

  for i, fault in ipairs(seeds.faults(faults)) do
    if is_mine(i) and (LONG or not fault.rare) then
      it("would notice that " .. fault.name, function()
        local play = player("faulty" .. i, fault)
        for seed = 1, ENOUGH do
          if play(seed) then return end
        end
        error("not noticed in " .. ENOUGH .. " histories")
      end)
    end
  end
end)
