-- .ci/specs, with which all specs are run: what it says and how it ends when
-- one of them hangs or fails.

local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"

local NAME = process.lua:match("[^/]*$")

local HANGS = [[
  describe("a spec", function()
    it("ends", function() end)
    it("waits for ever", function() require("luv").sleep(1e6) end)
  end)
]]

-- Each fails as often as the number in its name says.
local UNSTEADY = [[
  local function run(i, times)
    local path = os.getenv("DLOCK_TEST_DIR") .. "/run" .. i
    local file = assert(io.open(path, "a+"))
    local before = #file:read("*a")
    file:write("x")
    file:close()
    assert.is_true(before >= times)
  end
  describe("a spec", function()
    it("passes", function() end)
    for i, times in ipairs { %s } do
      it(("%%d fails %%d times (at times)"):format(i, times), function()
        run(i, times)
      end)
    end
  end)
]]

describe("a run of specs", function()
  local dir

  before_each(function() dir = server.new_dir() end)

  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function start(lua, text, opts)
    local path = dir .. "/" .. (opts.name or "some_spec.lua")
    server.write_file(path, text)
    return process.spawn { command = { ".ci/specs", "a run", lua },
      stderr = "pipe", env = { SPEC = path, DLOCK_TEST_LIMIT = opts.limit,
        DLOCK_TEST_DIR = dir, DLOCK_TALLY = false, DLOCK_FAILED = false,
        CASE = false,
        DLOCK_AGAIN = opts.again or false } }
  end

  local function expect(p, line, status)
    p:expect(line, 60)
    assert.are.equal(status, (p:wait(60)))
  end

  it("finds the build of a Lua that is given by its path", function()
    local found = assert(io.popen("command -v " .. NAME)):read("*l")
    expect(start(found, 'it("is found", function() require "dlock" end)', {}),
      "^== a run: 1 passed, 0 failed", 0)
  end)

  it("ends a test that has no end, and names it", function()
    local p = start(NAME, HANGS, { limit = "2", again = "1" })
    p:expect("^FAILED after 2 s, .*: a spec waits for ever$", 60)
    expect(p, "^FAILED a run did not finish", 1)
  end)

  -- Nothing of that depends on the Lua.
  local is_mine = lot.draw("failures", 5)

  for i, case in ipairs {
    { "tries again what failed, if it is told to", { 1, 1 }, again = "1",
      failed = 0 },
    { "fails by what fails again", { 1, 2 }, again = "1", failed = 2 },
    { "fails by more than two", { 1, 1, 1 }, again = "1", failed = 3 },
    { "fails at once where two holders would show", { 1 }, again = "1",
      failed = 1, name = "exclusion_spec.lua" },
    { "fails at once if it is not told to try again", { 1 }, failed = 1 },
  } do
    if is_mine(i) then
      it(case[1], function()
        local times = case[2]
        local p = start(NAME, UNSTEADY:format(table.concat(times, ", ")), case)
        p:expect("^FAILED a spec 1 fails 1 times", 60)
        if case.failed == 0 then
          p:expect("^== a run, again: 1 passed, 0 failed", 60)
          p:expect("^== a run, again: 1 passed, 0 failed", 60)
          p:expect("^UNSTEADY a run: 2 ", 60)
        end
        expect(p, ("^== a run: %d passed, %d failed"):format(
          1 + #times - case.failed, case.failed), case.failed > 0 and 1 or 0)
      end)
    end
  end
end)

describe("watchdog", function()
  it("passes on how the rest ended", function()
    local dir = server.new_dir()
    local p = process.spawn { command = { "spec/support/watchdog", "5",
      dir .. "/now", "sh", "-c", "exit 3" } }
    assert.are.equal(3, (p:wait()))
    server.remove_dir(dir)
  end)
end)
