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
  -- closed, and may be another file's now.
  local function steal(p, name, file)
    p:send("steal", dir .. "/" .. name .. (file and " " .. file or ""))
    assert.are.equal("- stolen", p:read_line())
  end

  local TEXTS = { text = ("important "):rep(2000), short = "x", nothing = "" }

  for kind, text in pairs(TEXTS) do
    it("writes to no file that got a descriptor of its own: " .. kind,
      function()
        local file = base .. "/precious"
        local a, b = tool.start(dir), tool.start(dir)
        server.write_file(file, text)
        local fence = a:hold("a", "key")
        steal(a, "key", file)
        assert.are.equal("a renewed", a:ask("renew", "a"))
        b:acquire("b", "key", { timeout = 20 })
        b:wait_queue("key", 1)
        steal(a, "key", file)
        assert.are.equal("a released", a:ask("release", "a"))
        local _, later = b:expect("^b held (%d+)", 20)
        assert.is_true(tonumber(later) > fence)
        steal(a, "~store", file)
        a:send("ttl", 300000)
        a:hold("new", "new")
        assert.are.equal(text, server.read_file(file))
        b:acquire("new", "new")
        b:expect("^new busy")
        for _ = 1, 3 do -- none of them was closed
          assert.are.equal("- stolen", a:ask("steal", file))
        end
      end)
  end

  -- Its table is as good as one of its own, and its mutex as free.
  for _, state in ipairs { "free", "held" } do
    it("enters no other lock's file that got a descriptor of its own, when"
      .. " that lock is " .. state, function()
        local a, b = tool.start(dir), tool.start(dir)
        local file = dir .. "/other"
        b:hold("other", "other")
        a:hold("a", "key")
        if state == "free" then
          assert.are.equal("other released", b:ask("release", "other"))
        end
        steal(a, "key", file)
        assert.are.equal("a renewed", a:ask("renew", "a"))
        steal(a, "key", file)
        assert.is_true(a:locked("key"))
        steal(a, "key", file)
        assert.are.equal("a released", a:ask("release", "a"))
        steal(a, "key", file)
        a:hold("a", "key")
        b:acquire("b", "key")
        b:expect("^b busy")
        assert.are.equal(state == "held", b:locked("other"))
        for _ = 1, 4 do -- none of them was closed
          assert.are.equal("- stolen", a:ask("steal", file))
        end
      end)
  end

  it("writes to no other directory's ~store that got the number of its own",
    function()
      local elsewhere = base .. "/elsewhere"
      assert(uv.fs_mkdir(elsewhere, 448))
      local a, b = tool.start(dir), tool.start(elsewhere)
      b:hold("b", "key")
      b:kill()
      a:hold("a", "key")
      local file = elsewhere .. "/~store"
      local before = server.read_file(file)
      steal(a, "~store", file)
      a:send("ttl", 300000)
      a:hold("long", "long")
      assert.are.equal(before, server.read_file(file))
      assert.are.equal("- stolen", a:ask("steal", file)) -- it was not closed
      assert.are.equal("- not open", a:ask("steal", file))
    end)

  it("closes no number that is another file's when it has to close one",
    function()
      local a = tool.start(dir)
      server.write_file(base .. "/mine", "")
      a:hold("a", "key")
      assert.are.equal("a released", a:ask("release", "a"))
      steal(a, "key", base .. "/mine")
      for i = 1, 64 do -- as many as it keeps open
        a:hold("a", "key" .. i)
        assert.are.equal("a released", a:ask("release", "a"))
      end
      assert.are.equal("- stolen", a:ask("steal", base .. "/mine"))
    end)

  for _, what in ipairs { "pipe", "directory" } do
    it("closes no number that is another file's when it lets go of its "
      .. what, function()
        local a = tool.start(dir)
        server.write_file(base .. "/mine", "")
        a:hold("a", "key")
        local name = ""
        for file in pairs(look()) do
          name = what == "pipe" and file:match("^~w.*") or name
        end
        steal(a, name, base .. "/mine")
        assert(uv.fs_rename(dir, base .. "/moved"))
        assert(uv.fs_mkdir(dir, 448))
        assert.matches("^a lost", a:ask("renew", "a"))
        a:hold("a", "key")
        assert.are.equal("- stolen", a:ask("steal", base .. "/mine"))
      end)
  end

  it("writes to no file that got the number of another store's pipe",
    function()
      local a = tool.start(dir)
      server.write_file(base .. "/mine", "")
      a:hold("a", "key")
      local own, pipe = look()
      local b = tool.start(dir)
      for _ = 1, 2 do
        b:acquire("b", "key", { timeout = 20 })
        b:wait_queue("key", 1)
        for name in pairs(look()) do
          pipe = name:match("^~w") and not own[name] and name or pipe
        end
        if a.woke then
          steal(a, pipe, base .. "/mine")
        end
        a.woke = true
        assert.are.equal("a released", a:ask("release", "a"))
        b:expect("^b held", 20)
        assert.are.equal("b released", b:ask("release", "b"))
        a:hold("a", "key")
      end
      assert.are.equal("", server.read_file(base .. "/mine"))
      assert.are.equal("- stolen", a:ask("steal", base .. "/mine"))
    end)

  it("opens anew what somebody closed", function()
    local a = tool.start(dir)
    local fence = a:hold("a", "key")
    steal(a, "key")
    assert.are.equal("a renewed", a:ask("renew", "a"))
    steal(a, "key")
    assert.are.equal("a released", a:ask("release", "a"))
    steal(a, "~store")
    a:send("ttl", 300000)
    a:hold("new", "new")
    steal(a, "key")
    assert.is_true(a:hold("a", "key") > fence)
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
