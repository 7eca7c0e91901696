-- The README's code runs: every ```lua block in it, from top to bottom, each in
-- a process of its own with the embedded store as the default. So do examples.

local core = require "dlock.core"
local dlock = require "dlock"
local options = require "dlock.options"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

local function blocks(path)
  local found, line_number, block = {}, 0, nil
  for line in io.lines(path) do
    line_number = line_number + 1
    if line:find("^%s*```") and block then
      found[#found + 1], block = block, nil
    elseif line:find("^%s*```lua") then
      block = { line = line_number, version = line:match("lua%s+(5%.%d)") }
    elseif block then
      block[#block + 1] = line
    end
  end
  assert(not block, "a block that never ends")
  return found
end

local function runs_here(block)
  return not block.version or _VERSION >= "Lua " .. block.version
end

describe("README.md", function()
  local dir, counter

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  counter = 0
  for _, block in ipairs(blocks("README.md")) do
    counter = counter + 1
    if runs_here(block) then
      it("runs, line " .. block.line, function()
        local path = dir .. "/block.lua"
        server.write_file(path, ("\n"):rep(block.line)
          .. table.concat(block, "\n") .. "\n")
        local status, _, err = process.run {
          file = path, timeout = 20,
          env = { DLOCK_URL = "file://" .. dir .. "/locks" },
        }
        assert.are.equal("", err)
        assert.are.equal(0, status)
      end)
    end
  end

  it("has code in it", function()
    assert.is_true(counter >= 5)
  end)

  -- Every function that a user can call, as objects really have them.
  local function functions()
    local store = assert(dlock.open("file:///unused"))
    local objects = {
      store = debug.getmetatable(store).__index,
      mutex = debug.getmetatable(assert(store:mutex("k"))).__index,
      rwlock = debug.getmetatable(assert(store:rwlock("k"))).__index,
      canceller = debug.getmetatable(dlock.canceller()).__index,
      lease = core.lease_methods,
    }
    local names = { "dlock.open", "dlock.canceller", "dlock.all" }
    local election = debug.getmetatable(assert(store:election("k"))).__index
    for name in pairs(election) do
      if not objects.mutex[name] then
        names[#names + 1] = "election:" .. name
      end
    end
    for object, methods in pairs(objects) do
      for name in pairs(methods) do
        names[#names + 1] = object .. ":" .. name
      end
    end
    return names
  end

  it("and meta.lua have every function", function()
    local readme = server.read_file("README.md")
    local meta = server.read_file("lua/dlock/meta.lua")
    assert.is_true(#functions() > 20)
    for _, name in ipairs(functions()) do
      assert.is_truthy(readme:find("`" .. name .. "(", 1, true)
        or readme:find("**`" .. name .. "(", 1, true), name)
      assert.is_truthy(meta:find("function " .. name .. "(", 1, true), name)
    end
  end)

  it("and meta.lua have every option", function()
    local readme = server.read_file("README.md")
    local meta = server.read_file("lua/dlock/meta.lua")
    for _, call in ipairs { "dlock.open", "store:lock" } do
      local _, problem = pcall(options.check, { [{}] = 1 }, call, 1)
      local names = problem:match("it takes (.*)%)")
      assert.is_truthy(names)
      for name in names:gmatch("[%w_]+") do
        assert.is_truthy(readme:find("`" .. name .. "`", 1, true), name)
        assert.is_truthy(meta:find("field " .. name .. "? ", 1, true), name)
      end
    end
  end)
end)

describe("examples/", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local scan = uv.fs_scandir("examples")
  local names = {}
  for name, kind in uv.fs_scandir_next, scan do
    if kind ~= "directory" then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    it(name .. " runs", function()
      local status, out, err = process.run {
        file = "examples/" .. name, timeout = 20,
        args = name == "demo.lua" and { "one", dir .. "/ledger" } or {},
        env = { DLOCK_URL = "file://" .. dir .. "/locks" },
      }
      assert.are.equal("", err)
      assert.are.equal(0, status)
      assert.is_truthy(#out > 0)
    end)
  end
end)
