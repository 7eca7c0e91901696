-- A Lua without a debug library, as an embedded one may be.
local process = require "spec.support.process"
local server = require "spec.support.server"

local BEGIN = [[
debug, package.loaded.debug = nil, nil
local dlock, uv = require "dlock", require "luv"
local url = "file://" .. arg[1]
local blocking = assert(dlock.open { url = url, host = "blocking" })
local store = assert(dlock.open { url = url, host = "luv" })
local held = assert(blocking:lock("waits"))

local function is_waited_for()
  local seen = blocking:inspect("waits")
  return seen and seen.waiters and #seen.waiters > 0
end

-- Runs fn in a coroutine that is to wait.
local function run(fn)
  coroutine.wrap(fn)()
  while not is_waited_for() do uv.run("nowait") end
  assert(held:release())
  uv.run()
end

]]

local ALL = [[
local protect = require "dlock.protect"
local function inside(lease, x) return lease.key, x end
local callable = setmetatable({}, {
  __call = function(_, ...) return inside(...) end,
})

local function fails(...)
  local ok, problem = protect.call(...)
  return tostring(ok) .. " " .. tostring(problem)
end

local function play(store)
  print(store:with("k", inside, 1))
  print(store:with("k", callable, 2))
  print(store:mutex("k"):with({ timeout = 1 }, inside, 3))
  print(fails(store.with, store, "k", function() error("a problem", 0) end))
  print(fails(store.with, store, "k", { timeout = 1 }, 5))
  print(assert(store:lock("k")):release())
end

play(blocking)
local over
run(function()
  play(store)
  store:with("waits", function() print("it waited") end)
  over = true
end)
assert(over)
]]

local PLAY = [[
true	k	1
true	k	2
true	k	3
false a problem
false store:with needs a function to run, not a number
true
]]

local ERROR = [[
run(function()
  store:with("waits", function() error("nobody catches it", 0) end)
end)
]]

describe("a Lua without a debug library", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function run(script)
    local p = process.spawn { script = BEGIN .. script, stderr = "pipe",
      args = { dir .. "/locks" } }
    return p:wait(), p
  end

  it("has all of dlock", function()
    local status, p = run(ALL)
    assert.equal("", p.err)
    assert.equal(PLAY .. PLAY .. "it waited\n", p.out)
    assert.equal(0, status)
  end)

  it("hears from luv of an error that ends a coroutine", function()
    local _, p = run(ERROR)
    assert.truthy(p.err:find("nobody catches it", 1, true), p.err)
    assert.is_nil(p.err:find("debug", 1, true))
  end)
end)
