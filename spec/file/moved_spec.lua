-- Lock files that somebody moves, replaces, or gives another name: a lock is
-- what its name leads to, whatever other names a file has, so no two hold it.

local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local LATER = { timeout = 20 }

describe("a lock file that is used", function()
  local dir, base, path

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
    path = dir .. "/key"
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  local function release(p, id)
    assert.are.equal(id .. " released", p:ask("release", id))
  end

  -- What makes the name lead to no file, whose inode lives on.
  local KINDS = {
    ["moved in its directory"] = function()
      assert(uv.fs_rename(path, path .. ".bak"))
    end,
    ["moved out of it"] = function()
      assert(uv.fs_rename(path, base .. "/key"))
    end,
    ["deleted under one of two names"] = function()
      assert(uv.fs_link(path, base .. "/key"))
      assert(uv.fs_unlink(path))
    end,
  }

  for kind, take in pairs(KINDS) do
    it("and is " .. kind .. " ends its holds", function()
      local a, b, c = tool.start(dir), tool.start(dir), tool.start(dir)
      local fence = a:hold("a", "key")
      c:hold("other", "other")
      take()
      local later = b:hold("b", "key")
      assert.is_true(later > fence)
      assert.matches("^a lost", a:ask("renew", "a"))
      a:acquire("again", "key")
      a:expect("^again busy")
      c:acquire("c", "key")
      c:expect("^c busy")
      assert.are.equal("b renewed", b:ask("renew", "b"))
      release(b, "b")
      assert.is_true(a:hold("again", "key") > later)
    end)

    it("and is " .. kind .. " is released no more", function()
      local a = tool.start(dir)
      a:hold("a", "key")
      take()
      assert.matches("^a lost", a:ask("release", "a"))
      tool.start(dir):hold("b", "key")
    end)

    it("and is " .. kind .. " loses no waiter", function()
      local a, b = tool.start(dir), tool.start(dir)
      a:hold("a", "key")
      b:acquire("b", "key", LATER)
      b:wait_queue("key", 1)
      take()
      b:expect("^b held", 10)
      assert.matches("^a lost", a:ask("renew", "a"))
    end)
  end

  it("and has a copy put in its place goes on in that", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    -- Made outside: in the directory a sweep may take one that is empty yet.
    assert(uv.fs_copyfile(path, base .. "/copy"))
    assert(uv.fs_chmod(base .. "/copy", 896))
    assert(uv.fs_rename(base .. "/copy", path))
    b:acquire("b", "key")
    b:expect("^b busy")
    assert.are.equal("a renewed", a:ask("renew", "a"))
    release(a, "a")
    b:hold("b", "key")
  end)

  it("and was moved is listed under its own name only", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    assert(uv.fs_rename(path, path .. ".bak"))
    assert.are.equal("list ok {{} nil}", tool.start(dir):ask("list"))
  end)

  -- Links to all of it, as `cp -al` makes them.
  local function copy_links()
    assert(uv.fs_mkdir(base .. "/copy", 448))
    local scan = assert(uv.fs_scandir(dir))
    for name in function() return uv.fs_scandir_next(scan) end do
      assert(uv.fs_link(dir .. "/" .. name, base .. "/copy/" .. name))
    end
  end

  it("and has a second name is opened by nobody else", function()
    local a, b = tool.start(dir), tool.start(dir)
    local fence = a:hold("a", "key")
    copy_links()
    for _, place in ipairs { dir, base .. "/copy" } do
      local c = tool.start(place)
      c:hold("other", "other")
      c:acquire("c", "key")
      c:expect("^c unavailable: key is no lock file of ours .*one name")
    end
    assert.are.equal("a renewed", a:ask("renew", "a"))
    assert(uv.fs_rename(path, base .. "/moved"))
    assert.is_true(b:hold("b", "key") > fence)
    assert.matches("^a lost", a:ask("renew", "a"))
  end)

  it("goes on when the process may not look where it is", function()
    local before = uv.getuid() == 0
      and { "setpriv", "--bounding-set=-dac_override,-dac_read_search" }
    local a = tool.start(dir, nil, before or nil)
    a:hold("a", "key")
    assert(uv.fs_chmod(dir, 0))
    assert.are.equal("a renewed", a:ask("renew", "a"))
    release(a, "a")
    assert(uv.fs_chmod(dir, 448))
    tool.start(dir):hold("b", "key")
  end)
end)
