-- memory://, the store for tests of programs: files in a directory that goes
-- with the last store of the process.
local core = require "dlock.core"
local dlock = require "dlock"
local process = require "spec.support.process"
local uv = require "luv"

local function directories(pid)
  local found = {}
  for _, parent in ipairs { "/dev/shm", "/tmp" } do
    local list = assert(uv.fs_scandir(parent))
    for name in function() return uv.fs_scandir_next(list) end do
      if name:find("^dlock%-memory%-" .. ("%d"):format(pid) .. "%-") then
        found[#found + 1] = parent .. "/" .. name
      end
    end
  end
  return found
end

describe("memory://", function()
  it("is one store for all of a process, and goes with the last", function()
    local a, b = assert(dlock.open("memory://")), dlock.open("memory://")
    local lease = assert(a:lock("k"))
    assert.equal("busy", select(3, b:try_lock("k")))
    assert.equal(1, #directories(core.pid()))
    assert.is_true(lease:release())
    local second = assert(b:lock("k"))
    assert.is_true(second.fence > lease.fence)
    assert(a:close())
    assert.is_true(second:held())
    assert.equal(1, #directories(core.pid()))
    assert(b:close())
    assert.same({}, directories(core.pid()))
  end)

  it("begins anew, and has nothing of another process", function()
    local store = assert(dlock.open { url = "memory://", prefix = "p:" })
    local lease = assert(store:lock("k"))
    local status, out = process.run { script = [[
      local store = require("dlock").open("memory://")
      print(store, assert(store:lock("p:k")).key, store:close())
    ]] }
    assert.equal(0, status)
    assert.equal("dlock.store: memory://\tp:k\ttrue\n", out)
    assert(lease:release())
    assert(store:close())
    assert.same({}, directories(core.pid()))
  end)

  it("goes with the process", function()
    for _, ending in ipairs { "", "os.exit(0)", "error 'x'" } do
      local p = process.spawn { stderr = "pipe", script = [[
        KEPT = assert(require("dlock").open("memory://"):lock("k"))
        print(require("dlock.core").pid())
      ]] .. ending }
      local pid = tonumber(p:read_line())
      p:wait()
      assert.same({}, directories(pid), ending)
    end
  end)

  it("takes nothing behind it", function()
    for _, wrong in ipairs { "memory://x", "memory:///x", "memory://localhost",
      "memory://u:p@", "memory://u@x/y" } do
      local store, message, code = dlock.open(wrong)
      assert.is_nil(store, wrong)
      assert.equal("invalid", code, wrong)
      assert.matches("^invalid: ", message)
    end
  end)
end)
