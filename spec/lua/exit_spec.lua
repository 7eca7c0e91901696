-- The end of a process whose Lua state is not closed (os.exit), and signals
-- that the program gave to dlock.release_on: what it holds is given back.
local core = require "dlock.core"
local dlock = require "dlock"
local library = require "spec.support.library"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"

local PRELUDE = [[
  local dlock = require "dlock"
  local url, key, library = arg[1], arg[2], arg[3]
  local store = assert(dlock.open { url = url })
  local lease = assert(store:lock(key))
  local function ready() io.write("ready\n") io.flush() io.read() end
]]

local count = 0

describe("a process that holds a lock gives it back", function()
  local dir, key, forker

  setup(function()
    dir = server.new_dir()
    forker = library.build(dir, "fork", [[
      #include <sys/wait.h>
      #include <stdlib.h>
      #include <unistd.h>
      int do_exit_in_child(void *lua) {
        (void)lua;
        pid_t child = fork();
        if (child == 0)
          exit(0);
        return waitpid(child, NULL, 0) == child ? 0 : 1;
      }
      int do_kill_child(void *lua) {
        (void)lua;
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
          kill(getpid(), SIGTERM);
          _exit(3);
        }
        waitpid(child, &status, 0);
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 1;
      }
    ]])
  end)

  teardown(function() server.remove_dir(dir) end)

  before_each(function()
    count = count + 1
    key = ("exit%d.%d"):format(core.pid(), count)
  end)

  after_each(function() process.close_all() end)

  local function spawn(url, script)
    local p = process.spawn { script = PRELUDE .. script, stderr = "pipe",
      args = { url, key, forker } }
    p:expect("ready")
    return p
  end

  local function go_on(p)
    p:write("\n")
    return p:wait()
  end

  local function expect_free(subject)
    local store = assert(dlock.open(subject.url()))
    local lease = assert(store:lock(key, { timeout = 5 }))
    assert.is_true(lease:release())
    assert(store:close())
  end

  for _, subject in ipairs(lot.stores(subjects)) do
    it("by os.exit: " .. subject.name, function()
      local p = spawn(subject.url(), "ready() os.exit(7)")
      assert.equal(7, go_on(p))
      assert.equal("", p.err)
      expect_free(subject)
    end)
  end

  local redis
  for _, subject in ipairs(subjects) do
    if subject.name == "redis" then redis = subject end
  end

  it("in bounded time when the server is silent", function()
    local between = proxy.start(redis.url())
    local p = spawn(between.url, "ready() os.exit(7)")
    between:hold("both")
    local start = core.now()
    assert.equal(7, go_on(p))
    assert.is_true(core.now() - start < 2)
    between:release()
    between:stop()
  end)

  it("but not by the exit of a child that it forked", function()
    local p = spawn(redis.url(), [[
      assert(package.loadlib(library, "do_exit_in_child"))()
      ready()
      print(lease:held(), lease:release())
    ]])
    p:write("\n")
    p:expect("^true\ttrue$")
    assert.equal(0, p:wait())
  end)

  for name, number in pairs { TERM = 15, HUP = 1 } do
    it("at a signal, which then ends it: " .. name, function()
      local p = spawn(redis.url(),
        [[ assert(dlock.release_on("TERM", "HUP")) ready() ]])
      p:kill("sig" .. name:lower())
      assert.equal(number, (select(2, p:wait())))
      expect_free(redis)
    end)
  end

  it("at a signal, before its own handler runs", function()
    local p = spawn(redis.url(), [[
      assert(dlock.release_on("INT")) -- the interpreter has a handler
      io.write("ready\n")
      local ok, problem = pcall(function()
        while true do store:ping() end
      end)
      print(ok, problem:match("interrupted!"), lease:held(),
        select(3, store:ping()))
    ]])
    p:kill("sigint")
    p:expect("^false\tinterrupted!\tfalse\tclosed$")
    assert.equal(0, p:wait())
    expect_free(redis)
  end)

  it("at a signal, which does in a forked child what it did before", function()
    local p = spawn(redis.url(), [[
      assert(dlock.release_on("TERM"))
      print(assert(package.loadlib(library, "do_kill_child"))() or "ended")
      ready()
      print(lease:held(), lease:release())
    ]])
    p:write("\n")
    p:expect("^true\ttrue$")
    assert.equal(0, p:wait())
  end)

  it("at names of signals only", function()
    for _, wrong in ipairs { "SIGTERM", "KILL", "term", "", "STOP" } do
      assert.error_matches(function() dlock.release_on("TERM", wrong) end,
        "dlock.release_on takes names of signals .*" .. wrong)
    end
    assert.error_matches(function() dlock.release_on() end, "not a nil")
    assert.error_matches(function() dlock.release_on(15) end, "not a number")
    assert.error_matches(function() dlock:release_on("TERM") end, "with a dot")
  end)
end)
