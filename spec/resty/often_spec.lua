-- A store that is opened in each request, in a real nginx: the habit of those
-- who come from lua-resty-redis. Runs on LuaJIT only: that is the Lua which
-- nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local uv = require "luv"

local RUN = ("often%d:"):format(uv.os_getpid())

local HTTP = [[
  init_by_lua_block { dlock = require "dlock" }
]]

local SERVER = [[
  location = /once { content_by_lua_block {
    local store = assert(dlock.open{ url = os.getenv("DLOCK_TEST_REDIS"),
      prefix = "]] .. RUN .. [[" })
    local lease = assert(store:lock("key" .. ngx.var.arg_n % 20,
      { timeout = 20 }))
    ngx.print(tostring((lease:release())))
    if ngx.var.arg_close then assert(store:close()) end
  } }
  location = /keep { content_by_lua_block {
    local store = assert(dlock.open{ url = os.getenv("DLOCK_TEST_REDIS"),
      prefix = "]] .. RUN .. [[" })
    local lease = assert(store:lock("kept"))
    for i = 1, 50 do
      local other = assert(dlock.open{ url = os.getenv("DLOCK_TEST_REDIS"),
        prefix = "]] .. RUN .. [[" })
      assert(assert(other:lock("other")):release())
      assert(other:close())
    end
    ngx.print(tostring(lease:held()), tostring((lease:release())))
  } }
]]

describe("a store that each request of nginx opens", function()
  local n

  before_each(function()
    n = nginx.start { http = HTTP, server = SERVER,
      main = "worker_rlimit_nofile 1024;" }
  end)

  after_each(function() n:stop() end)

  local function count(pid, what)
    local found = 0
    local list = assert(uv.fs_scandir(("/proc/%d/%s"):format(pid, what)))
    while uv.fs_scandir_next(list) do found = found + 1 end
    return found
  end

  local function body(status, text)
    assert.equal(200, status)
    return text
  end

  local ways = { ["and leaves"] = "", ["and closes"] = "&close=1" }
  for how, suffix in pairs(ways) do
    it("a thousand times " .. how, function()
      for i = 1, 1000 do
        assert.equal("true", body(n:get("/once?n=" .. i .. suffix)))
      end
      local worker = n:workers()[1]
      local fds, threads = count(worker, "fd"), count(worker, "task")
      assert.is_true(fds < 250, fds)
      assert.is_true(threads < 40, threads)
      assert.same({}, n:complaints())
    end)
  end

  it("keeps its lease when others of its kind are closed", function()
    assert.equal("truetrue", body(n:get("/keep")))
  end)

  it("many at a time", function()
    local running = {}
    for round = 1, 10 do
      for i = 1, 50 do
        running[i] = n:begin(("/once?n=%d"):format(round * 50 + i))
      end
      for i = 1, 50 do
        assert.equal("true", body(running[i]:finish(30)))
      end
    end
    assert.same({}, n:complaints())
  end)
end)
