-- A program closes its Lua state, which unloads the libraries that
-- it loaded, and goes on. Threads of ours may live longer than that, those of
-- ZooKeeper while a server hangs. Without the code under their feet they would
-- take the process with them, so no library of ours can be unloaded.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local library = require "spec.support.library"
local process = require "spec.support.process"
local server = require "spec.support.server"
local shared = require "spec.support.shared"
local uv = require "luv"
local zk = require "spec.support.zk"

-- Runs the script in a new state, three times, and closes each; a line on its
-- input is waited for before each, and before the end.
local HOST = [[
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

int main(int argc, char **argv) {
  (void)argc;
  for (int i = 0; i < 3; i++) {
    puts("up");
    fflush(stdout);
    getchar();
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_pushstring(L, argv[2]);
    lua_setglobal(L, "url");
    if (luaL_loadstring(L, argv[1]) || lua_pcall(L, 0, 0, 0)) {
      fprintf(stderr, "%s\n", lua_tostring(L, -1));
      return 1;
    }
    lua_close(L);
    puts("closed");
    fflush(stdout);
  }
  getchar();
  puts("alive");
  fflush(stdout);
  return 0;
}
]]

-- Ends with a live store, a lease, and the threads of a look-up.
local SCRIPT = [[
  local dlock = require "dlock"
  store = assert(dlock.open { url = url, session_timeout = 2 })
  lease = assert(store:lock("unload"))
  print "held"
  io.stdout:flush()
  io.read()
]]

-- Opens a store while its state closes, and tries to once more at the very end.
-- LuaJIT's compiled `pairs` may go round for ever in a finaliser: reference.md.
local LATE = [[
  if jit then jit.off() end
  local function at_end(fn)
    if not newproxy then return setmetatable({}, { __gc = fn }) end
    local object = newproxy(true)
    getmetatable(object).__gc = fn
    return object
  end
  local dlock
  first = at_end(function()
    print("late " .. tostring(select(3, dlock.open(url))))
    io.stdout:flush()
  end)
  dlock = require "dlock"
  second = at_end(function()
    store = assert(dlock.open(url))
    lease = assert(store:lock("late"))
    print "held"
    io.stdout:flush()
    io.read()
  end)
]]

local function lua_package()
  return rawget(_G, "jit") and "luajit" or "lua" .. _VERSION:match("%d+%.%d+")
end

local function flags()
  local status, out = process.run { command = { "pkg-config", "--cflags",
    "--libs", lua_package() } }
  assert(status == 0, "no headers of " .. lua_package())
  local list = { "-Wl,-E" }
  for flag in out:gmatch("%S+") do list[#list + 1] = flag end
  return list
end

-- Its threads, by their numbers.
local function threads(pid)
  local found, scan = {}, uv.fs_scandir(("/proc/%d/task"):format(pid))
  for id in uv.fs_scandir_next, scan do found[id] = true end
  return found
end

-- Whether it has threads that it had not before. (Of those some may have been
-- about to end.)
local function has_new(pid, before)
  for id in pairs(threads(pid)) do
    if not before[id] then return true end
  end
  return false
end

describe("a program that closes its Lua state and goes on,",
function()
  local dir, host, one

  setup(function()
    dir = server.new_dir()
    host = library.program(dir, "host", HOST, flags())
  end)
  teardown(function() server.remove_dir(dir) end)
  after_each(function()
    process.close_all()
    if one then one:stop() end
    one = nil
  end)

  local function begin(url, env, script)
    return process.spawn { command = { host, script or SCRIPT, url },
      stderr = "pipe",
      env = env, tested = true }
  end

  -- One state; does `meanwhile` while its lease is held. Returns the threads
  -- that there were before.
  local function round(p, meanwhile, last)
    p:expect("^up")
    local before = threads(p.pid)
    p:write("\n")
    p:expect("^held")
    if meanwhile then meanwhile() end
    p:write("\n")
    p:expect(last or "^closed")
    return before
  end

  local function ends_well(p)
    p:write("\n")
    local line = p:read_line()
    local status, signal = p:wait()
    assert.are.equal("", p.err)
    assert.are.equal("alive", line)
    assert.are.equal(0, status)
    assert.are.equal(0, signal)
  end

  local urls = {
    redis = os.getenv("DLOCK_TEST_REDIS"):gsub("127.0.0.1", "localhost"),
    zookeeper = shared.at("DLOCK_TEST_ZOOKEEPER"),
    file = "file://" .. os.getenv("DLOCK_TEST_DIR") .. "/locks",
  }
  for name, url in pairs(urls) do
    it("on " .. name, function()
      local p = begin(url)
      for _ = 1, 3 do round(p) end
      ends_well(p)
    end)
  end

  for name, url in pairs(urls) do
    it("on " .. name .. ", of which nothing is left that was made meanwhile",
      function()
        -- A lease that nobody finalises is memory that nobody gives back.
        local p = begin(url, { ASAN_OPTIONS = "detect_leaks=0" }, LATE)
        local store = assert(dlock.open(url))
        local before
        for i = 1, 3 do
          local there = round(p, nil, "^late closed$")
          before = i == 2 and there or before -- the first leaves a sanitizer's
          p:expect("^closed$")
          assert(assert(store:lock("late", { timeout = 20 })):release())
        end
        eventually("its threads are through", 20, function()
          return not has_new(p.pid, before)
        end)
        assert(store:close())
        ends_well(p)
      end)
  end

  it("on ZooKeeper while the server hangs", function()
    one = zk.start()
    -- A store that did not end in time is left to the process on purpose.
    local p = begin(one.url, { ASAN_OPTIONS = "detect_leaks=0" })
    local before
    for i = 1, 3 do
      local there = round(p, i > 1 and function() one:pause() end)
      before = i == 2 and there or before -- the first leaves a sanitizer's
      if i > 1 then
        assert.is_true(has_new(p.pid, there))
        one:resume()
      end
    end
    eventually("its threads are through", 20, function()
      return not has_new(p.pid, before)
    end)
    ends_well(p)
  end)

  it("cannot unload a library of ours", function()
    for _, name in ipairs { "core", "store/redis", "store/zookeeper",
        "store/file" } do
      local path = library.find("dlock/" .. name)
      local status, out = process.run { command = { "readelf", "-d", path } }
      assert.are.equal(0, status)
      assert.is_truthy(out:find("NODELETE", 1, true), path)
    end
  end)
end)
