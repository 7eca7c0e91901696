-- The file store in containers: processes that share the directory, and not
-- what /proc says of the machine. Nobody who lives is taken for a remnant of
-- before a restart.

local apart = require "spec.support.apart"
local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local BOOT = "/proc/sys/kernel/random/boot_id"

describe("file store of several containers", function()
  local dir, base

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  -- A process that is told another boot id; ahead: and that the machine has
  -- been running for so many seconds more.
  local function elsewhere(id, ahead)
    local file = base .. "/boot" .. id
    server.write_file(file, ("%08x-0000-4000-8000-000000000000\n"):format(id))
    local flags = ahead and "--time --boottime " .. ahead or ""
    return tool.start(dir, nil,
      apart("--mount " .. flags, "mount --bind " .. file .. " " .. BOOT))
  end

  -- The next store to connect sweeps.
  local function forget_sweep()
    assert(uv.fs_unlink(dir .. "/~store"))
  end

  -- By one that has not connected yet, and goes.
  local function sweep(p)
    forget_sweep()
    p:ask("ping")
    p:ask("close")
  end

  local function release(p, id)
    p:send("release", id)
    p:expect("^" .. id .. " released$")
  end

  local function check_exclusion(a, b, c)
    local fence = a:hold("a", "key")
    b:acquire("b", "key")
    b:expect("^b busy %(a/%d+%)$")
    assert.is_true(b:locked("key"))
    assert.matches("owner=a/", b:ask("inspect", tool.hex("key")))
    assert.matches("{key}", b:ask("list"))
    b:acquire("w", "key", { timeout = 20 })
    b:wait_queue("key", 1)
    a:wait_queue("key", 1)
    assert.are.equal("a renewed", a:ask("renew", "a"))
    a:kill()
    local _, later = b:expect("^w held (%d+)$", 5)
    assert.is_true(tonumber(later) > fence)
    c:acquire("c", "key")
    c:expect("^c busy %(w/%d+%)$")
    release(b, "w")
    assert.is_true(c:hold("c", "key") > tonumber(later))
  end

  it("excludes between processes that see different boot ids", function()
    check_exclusion(tool.start(dir), elsewhere(1), elsewhere(2))
  end)

  it("excludes between processes that cannot see each other", function()
    local function start()
      return tool.start(dir, nil, apart("--pid --mount-proc", ""))
    end
    check_exclusion(start(), start(), tool.start(dir))
  end)

  it("sweeps no lock that is held under another boot id", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    sweep(elsewhere(1))
    assert.is_truthy(uv.fs_stat(dir .. "/key"))
    assert.are.equal("a renewed", a:ask("renew", "a"))
  end)

  it("frees locks that were held before the machine was restarted", function()
    local a = elsewhere(1)
    local fence = a:hold("a", "key", { min_hold = 1000 })
    a:hold("other", "other")
    a:kill()
    local b = tool.start(dir)
    assert.is_true(b:hold("b", "key") > fence)
    assert.matches("^list ok {{key} ", b:ask("list"))
    release(b, "b")
    b:ask("close")
    sweep(tool.start(dir))
    assert.is_falsy(uv.fs_stat(dir .. "/other"))
  end)

  local function check_busy(p, who, opts)
    p:acquire("busy", "key", opts)
    p:expect("^busy busy %(" .. who .. "%)$")
  end

  it("keeps a lock for its min_hold under every boot id", function()
    local a, b = tool.start(dir), elsewhere(1)
    local fence = a:hold("a", "key", { min_hold = 1000 })
    release(a, "a")
    check_busy(b, "a/%d+")
    assert.is_true(b:locked("key"))
    check_busy(a, "a/%d+")
    forget_sweep()
    local c = elsewhere(2)
    assert.matches("^list ok {{key} ", c:ask("list"))
    c:ask("close")
    check_busy(b, "a/%d+")
    assert.are.equal("break ok true", b:ask("break", tool.hex("key")))
    assert.is_true(b:hold("b", "key") > fence)
  end)

  it("keeps what is shared for the longest min_hold, boot id or not",
    function()
      local a, b = tool.start(dir), elsewhere(1)
      for i, min_hold in ipairs { 0, 1000, 2000, 1 } do
        a:hold("a" .. i, "key", { units = 1, cap = 4, min_hold = min_hold })
      end
      for i = 1, 4 do
        release(a, "a" .. i)
      end
      check_busy(b, "a3/%d+")
      check_busy(b, "a3/%d+", { units = 1, cap = 4 })
    end)

  local function zero(at, size)
    local fd = assert(uv.fs_open(dir .. "/key", "r+", 0))
    assert(uv.fs_write(fd, ("\0"):rep(size), at))
    assert(uv.fs_close(fd))
  end

  it("gives away no damaged lock while its holder is stopped", function()
    local a, b, c = tool.start(dir), elsewhere(1), tool.start(dir)
    a:send("ttl", 1000000)
    a:hold("a", "key")
    a.process:pause()
    zero(0, 4096)
    check_busy(c, "a damaged lock file")
    check_busy(b, "a damaged lock file")
    check_busy(c, "a damaged lock file")
  end)

  for header = 0, 1 do
    it("gives away no lock whose header " .. header .. " is damaged",
      function()
        local a, b = tool.start(dir), elsewhere(1)
        a:send("ttl", 1000000)
        a:hold("a", "key")
        release(a, "a")
        a:hold("a", "key")
        a.process:pause()
        zero(2048 * header, 2048)
        sweep(elsewhere(2))
        check_busy(b, ".*")
      end)
  end

  it("gives away no lock whose place in the table is damaged", function()
    local a, b, c = tool.start(dir), elsewhere(1), tool.start(dir)
    a:send("ttl", 1000000)
    a:hold("a", "key")
    c:acquire("c", "key", { timeout = 20 })
    a:wait_queue("key", 1)
    c:kill()
    a.process:pause()
    zero(8192, 512)
    sweep(elsewhere(2))
    check_busy(b, "a damaged lock file")
  end)

  it("gives away no lock whose holder lets go of its damaged file", function()
    local a, b, c = elsewhere(1), tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:send("ttl", 1000000)
    b:acquire("b", "key", { timeout = 20 })
    a:wait_queue("key", 1)
    a:kill()
    b:expect("^b held %d+$")
    c:acquire("c", "key", { timeout = 20 })
    b:wait_queue("key", 1)
    c:kill()
    zero(8192, 4096)
    for i = 1, 70 do -- more files than are kept open
      b:hold("o" .. i, "other" .. i)
      release(b, "o" .. i)
    end
    check_busy(elsewhere(2), "a damaged lock file")
  end)

  it("sweeps a damaged file of before a restart, if nobody is left", function()
    local a, c = elsewhere(1), elsewhere(1)
    local fence = a:hold("a", "key", { min_hold = 1000 })
    c:acquire("c", "key", { timeout = 20 })
    a:wait_queue("key", 1)
    c:kill()
    a:kill()
    zero(8192, 512)
    sweep(tool.start(dir))
    assert.is_falsy(uv.fs_stat(dir .. "/key"))
    assert.is_true(tool.start(dir):hold("b", "key") > fence)
  end)

  it("frees at once what was kept when the machine was restarted", function()
    local a = elsewhere(1, 100000)
    local fence = a:hold("a", "key", { min_hold = 1000 })
    release(a, "a")
    a:hold("other", "key2", { min_hold = 1000 })
    a:kill()
    local b = tool.start(dir)
    assert.is_true(b:hold("b", "key") > fence)
    b:hold("b2", "key2")
  end)

  it("is unavailable where the boot id cannot be read", function()
    local text = "^ping unavailable: .*boot_id.*ProcSubset"
    local hidden = apart("--mount", "mount -t tmpfs none /proc/sys")
    assert.matches(text, tool.start(dir, nil, hidden):ask("ping"))
    local empty = apart("--mount", "mount --bind /dev/null " .. BOOT)
    assert.matches(text, tool.start(dir, nil, empty):ask("ping"))
  end)

  it("takes no descriptor left for unavailable, not for a restart", function()
    local a = tool.start(dir)
    a:hold("a", "key")
    for left = 0, 12 do
      local b = tool.start(dir)
      for _, limit in ipairs { left, -1 } do
        b:send("descriptors", limit)
        b:acquire("b", "key")
        local line = assert(b:read_line())
        assert.is_truthy(line:find "^b busy"
          or limit == left and line:find "^b unavailable: .*open files", line)
      end
      b:kill()
    end
  end)
end)
