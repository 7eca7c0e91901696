local cqueues = require "cqueues"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local protect = require "dlock.protect"

describe("protect.call", function()
  it("is pcall", function()
    assert.are.same({ true, 1, nil, 3 },
      { protect.call(function(...) return ... end, 1, nil, 3) })
    local value = {}
    assert.are.same({ false, value }, { protect.call(error, value) })
    assert.are.same({ true, "number" }, { protect.call(type, 5) })
    assert.is_false((protect.call(nil)))
  end)

  it("can be yielded across, on every Lua", function()
    local co = coroutine.wrap(function(...)
      return "end", protect.call(function(...)
        local x = coroutine.yield(...)
        local y, z = coroutine.yield(x, nil)
        return y, z
      end, ...)
    end)
    assert.are.same({ 1, 2 }, { co(1, 2) })
    assert.are.same({ "x", nil }, { co("x") })
    assert.are.same({ "end", true, "y", "z" }, { co("y", "z") })
  end)

  it("catches an error that is raised after a yield, nested too", function()
    local co = coroutine.wrap(function()
      return protect.call(function()
        local ok, problem = protect.call(function()
          coroutine.yield("first")
          error("inner", 0)
        end)
        assert(not ok)
        coroutine.yield(problem)
        error("outer", 0)
      end)
    end)
    assert.are.equal("first", co())
    assert.are.equal("inner", co())
    assert.are.same({ false, "outer" }, { co() })
  end)

  it("does not change the owner", function()
    local main = protect.owner()
    assert.are.equal(main, protect.owner())
    local co = coroutine.wrap(function()
      local mine = protect.owner()
      assert(mine ~= main)
      local ok, inside, after = protect.call(function()
        local before = protect.owner()
        coroutine.yield()
        return before, protect.owner()
      end)
      return ok, mine == inside, mine == after
    end)
    co()
    assert.are.equal(main, protect.owner())
    assert.are.same({ true, true, true }, { co() })
    coroutine.wrap(function()
      local mine = protect.owner()
      local _, _, inside = protect.call(protect.call, protect.owner)
      assert.are.equal(mine, inside)
    end)()
  end)
end)

-- How a function can be called by C, and how it still can yield.
local below = {
  ["table.sort"] = function(fn) table.sort({ 2, 1 }, fn) end,
  ["string.gsub"] = function(fn) string.gsub("x", ".", fn) end,
  ["a reader of load"] = function(fn)
    load(function() fn() end) -- luacheck: ignore 512
  end,
  ["a call in table.sort"] = function(fn)
    table.sort({ 2, 1 }, function() protect.call(fn) end)
  end,
  ["a call in a call in table.sort"] = function(fn)
    table.sort({ 2, 1 }, function() protect.call(protect.call, fn) end)
  end,
}

local through = {
  ["a call"] = function(fn) protect.call(fn) end,
  ["a call in a call"] = function(fn) protect.call(protect.call, fn) end,
  ["a tail call"] = function(fn) return fn() end,
  ["a coroutine in table.sort"] = function(fn)
    table.sort({ 2, 1 }, function() coroutine.wrap(fn)() end)
  end,
}

local generic_for = function(fn)
  for _ in function(_, last) fn() return not last or nil end do
    assert(_)
  end
end
(_VERSION == "Lua 5.1" and not rawget(_G, "jit") and below or through)
  ["an iterator"] = generic_for

-- A metamethod that C calls. Which C functions do that without yields differs:
-- 5.2 has most.
local function object(fn)
  local function call()
    fn()
    error("and nothing is printed")
  end
  return setmetatable({}, { __tostring = call, __pairs = call,
    __ipairs = call })
end

local with_metamethods = { print = print }
if _VERSION == "Lua 5.2" then
  with_metamethods = { print = print, tostring = tostring, pairs = pairs,
    ipairs = ipairs,
    ["string.format"] = function(...) return string.format("%s", ...) end }
end
for name, call in pairs(with_metamethods) do
  below["a metamethod in " .. name] = function(fn)
    protect.call(call, object(fn))
  end
end

describe("a yield", function()
  local function expect(can, way)
    local said
    coroutine.wrap(function()
      way(function() said = protect.can_yield() end)
    end)()
    assert.are.equal(can, said)
  end

  it("is possible in a coroutine only", function()
    assert.is_false(protect.can_yield())
    expect(true, function(fn) fn() end)
  end)

  for name, way in pairs(through) do
    it("is possible through " .. name, function() expect(true, way) end)
  end

  for name, way in pairs(below) do
    it("is not possible below " .. name, function() expect(false, way) end)
  end
end)

-- Each runs fn where its host can wait, until that has ended.
local run_in = {
  cqueues = function(fn)
    local queue = cqueues.new()
    queue:wrap(fn)
    assert(queue:loop(20))
  end,
  luv = loop.in_coroutine,
}

describe("a wait below table.sort", function()
  for host, run in pairs(run_in) do
    it("is refused in " .. host .. ", and leaves nothing", function()
      local store = assert(dlock.open { host = host,
        url = "file://" .. os.getenv("DLOCK_TEST_DIR") .. "/below" })
      local held, waited = nil, 0
      run(function()
        local lease = assert(store:lock("held"))
        local message, refused, kept
        protect.call(table.sort, { 2, 1 }, function(a, b)
          message, refused = select(2, store:lock("k", { timeout = 5 }))
          kept = select(3, lease:release())
          return a < b
        end)
        assert.are.equal("unsupported", refused)
        assert.truthy(message:find("below a C function", 1, true), message)
        assert.are.equal("unsupported", kept)
        held = lease:held()
        assert(lease:release())
        assert(assert(store:lock("k", { timeout = 5 })):release())
        local _, client = next(store)
        for _ in pairs(client.waiting) do waited = waited + 1 end
        assert(store:close(1))
      end)
      assert.is_true(held)
      assert.are.equal(0, waited)
    end)
  end
end)
