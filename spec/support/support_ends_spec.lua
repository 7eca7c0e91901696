-- Who ends one of the scripts in .ci ends all that belongs to it: what it runs,
-- and the servers and processes that this started.

local lot = require "spec.support.lot"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

-- A spec that never ends, with a server and a process.
local ENDLESS = [[
  local process = require "spec.support.process"
  local redis = require "spec.support.redis"
  it("never ends", function()
    redis.start()
    process.spawn { script = "print 'endless' io.read()" }
    while true do require("luv").sleep(1000) end
  end)
]]

-- What is told to end, once such a process runs, and by which signal.
local RUNS = {
  { "one spec", ".ci/spec", "print 'endless'", "sigterm" },
  { "one spec, by Ctrl-C", ".ci/spec", "print 'endless'", "sigint" },
  { "several runs side by side", ".ci/test lua5.4 luajit", "print 'endless'",
    "sigterm" },
  { "the torture", ".ci/torture", "torture/worker.lua", "sigterm" },
  { "the fuzzers", ".ci/fuzz", "fuzz/urls.lua", "sigterm" },
  { "a whole run", ".ci/run", "examples/demo.lua", "sigterm" },
}
-- Nothing of that depends on the Lua.
local is_mine = lot.draw("ways to end", 4)

-- Theirs have the directory in their environment; redis-server writes over
-- that, and is in it.
local function processes(dir)
  local list, scan = {}, uv.fs_scandir("/proc")
  for name in uv.fs_scandir_next, scan do
    local of = name:match("^%d+$") and "/proc/" .. name
    if of and server.alive(name) and (server.read_file(of .. "/environ")
        :find(dir, 1, true) or (uv.fs_readlink(of .. "/cwd") or "")
        :find(dir, 1, true)) then
      list[#list + 1] = name .. " "
        .. server.read_file(of .. "/cmdline"):gsub("%z", " ")
    end
  end
  return list
end

local function files(dir)
  local list = {}
  for name in uv.fs_scandir_next, uv.fs_scandir(dir) do
    list[#list + 1] = name
  end
  return list
end

describe("a script of .ci that is told to end leaves nothing behind:",
function()
  local dir, specs

  before_each(function()
    dir, specs = server.new_dir(), server.new_dir()
  end)

  after_each(function()
    process.close_all()
    for _, one in ipairs(processes(dir)) do
      uv.kill(tonumber(one:match("%d+")), "sigkill")
    end
    server.remove_dir(dir)
    server.remove_dir(specs)
  end)

  local function start(line)
    local spec = specs .. "/endless_spec.lua"
    server.write_file(spec, ENDLESS)
    local env = { FILE = spec, SPEC = spec, TMPDIR = dir, STORE = "file",
      FUZZ = "urls", SECONDS = "60" }
    for _, name in ipairs { "CASE", "WITH", "DLOCK_TALLY", "DLOCK_FAILED",
        "DLOCK_BARE", "DLOCK_DEADLINE", "DLOCK_TEST_DIR", "DLOCK_REPORT",
        "DLOCK_TEST_PROGRAMS", "DLOCK_LONG", "SPEC_TIMEOUT", "MAKEFLAGS",
        "MAKELEVEL" } do
      env[name] = false
    end
    local command = {}
    for word in line:gmatch("%S+") do command[#command + 1] = word end
    return process.spawn { command = command, env = env, stderr = "pipe" }
  end

  for i, one in ipairs(RUNS) do
    local name, line, awaited, signal = (table.unpack or unpack)(one)
    if is_mine(i) then
      it(name, function()
        local run = start(line)
        loop.eventually(awaited .. " runs", 180, function()
          assert(not run.status, run.err)
          return table.concat(processes(dir), "\n"):find(awaited, 1, true)
        end)
        run:kill(signal)
        assert.are.equal(130, (run:wait(60)))
        -- Who was killed may take a moment to be gone.
        pcall(loop.eventually, "nobody", 5, function()
          return #processes(dir) == 0
        end)
        assert.are.same({ {}, {} }, { processes(dir), files(dir) })
      end)
    end
  end
end)
