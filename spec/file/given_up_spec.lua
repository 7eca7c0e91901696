-- Pipes of stores that somebody deletes, and a lock file that is moved away and
-- back: who is dead to those who come is dead to those who wait.

local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local LATER = { timeout = 30 }

describe("an entry that is given up", function()
  local dir, base, path, away

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
    path, away = dir .. "/key", base .. "/key"
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  local function move() assert(uv.fs_rename(path, away)) end
  local function back() assert(uv.fs_rename(away, path)) end

  -- When the ping is answered it has looked for what it gave up.
  local function lose(p)
    assert.matches("^a lost", p:ask("renew", "a"))
    assert.matches("^ping ok", p:ask("ping"))
  end

  it("does not stand in the way of its own store", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    a:hold("more", "more")
    move()
    lose(a)
    back()
    a:hold("again", "key")
    assert.are.equal("more renewed", a:ask("renew", "more"))
  end)

  -- The pipe of the only store that lives.
  local function pipe()
    local scan, found = assert(uv.fs_scandir(dir)), nil
    for name in function() return (uv.fs_scandir_next(scan)) end do
      found = name:match("^~w") and dir .. "/" .. name or found
    end
    return found
  end

  for _, way in ipairs { "renew", "extend" } do
    it("with its store's pipe is dead for those who have that open, at "
      .. way, function()
      local a, b = tool.start(dir), tool.start(dir)
      a:hold("a", "key")
      a:hold("more", "more")
      a:acquire("w", "waits", LATER)
      a:expect("^w held")
      local name = pipe()
      b:acquire("b", "key", LATER)
      b:wait_queue("key", 1)
      b:acquire("c", "more", LATER)
      b:wait_queue("more", 1)
      assert(uv.fs_unlink(name))
      assert.matches("^a lost", a:ask(way, "a"))
      for _ = 1, 2 do
        a:expect("^[%a]+ lost", 20)
        b:expect("^[bc] held", 20)
      end
      a:hold("new", "new")
    end)
  end

  -- As a cleaner of /tmp does that knows no sticky bit.
  it("with the pipes of all is the only one that holds", function()
    local a, b, c = tool.start(dir), tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:acquire("b", "key", LATER)
    b:wait_queue("key", 1)
    local scan = assert(uv.fs_scandir(dir))
    for name in function() return (uv.fs_scandir_next(scan)) end do
      if name:find "^~w" then assert(uv.fs_unlink(dir .. "/" .. name)) end
    end
    assert.matches("^a lost", a:ask("renew", "a"))
    b:expect("^b held", 20)
    c:acquire("c", "key")
    c:expect("^c busy %(b/")
    assert.are.equal("b renewed", b:ask("renew", "b"))
  end)

  it("with its store's pipe waits again if it waits", function()
    local a = tool.start(dir)
    a:hold("more", "more")
    local name = pipe()
    local b = tool.start(dir)
    b:hold("b", "key")
    a:acquire("a", "key", LATER)
    b:wait_queue("key", 1)
    assert(uv.fs_unlink(name))
    assert.matches("^more lost", a:ask("renew", "more"))
    b:wait_queue("key", 1)
    assert.are.equal("b released", b:ask("release", "b"))
    a:expect("^a held", 20)
  end)
end)
