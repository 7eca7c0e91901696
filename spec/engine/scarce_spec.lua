-- A Lua state that runs out of memory at any one of its allocations: nothing
-- crashes, and what C had in hand at that time is given back. Not on LuaJIT,
-- whose allocator cannot be exchanged; what our C code allocates by itself
-- fails in starved_spec, on every Lua.
if rawget(_G, "jit") then
  return
end

local library = require "spec.support.library"
local process = require "spec.support.process"
local server = require "spec.support.server"

-- Runs a script in a state whose allocator fails when it is told to: arm(n)
-- lets the nth allocation fail (and the one behind it, since Lua tries again
-- when it has collected); arm(n, true) all from then on; arm() none. It gives
-- whether one was to fail and did.
local HOST = [[
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#define TRIES (LUA_VERSION_NUM > 501 ? 2 : 1)

static long until;
static int left;

static void *allocate(void *ud, void *old, size_t size, size_t wanted) {
  (void)ud;
  if (wanted == 0) {
    free(old);
    return NULL;
  }
  if (left > 0 && (!old || wanted > size) && --until < 0) {
    left--;
    return NULL;
  }
  return realloc(old, wanted);
}

static int arm(lua_State *L) {
  long n = (long)luaL_optnumber(L, 1, 0);
  int failed = left > 0 && until < 0;
  failed = failed || (until < 0 && left == 0);
  left = 0;
  lua_pushboolean(L, failed);
  until = n - 1;
  left = n > 0 ? lua_toboolean(L, 2) ? 1 << 30 : TRIES : 0;
  return 1;
}

int main(int argc, char **argv) {
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L)
    return 2;
  luaL_openlibs(L);
  lua_pushcfunction(L, arm);
  lua_setglobal(L, "arm");
  for (int i = 2; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_setglobal(L, i == 2 ? "url" : "key");
  }
  if (luaL_loadstring(L, argv[1]) || lua_pcall(L, 0, 0, 0)) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    return 1;
  }
  lua_close(L);
  return 0;
}
]]

local COMMON = [[
  local dlock = require "dlock"
  local leaks = require "spec.support.leaks"
  if url:find("^memory") then
    url = "redis://memory"
    package.loaded["dlock.store.redis"] =
      require("spec.support.memory").load()
  end

  local function collect()
    for _ = 1, 3 do collectgarbage() end
  end

  -- Runs fn with memory that ends at each allocation in turn, until there is
  -- enough; between after each.
  local function starve(lasting, fn, between)
    for n = 1, 10000 do
      arm(n, lasting)
      local ok, problem = pcall(fn)
      local failed = arm()
      if not ok then
        assert(tostring(problem):find("memory"), problem)
      end
      between()
      if not failed then
        assert(ok, problem)
        assert(n > 20, n)
        return
      end
    end
    error("it never had enough")
  end
]]

local LIFE = COMMON .. [[
  local shared = not url:find("memory")
  local store
  local function life()
    store = assert(dlock.open { url = url, ttl = 5, io_timeout = 5,
      on_event = function() end })
    local lease = assert(store:lock(key, { timeout = 10 }))
    assert(select(3, store:try_lock(key)) == "busy")
    if not url:find("^file") then
      lease = assert(store:attach((assert(lease:detach()))))
    end
    store:inspect(key)
    assert(lease:extend(1))
    lease:on_lost(print)
    assert(lease:release())
    assert(store:with(key, function() return 1 end))
    assert(store:close())
  end
  life()
  collect()
  local before = leaks.snapshot()
  local other = assert(dlock.open { url = url, io_timeout = 5 })
  for _, lasting in ipairs { false, true } do
    starve(lasting, life, function()
      if store then -- it may have a lease that no variable refers to
        store:close()
        store = nil
      end
      collect()
      if shared then
        assert(assert(other:lock(key, { timeout = 10 })):release())
      end
    end)
  end
  assert(other:close())
  collect()
  for _, left in ipairs(leaks.since(before, 5)) do error(left) end
]]

local function lua_package()
  return "lua" .. _VERSION:match("%d+%.%d+")
end

local function flags()
  local status, out = process.run { command = { "pkg-config", "--cflags",
    "--libs", lua_package() } }
  assert(status == 0, "no headers of " .. lua_package())
  local list = { "-Wl,-E" }
  for flag in out:gmatch("%S+") do list[#list + 1] = flag end
  return list
end

describe("a Lua state without memory", function()
  local dir, host

  setup(function()
    dir = server.new_dir()
    host = library.program(dir, "scarce", HOST, flags())
  end)

  teardown(function() server.remove_dir(dir) end)

  local function run(script, url)
    local status, out, err = process.run {
      command = { host, script, url, "scarce:" .. lua_package() },
      tested = true, timeout = 120,
    }
    assert.equal("", err)
    assert.equal("", out)
    assert.equal(0, status)
  end

  for _, name in ipairs { "memory", "redis", "file" } do
    it("leaves nothing behind: " .. name, function()
      run(LIFE, name == "memory" and "memory:"
        or name == "file" and "file://" .. dir .. "/locks"
        or assert(os.getenv("DLOCK_TEST_REDIS")))
    end)
  end
end)
