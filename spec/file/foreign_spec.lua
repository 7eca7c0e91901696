-- The file store in a directory with things that are not its own: it leaves
-- them as they are, whatever they are called.

local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local NEW = 960 -- mode 01700: a file that was just made
local MADE = 896 -- mode 01600: one that has had its first table

describe("file store among foreign files", function()
  local dir, base

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
    assert(uv.fs_mkdir(dir, 448))
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  local function run(...)
    assert.are.equal(0, (process.run { command = { ... } }))
  end

  local function write(name, text, mode)
    server.write_file(dir .. "/" .. name, text)
    assert(uv.fs_chmod(dir .. "/" .. name, mode or 420))
  end

  -- One of every kind, each under a name that a key has.
  local function litter()
    write("TODO", "")
    write("private", "", 384)
    write("image", ("\0"):rep(8192) .. "end")
    write("hidden-image", ("\0"):rep(8192) .. "end", 384)
    write("text", ("text "):rep(2000), 384)
    write("sticky", uv.random(9000), MADE)
    write("sticky-short", "x", NEW)
    write("sticky-only", "", 896 - 384)
    write("~h" .. ("A"):rep(64), "", 384)
    write("~wnotes", "", 384)
    write("~w00000000000000ff", "", 384)
    write("~other", "", 384)
    server.write_file(base .. "/outside", "")
    assert(uv.fs_chmod(base .. "/outside", 384))
    assert(uv.fs_symlink(base .. "/outside", dir .. "/link"))
    assert(uv.fs_symlink(base .. "/nothing", dir .. "/broken-link"))
    assert(uv.fs_link(base .. "/outside", dir .. "/hard-link"))
    assert(uv.fs_mkdir(dir .. "/folder", 448))
    for _, name in ipairs { "fifo", "~wfifo", "~w000000000000000G" } do
      run("mkfifo", "-m", "600", dir .. "/" .. name)
    end
    run("mkfifo", "-m", "644", dir .. "/~w0000000000000abc")
    for _, name in ipairs { "socket", "~w0000000000000abd" } do
      local pipe = uv.new_pipe(false)
      assert(pipe:bind(base .. "/s"))
      -- Closing it would remove it under its first name.
      assert(uv.fs_rename(base .. "/s", dir .. "/" .. name))
      pipe:close()
      uv.run("nowait")
    end
    if uv.getuid() == 0 then
      write("theirs", "", 384)
      assert(uv.fs_chown(dir .. "/theirs", 1, 1))
    end
  end

  -- What there is, but for the store's own file.
  local function look()
    local seen, scan = {}, uv.fs_scandir(dir)
    for name in function() return uv.fs_scandir_next(scan) end do
      local st = assert(uv.fs_lstat(dir .. "/" .. name))
      seen[name] = ("%s %o %d %d %d %d.%d"):format(st.type, st.mode, st.ino,
        st.uid, st.size, st.mtime.sec, st.mtime.nsec)
    end
    seen["~store"] = nil
    return seen
  end

  it("sweeps none of them", function()
    litter()
    local before = look()
    local a = tool.start(dir)
    a:hold("a", "key")
    a:kill()
    -- Two portions of what is in the directory, should one not be enough.
    for _ = 1, 2 do
      assert(uv.fs_unlink(dir .. "/~store"))
      local b = tool.start(dir)
      b:ask("ping")
      b:ask("close")
    end
    assert.are.same(before, look())
  end)

  it("changes no copy of a lock's file under another name", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    a:kill()
    for i, mode in ipairs { 384, MADE } do
      assert(uv.fs_copyfile(dir .. "/key", dir .. "/copy" .. i))
      assert(uv.fs_chmod(dir .. "/copy" .. i, mode))
    end
    assert(uv.fs_unlink(dir .. "/key"))
    local before = look()
    assert(uv.fs_unlink(dir .. "/~store"))
    local b = tool.start(dir)
    b:ask("ping")
    b:ask("close")
    local after = look()
    for i = 1, 2 do
      assert.are.equal(before["copy" .. i], after["copy" .. i])
    end
  end)

  it("refuses the keys whose places they have, and names them", function()
    litter()
    local before = look()
    local a = tool.start(dir)
    for name in pairs(before) do
      -- Other names than those of keys stand in nobody's way.
      if not name:find("^~") then
        local text = " unavailable: " .. name:gsub("%-", "%%-") .. " is "
          .. "no lock file of ours %(plain, mode 01600, one name, begins "
          .. "with ldfile01%)"
        for _, call in ipairs { "locked", "inspect", "break", "revoke" } do
          assert.matches("^" .. call .. text, a:ask(call, tool.hex(name)))
        end
        for _, timeout in ipairs { 0, 20 } do
          a:acquire("a", name, { timeout = timeout })
          a:expect("^a" .. text)
        end
      end
    end
    a:hold("a", "key")
    assert.are.equal("list ok {{key} nil}", a:ask("list"))
    a:send("release", "a")
    a:expect("^a released$")
    a:ask("close")
    assert.are.same(before, look())
  end)

  it("takes a file that was not finished for its own", function()
    write("key", "", NEW)
    write("later", ("\0"):rep(4096), NEW)
    local a = tool.start(dir)
    a:hold("a", "key")
    assert.are.equal(MADE, assert(uv.fs_stat(dir .. "/key")).mode % 4096)
    a:send("release", "a")
    a:expect("^a released$")
    a:ask("close")
    -- The sweep of its beginning may have come too early for the other one.
    a = tool.start(dir)
    a:hold("a", "later")
    a:send("release", "a")
    a:expect("^a released$")
    a:ask("close")
    assert.are.same({}, look())
  end)

  it("goes on with a file that a loss of power has emptied", function()
    write("key", "", MADE)
    tool.start(dir):hold("a", "key")
  end)

  it("leaves a foreign ~store alone, and says so", function()
    for _, text in ipairs { "", "text", ("\0"):rep(100) } do
      write("~store", text, text == "text" and MADE or 384)
      local a = tool.start(dir)
      assert.matches("^ping unavailable: .*~store is ", a:ask("ping"))
      a:acquire("a", "key")
      a:expect("^a unavailable: .*~store is ")
      a:ask("close")
      assert.are.equal(text, server.read_file(dir .. "/~store"))
      assert.are.same({}, look())
    end
  end)

  -- What a program does that closes a number twice: the store's descriptor is
  -- closed, and is another file's now.
  for _, text in ipairs { ("important "):rep(2000), "x", "" } do
    it("writes to no file that got a descriptor of its own, " .. #text,
      function()
        local a = tool.start(dir)
        server.write_file(base .. "/mine", text)
        a:hold("a", "key")
        for _, name in ipairs { "key", "~store" } do
          assert.are.equal("- stolen", a:ask("steal", dir .. "/" .. name,
            base .. "/mine"))
        end
        a:send("ttl", 300000)
        a:acquire("a2", "key")
        a:expect("^a2 ")
        a:acquire("new", "new")
        a:expect("^new ")
        assert.are.equal(text, server.read_file(base .. "/mine"))
      end)
  end

  it("takes no other key's file for its own that got its descriptor", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:hold("b", "other")
    assert.are.equal("- stolen", a:ask("steal", dir .. "/key", dir .. "/other"))
    a:send("release", "a")
    a:expect("^a released$")
    b:hold("b2", "key")
  end)

  it("writes to no file that took the place of a store's pipe", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    local pipe
    for name in pairs(look()) do
      pipe = name:match("^~w.*") or pipe
    end
    server.write_file(base .. "/mine", "")
    assert(uv.fs_rename(base .. "/mine", dir .. "/" .. pipe))
    assert.are.equal("revoke ok false", b:ask("revoke", tool.hex("key")))
    assert.are.equal("", server.read_file(dir .. "/" .. pipe))
    assert.matches("^a lost", a:ask("renew", "a"))
    b:hold("b", "key")
  end)
end)
