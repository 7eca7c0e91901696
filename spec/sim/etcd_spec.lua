-- The etcd store, as shipped, in the random histories of the recipe
-- (spec/sim/zookeeper_recipe.c), on servers that do what calls cross, what is
-- lost, and what of a lost connection is done later (spec/c/etcd_server.c).
-- DLOCK_SIM and DLOCK_SIM_SEED: see zookeeper_spec.

local faults = require "spec.faults.etcd"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local seeds = require "spec.sim.seeds"
local server = require "spec.support.server"

local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 2500
local LOOK = _VERSION == "Lua 5.4"
local ENOUGH = 5000 -- histories in which a fault must show

local function output(command)
  local status, text = process.run { command = { "sh", "-c", command } }
  return status == 0 and (text:gsub("%s+$", "")) or ""
end

describe("the simulation of the etcd store", function()
  local dir, sources, flags, libs

  setup(function()
    dir = server.new_dir()
    sources = { "spec/sim/zookeeper_recipe.c", "spec/c/etcd_server.c",
      "spec/sim/plain.c", "spec/c/host.c" }
    for file in output("find csrc/core csrc/store/kit csrc/store/session"
      .. " -name '*.c' ! -path '*/conn/*' ! -path '*/consul/*'"):gmatch("%S+") do
      sources[#sources + 1] = file
    end
    flags = "-DSIM_ETCD -DDLK_SS_WATCH_MAX=2 -Ispec/c "
      .. output("pkg-config --cflags libuv")
    libs = output("pkg-config --libs libuv")
  end)

  teardown(function() server.remove_dir(dir) end)

  it("has no two holders and no lost wait, whatever is lost", function()
    local path = program.build(dir, "etcd", sources, nil, flags, libs)
    local first, count = seeds.draw("etcd", COUNT)
    local ok, text = program.run(path, count, first)
    assert.is_true(ok, seeds.advise(text))
  end)

  for i, fault in ipairs(LOOK and seeds.faults(faults) or {}) do
    it("would notice that " .. fault.name, function()
      local path = program.build(dir, "etcd" .. i, sources, fault, flags, libs)
      local ok, text = program.run(path, ENOUGH)
      assert.is_false(ok)
      assert.matches("seed %d+: ", text)
    end)
  end
end)
