-- The file store on a disk that is full, read-only or taken away, and in a
-- directory in which it may not make files.

local apart = require "spec.support.apart"
local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

describe("file store", function()
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

  -- A process with a file system of its own at the directory.
  local function mounted(options)
    local p = tool.start(dir, nil, apart("--mount",
      "mount -t tmpfs -o mode=700," .. options .. " none " .. dir))
    return p, ("/proc/%d/root%s"):format(p.pid, dir)
  end

  it("on a full disk grants no new lock, and releases the held ones",
    function()
      local a, inside = mounted("size=256k")
      local fence = a:hold("a", "key")
      a:acquire("w", "key", { timeout = 20 })
      a:wait_queue("key", 1)
      local file = assert(uv.fs_open(inside .. "/fill", "w", 384))
      repeat until not uv.fs_write(file, ("x"):rep(4096), -1)
      assert(uv.fs_close(file))
      for i = 1, 3 do
        a:acquire("n", "new" .. i)
        a:expect("^n unavailable: .*No space left")
      end
      assert.are.equal("a renewed", a:ask("renew", "a"))
      assert.matches("^a ok", a:ask("extend", "a"))
      a:send("release", "a")
      a:expect("^a released$")
      local _, later = a:expect("^w held (%d+)$")
      assert.is_true(tonumber(later) > fence)
      a:send("release", "w")
      a:expect("^w released$")
      a:hold("again", "key")
      assert(uv.fs_unlink(inside .. "/fill"))
      for i = 1, 3 do a:hold("n" .. i, "new" .. i) end
    end)

  -- SIGXFSZ would end the process.
  -- A process that has some limit, and the function that sets another one.
  local function limited()
    local one = tool.start(dir, nil, { "prlimit", "--fsize=1000000000:" })
    return one, function(bytes)
      assert.are.equal(0, (process.run { command = { "prlimit", "--pid",
        one.pid, "--fsize=" .. bytes .. ":" } }))
    end
  end

  it("under a limit of file sizes is unavailable, and lives on", function()
    local text = " unavailable: .*file too large; .* byte %d+ of a file, "
      .. "raise that limit %(ulimit %-f%)"
    for _, bytes in ipairs { 0, 2048, 4096 } do
      local a, limit = limited()
      limit(bytes)
      for i = 1, 2 do
        a:acquire("a", "new" .. i)
        a:expect("^a" .. text)
      end
      a:send("close")
    end
  end)

  it("under a limit that is lowered gives back when it is raised", function()
    local a, limit = limited()
    local b = tool.start(dir)
    local fence = a:hold("a", "key")
    limit(0)
    a:acquire("n", "new")
    a:expect("^n unavailable: .*file too large")
    a:send("release", "a") -- goes on in the background
    assert.matches("^ping ok", a:ask("ping"))
    assert.is_true(b:locked("key"))
    b:acquire("b", "key", { timeout = 20 })
    limit("unlimited")
    local _, later = b:expect("^b held (%d+)$")
    assert.is_true(tonumber(later) > fence)
  end)

  -- docs/file.md says so: looking at the limit before each write is a system
  -- call more, and SIGXFSZ belongs to the program.
  it("under a limit that is set while it is open ends by SIGXFSZ, and what was"
      .. " held is free", function()
    local a, b = tool.start(dir), tool.start(dir)
    local fence = a:hold("a", "key")
    assert.are.equal(0, (process.run { command = { "prlimit", "--pid", a.pid,
      "--fsize=0:", "--core=0:" } }))
    a:acquire("n", "new")
    assert.are.equal(uv.constants.SIGXFSZ, select(2, a.process:wait(20)))
    b:acquire("b", "key", { timeout = 20 })
    local _, later = b:expect("^b held (%d+)$")
    assert.is_true(tonumber(later) > fence)
    b:hold("n", "new")
  end)

  it("on a read-only disk is invalid, and looks after what is there",
    function()
      local a = mounted("ro")
      assert.matches("^ping invalid: .*Read%-only", a:ask("ping"))
      a:acquire("a", "key")
      a:expect("^a invalid: .*Read%-only")
      assert.are.equal("list ok {{} nil}", a:ask("list"))
      assert.is_false(a:locked("key"))
    end)

  it("sees through a read-only mount who holds and waits", function()
    local a, w = tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    w:acquire("w", "key", { timeout = 60 })
    w:wait_queue("key", 1)
    a:hold("dead", "other")
    local b = tool.start(dir, nil, apart("--mount", ("mount --bind %s %s\n"
      .. "mount -o remount,bind,ro %s"):format(dir, dir, dir)))
    local hex = tool.hex("key")
    local keys = b:ask("list")
    assert.is_truthy(keys == "list ok {{key other} nil}"
      or keys == "list ok {{other key} nil}", keys)
    assert.matches("^inspect ok .*holders={{.*owner=a/.*waiters={{.*owner=w/",
      b:ask("inspect", hex))
    assert.is_true(b:locked("key"))
    assert.is_false(b:locked("none"))
    assert.matches("^break invalid: .*Read%-only", b:ask("break", hex))
    b:acquire("b", "key", { timeout = 60 })
    b:expect("^b invalid: .*Read%-only")
    local fence = b:ask("inspect", hex):match("fence=(%d+)")
    b:send("change", "c", hex, fence)
    a:kill()
    b:expect("^c ok", 20)
    b:wait_queue("key", 0) -- w has it
    assert.is_false(b:locked("other"))
    assert.are.equal("list ok {{key} nil}", b:ask("list"))
    w:expect("^w held")
  end)

  -- Without root's right to write wherever it likes.
  local function plain()
    return tool.start(dir, nil, uv.getuid() == 0
      and { "setpriv", "--bounding-set=-dac_override,-dac_read_search" })
  end

  -- What it makes must be ours to use, whatever the umask takes.
  for _, umask in ipairs { "0277", "0477", "0777" } do
    it("under umask " .. umask .. " makes what it can use itself", function()
      local place = base .. "/new"
      local before = { "sh", "-c", "umask " .. umask .. '; exec "$0" "$@"' }
      if uv.getuid() == 0 then
        table.insert(before, 1, "setpriv")
        table.insert(before, 2,
          "--bounding-set=-dac_override,-dac_read_search")
      end
      local a, b = tool.start(place, nil, before), tool.start(place)
      a:hold("a", "key")
      b:acquire("b", "key", { timeout = 20 })
      b:wait_queue("key", 1)
      assert.are.equal("a released", a:ask("release", "a"))
      b:expect("^b held", 20)
    end)
  end

  it("says that its directory is not writable, and looks after all that is "
    .. "there", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    assert(uv.fs_chmod(dir, 320)) -- 0500
    local b, text = plain(), " denied: .*make files in .* %(mode 0500%).*chmod "
    assert.matches("^ping" .. text, b:ask("ping"))
    for _, key in ipairs { "key", "new" } do
      b:acquire("b", key)
      b:expect("^b" .. text .. "0700")
    end
    assert.are.equal("list ok {{key} nil}", b:ask("list"))
    assert.matches("^inspect ok .*holders={{.*owner=a/",
      b:ask("inspect", tool.hex("key")))
    assert.are.equal("inspect ok nil", b:ask("inspect", tool.hex("new")))
    assert.is_true(b:locked("key"))
    assert.is_false(b:locked("new"))
    assert.are.equal("revoke ok true", b:ask("revoke", tool.hex("key")))
    assert.are.equal("break ok true", b:ask("break", tool.hex("key")))
    a:send("renew", "a")
    a:expect("^a lost")
    assert(uv.fs_chmod(dir, 448))
    b:hold("b", "key")
    assert(uv.fs_chmod(dir, 320))
    b:send("release", "b") -- what is there already needs no right to make
    b:expect("^b released$")
    b:hold("b", "key")
    assert(uv.fs_chmod(dir, 256)) -- 0400: nothing in it may be used
    local c = plain()
    assert.matches("^locked denied: .*use files in .* %(mode 0400%).*0700",
      c:ask("locked", tool.hex("key")))
    assert(uv.fs_chmod(dir, 448))
  end)
end)
