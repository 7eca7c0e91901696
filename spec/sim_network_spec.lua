-- The shipped state machines of the Redis store, several clients of them, on
-- a network that loses, delays and repeats, with the shipped scripts on a
-- modelled Redis (spec/sim/redis_network.lua says what happens and what must
-- hold).
--
--   DLOCK_SIM_NETWORK=1000 ...   that many histories (default: some dozens)
--   DLOCK_SIM_SEED=n             the history n alone, told step by step

local faults = require "spec.faults.redis_client"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local redis_model = require "spec.sim.redis_model"
local redis_network = require "spec.sim.redis_network"
local server = require "spec.support.server"

local COUNT = tonumber(os.getenv("DLOCK_SIM_NETWORK")) or 30
local SEED = tonumber(os.getenv("DLOCK_SIM_SEED"))
local ENOUGH = 1500 -- histories in which a fault must show
-- It is the same C whatever runs it: the faults are looked for once.
local LOOK = rawget(_G, "jit") ~= nil

local SOURCES = { "spec/sim/redis_client.c", "spec/sim/redis_host.c",
  "spec/sim/redis_reply.c" }
-- All of the store but what talks to sockets.
local SOCKETS = { net = true, conn = true, sock = true, greet = true }
local list = assert(io.popen("ls csrc/store/redis/*.c"))
for path in list:lines() do
  if not SOCKETS[path:match("([%w_]+)%.c$")] then
    SOURCES[#SOURCES + 1] = path
  end
end
list:close()
for _, name in ipairs { "buf", "clock", "heap", "map", "status", "value" } do
  SOURCES[#SOURCES + 1] = "csrc/core/" .. name .. ".c"
end

local function package_flags(name)
  local status, text = process.run {
    command = { "pkg-config", "--cflags", name } }
  assert(status == 0, name .. " is not known to pkg-config")
  return (text:gsub("%s+$", ""))
end

describe("simulated network", function()
  local dir, texts, flags

  setup(function()
    dir = server.new_dir()
    texts = redis_model.texts(dir .. "/redis_scripts.h")
    local lua = rawget(_G, "jit") and "luajit"
      or _VERSION:gsub("Lua ", "lua")
    flags = ("-fPIC -I%s %s %s"):format(dir, package_flags(lua),
      package_flags("hiredis"))
  end)

  teardown(function()
    server.remove_dir(dir)
  end)

  local function client(name, fault)
    local path = program.build(dir, name .. ".so", SOURCES,
      fault and fault.file and fault or nil, flags,
      "-shared -Wl,-z,nodelete -lhiredis")
    return assert(package.loadlib(path, "luaopen_redis_client"))()
  end

  it("never has two holders, strands nobody and leaves nothing", function()
    local machine = client("redis_client")
    for seed = SEED or 1, SEED or COUNT do
      local problem, log = redis_network.history(machine, texts, seed, nil,
        SEED ~= nil)
      assert.is_nil(problem, ("seed %d: %s\nto see it again: "
        .. "DLOCK_SIM_SEED=%d\n%s"):format(seed, problem or "", seed,
        table.concat(log, "\n")))
    end
  end)

  for i, fault in ipairs(LOOK and faults or {}) do
    it("would notice that " .. fault.name, function()
      local machine = client("faulty" .. i, fault)
      for seed = 1, ENOUGH do
        if redis_network.history(machine, texts, seed, fault.lax) then
          return
        end
      end
      error("not noticed in " .. ENOUGH .. " histories")
    end)
  end
end)
