-- A hold or a wait that ends while its file cannot be reached: when the file is
-- there again nobody stands in it any more who does not believe in it.

local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local LATER = { timeout = 30 }
-- Keys that a store may have open.
local OPEN = 64

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

  -- So many other keys that the file of `key` is not open any more.
  local function close_file(p)
    for i = 1, OPEN + 6 do
      p:hold("o", "other" .. i)
      assert.are.equal("o released", p:ask("release", "o"))
    end
  end

  -- Without the descriptor, a second name keeps us from the file.
  local function hide(p)
    close_file(p)
    assert(uv.fs_link(path, away))
  end
  local function show() assert(uv.fs_unlink(away)) end

  it("as the only one of its store is seen to be dead", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:acquire("b", "key", LATER)
    b:wait_queue("key", 1)
    move()
    lose(a)
    back()
    b:expect("^b held", 20)
    a:hold("again", "another")
  end)

  it("is taken out at the next renewal of another", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    a:hold("more", "more")
    move()
    lose(a)
    back()
    assert.is_true(b:locked("key"))
    b:acquire("b", "key", LATER)
    b:wait_queue("key", 1)
    assert.are.equal("more renewed", a:ask("renew", "more"))
    b:expect("^b held", 20)
    assert.are.equal("more renewed", a:ask("renew", "more"))
  end)

  it("is taken out when another one that waits looks", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:hold("more", "more")
    a:acquire("more", "more", LATER)
    b:wait_queue("more", 1)
    move()
    lose(a)
    back()
    b:acquire("b", "key", LATER)
    b:expect("^b held", 20)
  end)

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

  it("is not forgotten when another file had the name meanwhile", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    a:hold("more", "more")
    move()
    lose(a)
    a:hold("new", "key")
    assert.are.equal("new released", a:ask("release", "new"))
    back()
    b:acquire("b", "key", LATER)
    assert.are.equal("more renewed", a:ask("renew", "more"))
    b:expect("^b held", 20)
  end)

  it("by a release is free when the file can be used again", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    hide(a)
    assert.matches("^a lost", a:ask("release", "a"))
    show()
    b:hold("b", "key")
  end)

  it("by a wait that is over is let in no more", function()
    for _, more in ipairs { false, true } do
      local a, b = tool.start(dir), tool.start(dir)
      b:hold("b", "key")
      a:acquire("a", "key", LATER)
      b:wait_queue("key", 1)
      if more then
        a:hold("more", "more")
      end
      hide(a)
      assert.matches("^a cancelled", a:ask("cancel", "a"))
      show()
      assert.are.equal("b released", b:ask("release", "b"))
      if more then
        assert.are.equal("more renewed", a:ask("renew", "more"))
      end
      b:acquire("b", "key", LATER)
      b:expect("^b held", 20)
      assert.are.equal("b released", b:ask("release", "b"))
      a:send("close")
      b:send("close")
    end
  end)

  it("with all of a directory that was moved is dead when it is back",
    function()
      local a, b = tool.start(dir), tool.start(dir)
      a:hold("a", "key")
      assert(uv.fs_rename(dir, dir .. ".x"))
      assert.matches("^a lost", a:ask("renew", "a"))
      assert(uv.fs_rename(dir .. ".x", dir))
      b:acquire("b", "key", LATER)
      b:expect("^b held", 20)
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
