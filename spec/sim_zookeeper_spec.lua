-- The ZooKeeper store's recipe, as shipped, in random histories on a server
-- that does what each wants (spec/sim/zookeeper_recipe.c).
--
--   DLOCK_SIM=100000 ...   that many histories (default: some hundred)
--   DLOCK_SIM_SEED=n       the history n alone, told step by step

local faults = require "spec.faults.zookeeper"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local server = require "spec.support.server"

local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 500
local SEED = tonumber(os.getenv("DLOCK_SIM_SEED"))
-- It is the same C whatever runs it: the faults are looked for once.
local LOOK = _VERSION == "Lua 5.4"
local ENOUGH = 5000 -- histories in which a fault must show

local function output(command)
  local status, text = process.run { command = { "sh", "-c", command } }
  return status == 0 and (text:gsub("%s+$", "")) or ""
end

describe("simulated ZooKeeper recipe", function()
  local dir, sources, flags, libs

  setup(function()
    dir = server.new_dir()
    sources = { "spec/sim/zookeeper_recipe.c", "spec/sim/plain.c",
      "spec/c/zookeeper_link.c", "spec/c/host.c" }
    for file in output("ls csrc/core/*.c csrc/store/zookeeper/*.c")
      :gmatch("%S+") do
      -- The client library's side is the one that is simulated.
      if not file:find("/session.c", 1, true)
        and not file:find("/deliver.c", 1, true) then
        sources[#sources + 1] = file
      end
    end
    flags = "-Ispec/c " .. output("pkg-config --cflags libuv")
    libs = output("pkg-config --libs libuv")
  end)

  teardown(function()
    server.remove_dir(dir)
  end)

  it("excludes, ends everything and leaves nothing", function()
    local path = program.build(dir, "recipe", sources, nil, flags, libs)
    local ok, text = program.run(path, SEED and 1 or COUNT, SEED)
    assert.is_true(ok, text)
  end)

  for i, fault in ipairs(LOOK and faults or {}) do
    it("would notice that " .. fault.name, function()
      local path =
        program.build(dir, "faulty" .. i, sources, fault, flags, libs)
      local ok, text = program.run(path, ENOUGH)
      assert.is_false(ok)
      assert.matches("seed %d+: ", text)
    end)
  end
end)
