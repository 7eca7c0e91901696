-- Fences of the file store where the clock does not help: it is set back by a
-- day, and only what was kept makes later fences larger.

local clock = require "spec.support.clock"
local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local DAY = 86400

describe("fences of the file store, with the clock set back,", function()
  local dir, base, ahead

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
    ahead = clock.new(base)
    ahead:step(DAY)
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  local function release(p, id)
    p:send("release", id)
    p:expect("^" .. id .. " released$")
  end

  -- Holds each of so many keys once, a day ahead; returns the fences.
  local function before(count)
    local a, fences = tool.start(dir, ahead.env), {}
    for i = 1, count do
      fences[i] = a:hold("a", "key" .. i)
      release(a, "a")
    end
    ahead:step(-DAY)
    return a, fences
  end

  -- All of them, by somebody who has the time of today.
  local function check(p, fences)
    for i, last in ipairs(fences) do
      fences[i] = p:hold("b", "key" .. i)
      assert.is_true(fences[i] > last, ("%d after %d"):format(fences[i], last))
      release(p, "b")
    end
  end

  it("rise when idle files were deleted at the closing of the store",
    function()
      local a, fences = before(3)
      a:ask("close")
      assert.is_nil(uv.fs_stat(dir .. "/key1"))
      check(tool.start(dir), fences)
    end)

  it("rise when idle files were deleted to keep the directory small",
    function()
      local a, fences = before(70)
      assert.is_nil(uv.fs_stat(dir .. "/key1"))
      check(tool.start(dir), fences)
      check(a, fences)
    end)

  it("rise when the files of a killed process were swept", function()
    local a, fences = before(3)
    a:hold("a", "other")
    a:kill()
    -- Its notes are a day ahead too, so the next one to connect sweeps.
    local b = tool.start(dir)
    b:ask("ping")
    b:ask("close")
    assert.is_nil(uv.fs_stat(dir .. "/key1"))
    check(tool.start(dir), fences)
  end)

  it("rise when ~store was moved away", function()
    local a, fences = before(1)
    assert(uv.fs_rename(dir .. "/~store", base .. "/store"))
    a:ask("close")
    assert.is_nil(uv.fs_stat(dir .. "/key1"))
    check(tool.start(dir), fences)
  end)

  it("stay below 10^14 though it was in 2106 once", function()
    ahead:step(2^32 - 1 - os.time() - DAY)
    local a = tool.start(dir, ahead.env)
    local fence = a:hold("a", "key1")
    assert.is_true(fence < 1e14, ("%d"):format(fence))
    release(a, "a")
    a:ask("close")
    local later = tool.start(dir):hold("b", "key1")
    assert.is_true(later > fence)
    assert.is_true(later < 1e14, ("%d"):format(later))
  end)

  it("are not given while fences of deleted files cannot be read", function()
    local a, fences = before(1)
    a:ask("close")
    assert(uv.fs_rename(dir .. "/~store", base .. "/store"))
    assert(uv.fs_mkdir(dir .. "/~store", 448))
    local b = tool.start(dir)
    b:acquire("b", "key1")
    b:expect("^b unavailable: .*~store")
    assert(uv.fs_rmdir(dir .. "/~store"))
    assert(uv.fs_rename(base .. "/store", dir .. "/~store"))
    check(b, fences)
  end)
end)
