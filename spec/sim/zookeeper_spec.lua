-- The ZooKeeper store's recipe, as shipped, in random histories on a server
-- that does what each wants (spec/sim/zookeeper_recipe.c), and how long it
-- believes in a session (spec/sim/zookeeper_session.c).
--
--   DLOCK_SIM=100000 ...   that many histories (default: some thousand)
--   DLOCK_SIM_SEED=n       the history n alone, told step by step; else new
--                          ones each time (the faults: always the same)

local faults = require "spec.faults.zookeeper"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local seeds = require "spec.sim.seeds"
local server = require "spec.support.server"

local COUNT = tonumber(os.getenv("DLOCK_SIM")) or 2500
-- It is the same C whatever runs it: the faults are looked for once.
local LOOK = _VERSION == "Lua 5.4"
local ENOUGH = 5000 -- histories in which a fault must show

-- What each has for the client library and the servers.
local SERVERS = { recipe = "spec/c/zookeeper_link.c",
  session = "spec/sim/zookeeper_leader.c" }

local function output(command)
  local status, text = process.run { command = { "sh", "-c", command } }
  return status == 0 and (text:gsub("%s+$", "")) or ""
end

local dir -- what is compiled for one is there for the other

local function simulated(name, says)
  describe(name, function()
    local sources, flags, libs

    setup(function()
      sources = { "spec/sim/zookeeper_" .. name .. ".c", SERVERS[name],
        "spec/sim/plain.c", "spec/c/host.c" }
      for file in output("find csrc/core csrc/store/kit csrc/store/session"
        .. " csrc/store/zookeeper -name '*.c' ! -path '*/etcd/*'"
        .. " ! -path '*/consul/*'")
          :gmatch("%S+") do
        -- The client library's side is the one that is simulated.
        if not file:find("/client/", 1, true) then
          sources[#sources + 1] = file
        end
      end
      -- So few that lists of children are watched, too.
      flags = "-DDLK_SS_WATCH_MAX=2 -Ispec/c "
        .. output("pkg-config --cflags libuv")
      libs = output("pkg-config --libs libuv")
    end)

    it(says, function()
      local path = program.build(dir, name, sources, nil, flags, libs)
      local first, count = seeds.draw("ZooKeeper " .. name, COUNT)
      local ok, text = program.run(path, count, first)
      assert.is_true(ok, seeds.advise(text))
    end)

    for i, fault in ipairs(LOOK and seeds.faults(faults[name] or {}) or {}) do
      it("would notice that " .. fault.name, function()
        local path =
          program.build(dir, name .. i, sources, fault, flags, libs)
        local ok, text = program.run(path, ENOUGH)
        assert.is_false(ok)
        assert.matches("seed %d+: ", text)
      end)
    end
  end)
end

describe("simulated ZooKeeper", function()
  setup(function() dir = server.new_dir() end)
  teardown(function() server.remove_dir(dir) end)

  simulated("recipe", "excludes, ends everything and leaves nothing")
  simulated("session", "is believed in no longer than the leader has it, and"
    .. " survives every break that is mended at once")
end)
