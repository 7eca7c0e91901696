-- The admission rules of the ZooKeeper and the file store against a plain
-- queue, in random histories (spec/sim/zookeeper_queue.c, file_queue.c).
--
--   DLOCK_SIM=100000 ...   that many histories (default: some thousand)
--   DLOCK_SIM_SEED=n       the history n alone, told step by step; else new
--                          ones each time (the faults: always the same)

local faults = require "spec.faults.queues"
local program = require "spec.sim.program"
local seeds = require "spec.sim.seeds"
local server = require "spec.support.server"

local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 2000
-- It is the same C whatever runs it: the faults are looked for once.
local LOOK = _VERSION == "Lua 5.4"
local ENOUGH = 20000 -- histories in which a fault must show

local SIMULATIONS = {
  zookeeper = { "spec/sim/zookeeper_queue.c", "spec/sim/plain.c",
    "csrc/store/session/recipe/queue.c",
    "csrc/store/kit/admission.c",
    "csrc/store/session/format/names.c",
    "csrc/core/buf.c" },
  file = { "spec/sim/file_queue.c", "spec/sim/plain.c",
    "csrc/store/file/recipe/queue.c", "csrc/store/file/format/table.c",
    "csrc/store/kit/admission.c",
    "csrc/core/clock.c", "csrc/core/quiet.c" },
}

for store, sources in pairs(SIMULATIONS) do
  describe("simulated " .. store .. " queue", function()
    local dir

    setup(function()
      dir = server.new_dir()
    end)

    teardown(function()
      server.remove_dir(dir)
    end)

    it("admits as the plain queue does", function()
      local path = program.build(dir, store, sources)
      local first, count = seeds.draw(store .. " queue", COUNT)
      local ok, text = program.run(path, count, first)
      assert.is_true(ok, seeds.advise(text))
    end)

    for i, fault in ipairs(LOOK and seeds.faults(faults[store] or {}) or {}) do
      it("would notice that " .. fault.name, function()
        local path = program.build(dir, "faulty" .. i, sources, fault)
        local ok, text = program.run(path, ENOUGH)
        assert.is_false(ok)
        assert.matches("seed %d+: ", text)
      end)
    end
  end)
end
