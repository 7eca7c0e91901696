-- What is said about a first build and an installation is so: the packages and
-- rocks that the pages name, where `make install` copies to, and that
-- `make env` leaves alone what the user has set.
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

describe("an installation:", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function make(...)
    return process.run { timeout = 120, command = { "make", "-s",
      "BUILD=" .. dir .. "/build", ... } }
  end

  it("goes where the Lua finds it, whatever that is called", function()
    local version = _VERSION:match("%d%.%d")
    for _, name in ipairs { "lua", "lua-5.9", "lua59", "openresty" } do
      local lua = dir .. "/" .. name
      assert(uv.fs_symlink(process.lua, lua))
      local status, out = make("-n", "install-tls", "LUA=" .. lua)
      assert.equal(0, status)
      assert.equal(("/usr/local/lib/lua/%s/dlock/tls.so"):format(version),
        out:match("'(/[^']*/tls%.so)'\n$"))
    end
  end)

  -- cron and sudo hand on no LUA_PATH.
  it("elsewhere has a command that finds its modules by itself", function()
    local built = package.cpath:match("([^;]*/build[^;]*)/%?%.so")
    local there = dir .. "/there"
    local function install(root, prefix)
      local at = root .. prefix
      local status, out, err = process.run { env = { ROOT = root }, command = {
        ".ci/install", "install", built, at .. "/share/lua/5.x",
        at .. "/lib/lua/5.x", at .. "/bin", "", "store/file" } }
      assert.same({ 0, "", "" }, { status, out, err })
      return server.read_file(at .. "/bin/dlock")
    end
    install("", there)
    local status, out, err = process.run {
      command = { there .. "/bin/dlock", "--url", "file://" .. dir .. "/locks",
        "run", "k", "--", "sh", "-c", 'echo "$DLOCK_KEY $LUA_PATH"' },
      env = { LUA_PATH = false, LUA_CPATH = false } }
    assert.same({ 0, "k \n", "" }, { status, out, err })
    local staged = install(dir .. "/root", "/opt/dlock")
    assert.is_truthy(staged:find(";/opt/dlock/lib/lua/5.x/?.so", 1, true))
    assert.is_nil(staged:find(dir, 1, true))
    assert.is_nil(install(dir .. "/root", "/usr"):find("5.x", 1, true))
  end)

  it("of one store says nothing about what others need", function()
    local gen = dir .. "/build/gen/redis_scripts.h"
    assert.equal(0, (make("LUA=lua5.4", "STORES=file", gen)))
    local status, _, err = make("LUA=lua5.4", "CPPFLAGS=-nostdinc")
    assert.equal(2, status)
    assert.matches("libhiredis%-dev", err)
    assert.is_nil(err:find("fatal error", 1, true), err)
  end)

  it("for nginx has all packages that it needs", function()
    local page = server.read_file("docs/openresty.md")
    local _, _, err = make("LUA=" .. dir .. "/luajit", "CPPFLAGS=-nostdinc",
      "STORES=" .. page:match('\n    make LUA=luajit STORES="(.-)"\n'))
    local named = " " .. page:match("apt%-get install (gcc [^\n]*)\n") .. " "
    local counted = 0
    for package in err:match("apt%-get install ([^\n]*)"):gmatch("%S+") do
      counted = counted + 1
      assert.is_truthy(named:find(" " .. package .. " ", 1, true), package)
    end
    assert.is_true(counted > 4)
  end)

  it("by LuaRocks is for the Lua that is named", function()
    local lines = 0
    for line in io.lines("README.md") do
      if line:find("^    .*luarocks") then
        lines = lines + 1
        assert.matches("luarocks %-%-lua%-version 5%.4 make rockspec/", line)
      end
    end
    assert.equal(3, lines)
  end)

  it("by LuaRocks takes the libraries that LuaRocks has found", function()
    for name in uv.fs_scandir_next, assert(uv.fs_scandir("rockspec")) do
      local text = server.read_file("rockspec/" .. name)
      local needs = text:match("external_dependencies = (%b{})")
      assert.is_truthy(needs:find("UV = ", 1, true), name)
      for library, need in needs:gmatch("(%u+) = (%b{})") do
        -- Without a header LuaRocks looks for none: pkg-config knows where.
        local looked = need:find("header", 1, true) ~= nil
        local function given(variable)
          return text:find(("$(%s_%s)"):format(library, variable), 1, true)
            ~= nil
        end
        assert.is_true(given "LIBDIR", name .. ": " .. library)
        assert.equal(looked, given "INCDIR", name .. ": " .. library)
      end
    end
  end)

  it("without a store says how to get it", function()
    local status, out = process.run { args = {}, script = [[
      local dlock = require "dlock"
      package.cpath = ""
      print((select(2, dlock.open("redis://h"))))
      print((select(2, dlock.open("zookeeper://h"))))
    ]] }
    assert.equal(0, status)
    assert.matches("redis:// cannot be loaded: build dlock with redis in STORES"
      .. "\n.* cannot be loaded: install the rock dlock%-zookeeper\n", out)
  end)

  -- What the shell has in these variables after `make env`, twice.
  local function environment(env)
    local lines = {}
    for name in pairs(env) do lines[#lines + 1] = "echo $" .. name end
    table.sort(lines)
    local root = uv.cwd()
    local call = ('eval "$(%s/.ci/env %s/build/%%s)"\n'):format(root, root)
    local status, out = process.run { env = env, command = { "sh", "-euc",
      call:format("luajit") .. call:format("lua5.4")
        .. table.concat(lines, "\n") } }
    assert.equal(0, status)
    return (out:gsub((root:gsub("%p", "%%%0")), "ROOT"))
  end

  it("is not needed, and what the user has set stays", function()
    local ours = "ROOT/lua/?.lua;ROOT/lua/?/init.lua;"
    assert.equal("ROOT/build/lua5.4/?.so;/x y/?.so;;\n" .. ours .. ";\n",
      environment { LUA_PATH = "", LUA_CPATH = "/x y/?.so" })
    assert.equal(ours .. "/x/?.lua;/y/?.lua;;\n" .. ours .. "/z/?.lua;;\n",
      environment { LUA_PATH = "/x/?.lua;/y/?.lua;;",
        LUA_PATH_5_4 = ";;/z/?.lua" })
  end)

  it("of nginx is found by a user without /usr/sbin in PATH", function()
    local status = process.run { env = { PATH = "/usr/bin:/bin" },
      command = { "bash", "-c", ". .ci/lib && command -v nginx" } }
    assert.equal(0, status)
  end)
end)
