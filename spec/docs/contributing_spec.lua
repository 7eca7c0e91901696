-- The commands of CONTRIBUTING.md work: each ```sh block is run as it stands (a
-- server that it names is that of the tests), in a shell that knows nothing of
-- the tests around it. A ```text block is the trace of the block before it.
-- Each run does half of the blocks, by lot.
-- This is done under one Lua, since the commands name theirs, and not under a
-- sanitizer, which would judge the shell as well.
if _VERSION ~= "Lua 5.4" or os.getenv("DLOCK_TEST_SANITIZER") then
  return
end

local lot = require "spec.support.lot"
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local server = require "spec.support.server"

local PAGE = "CONTRIBUTING.md"

describe(PAGE, function()
  after_each(process.close_all)

  -- Without make's own variables, which say what the make above is doing.
  local function run(block)
    local command = { "env", "-i" }
    for _, name in ipairs { "PATH", "HOME", "BUILD" } do
      local value = os.getenv(name)
      command[#command + 1] = value and name .. "=" .. value
    end
    for _, word in ipairs { "bash", "-euo", "pipefail", "-c",
        pages.here(block, { redis = os.getenv("DLOCK_TEST_REDIS") }) } do
      command[#command + 1] = word
    end
    local status, out, err = process.run { command = command, timeout = 200 }
    assert.are.equal(0, status, tostring(out) .. tostring(err))
    return out, err
  end

  -- The lines of a trace, without what is another one each time.
  local function shape(text)
    local lines = {}
    for line in text:gmatch("dlock %d[^\n]*") do
      lines[#lines + 1] = (line:gsub("%.%.%x%x%x%x$", "..N")
        :gsub("%f[%w]%d[%d.]*", "N"))
    end
    return table.concat(lines, "\n")
  end

  local commands = {}
  for _, block in ipairs(pages.blocks(PAGE)) do
    if block.language == "text" then
      commands[#commands].prints = block
    else
      commands[#commands + 1] = block
    end
  end

  local is_mine = lot.draw("commands", 2)
  for i, block in ipairs(commands) do
    local about = is_mine(i) and it or function() end
    about("has commands that work, line " .. block.line, function()
      assert.are.equal("sh", block.language)
      -- What is shown is how it goes once the server has the scripts.
      if block.prints then run(block) end
      local out, err = run(block)
      local _, wanted = table.concat(block, "\n"):gsub("make %l+ ", "")
      local _, runs = out:gsub("\n== [^\n]* [1-9]%d* passed, 0 failed", "")
      assert.are.equal(wanted, runs, out)
      if block.prints then
        local said = table.concat(block.prints, "\n")
        assert.are.equal(shape(said), shape(err))
        assert.is_truthy(said:find("engine grant", 1, true))
      end
    end)
  end

  it("shows every folder of csrc", function()
    local text = server.read_file(PAGE)
    local status, out = process.run { command = { "find", "csrc", "-mindepth",
      "1", "-type", "d", "-printf", "%P\n" } }
    assert.are.equal(0, status)
    for path in out:gmatch("[^\n]+") do
      local room, name = path:match("^store/(%l+)/(%l+)$")
      if room then
        local row = text:match("\n| [^\n]*`csrc/store/" .. room .. "/[^\n]*"
          .. name .. "[^\n]*")
        assert.is_truthy(row, path)
      elseif not path:find("/") and path ~= "store" then
        assert.is_truthy(text:find("`csrc/" .. path .. "`", 1, true), path)
      end
    end
  end)

  it("says where each subject is tested", function()
    local named, there = {}, {}
    local table_ = server.read_file(PAGE):match("\n| subject |.-\n\n")
    for name in table_:gmatch("`([%w_/.*]+)`") do
      named[name:match("[%w_.*]+$")] = name
    end
    local status, out = process.run { command = { "find", "spec", "-name",
      "*_spec.lua", "-printf", "%P\n" } }
    assert.are.equal(0, status)
    for path, name in out:gmatch("(%S-([%w_]+))%.lua\n") do
      there[name] = true
      assert.is_truthy(named[name] or named[path:match("^%w+")], path)
    end
    for name, whole in pairs(named) do
      assert.is_truthy(not name:find("^[%w_]+_spec$") or there[name], whole)
    end
  end)

  it("names commands of make that there are", function()
    local goals = " all install " .. server.read_file("Makefile")
      :match("\nGOALS := ([^\n]*\\?\n[^\n]*)"):gsub("\\\n", "") .. " "
    for goal in server.read_file(PAGE):gmatch("`make (%l[%l-]*)") do
      assert.is_truthy(goals:find(" " .. goal .. " ", 1, true)
        or goal == "deps" or goal == "env", goal)
    end
  end)
end)
