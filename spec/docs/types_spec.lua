-- The types for editors and the tables of the pages are what the annotations in
-- lua/dlock say, and an annotation that is missing or misspelt is refused.
-- docs/howto.md says how an editor finds the types.
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

describe("types:", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function check(cwd)
    return process.run { command = { "lua5.4", ".ci/types", "check" },
      cwd = cwd }
  end

  it("are what the annotations say", function()
    local status, out, err = check()
    assert.are.equal("", out .. err)
    assert.are.equal(0, status)
  end)

  it("stand in the pages as tables", function()
    local text = server.read_file "docs/reference.md"
      .. server.read_file "docs/fallback.md"
    for _, name in ipairs { "code", "open_options", "tls_options", "store",
      "lockable", "lock_options", "rwlock", "election", "semaphore",
      "barrier", "latch", "lease",
      "fallback_list" } do
      assert.is_truthy(text:find(("\n<!-- generated: dlock.%s -->\n")
        :format(name), 1, true), name)
    end
  end)

  -- A copy of what the types are made from, with one change in one file.
  local function change(path, find, put)
    assert.are.equal(0, (process.run { command = { "cp", "-r", "--parents",
      ".ci/types", "lua", "docs", "spec/support/files.lua", dir } }))
    local text = server.read_file(path)
    local from, to = text:find(find, 1, true)
    assert.is_truthy(from, find)
    server.write_file(dir .. "/" .. path,
      text:sub(1, from - 1) .. put .. text:sub(to + 1))
    local status, _, err = check(dir)
    assert.are.equal(1, status)
    return err
  end

  it("are refused when they are not", function()
    local out = change("lua/dlock/options.lua",
      "max = 86400, default = 10", "max = 86400, default = 11")
    assert.matches("docs/reference.md:1: is not what the annotations say", out)
    assert.matches("reference.md:1: nothing is known of dlock.leese",
      change("docs/reference.md", "generated: dlock.lease",
        "generated: dlock.leese"))
  end)

  it("need an annotation of every public call", function()
    assert.matches("lua/dlock/store.lua:%d+: store:inspect has no @return",
      change("lua/dlock/store.lua", [[
---@param key string
---@return dlock.inspected|nil
---@return string? message
---@return dlock.code? code
]], ""))
    assert.matches("store.lua:%d+: @param fn is missing", change(
      "lua/dlock/store.lua",
      "---@param fn fun(lease: dlock.lease): string|nil, string?, string?\n",
      ""))
    assert.matches("nothing declares dlock.inspekted", change(
      "lua/dlock/store.lua", "@return dlock.inspected",
      "@return dlock.inspekted"))
  end)

  it("need a word on every option", function()
    assert.matches("options.lua:%d+: no comment says what ttl is for",
      change("lua/dlock/options.lua",
      "  --- How long a hold lasts without renewal.\n", ""))
    assert.matches("no class of types has the option cursor", change(
      "lua/dlock/options.lua", '["store:list"] = "list"',
      '["store:list"] = "mutex"'))
  end)

  it("are found by what docs/howto.md tells the editor", function()
    local block
    for _, one in ipairs(pages.blocks "docs/howto.md") do
      block = one.language == "json" and one or block
    end
    local text = table.concat(block, "\n")
    assert.is_nil(text:find ",%s*[}%]]") -- which is good Lua, and no JSON
    local settings = assert((loadstring or load)("return " .. text
      :gsub('("[^"\n]*"):', "[%1] ="):gsub("= %[(.-)%]", "= {%1}")))()
    assert.matches("^Lua 5%.%d$", settings["runtime.version"])

    for _, file in ipairs { "5.4/dlock/core.so", "5.4/bin/dlock",
      "share/dlock/meta.lua" } do
      local path = dir .. "/built/" .. file
      assert.are.equal(0, (process.run { command = { "install", "-D",
        "/dev/null", path } }))
    end
    local version = settings["runtime.version"]:lower():gsub(" ", "")
    local _, out = process.run { command = { "make", "-n", "install",
      "LUA=" .. version, "DESTDIR=" .. dir } }
    local share = out:match("'(" .. dir:gsub("%p", "%%%0") .. "/[^']*)'")
    assert.are.equal(0, (process.run { command = { ".ci/install", "install",
      dir .. "/built/5.4", share, dir .. "/lib", dir .. "/bin", "" } }))
    assert.are.equal(1, #settings["workspace.library"])
    assert.is_truthy(uv.fs_stat(dir .. settings["workspace.library"][1]))
  end)
end)
