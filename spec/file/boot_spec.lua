-- The file store in containers and after a restart of the machine: what was
-- held before is free, and no table of a process that lives is taken for one of
-- before. A process that is shown another boot id stands for a machine that was
-- restarted.

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

  -- By one that has not connected yet, and goes.
  local function sweep(p)
    assert(uv.fs_unlink(dir .. "/~store"))
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

  it("refuses a store that sees another boot id than those that live",
    function()
      local a, b = tool.start(dir), elsewhere(1)
      a:hold("a", "key")
      local text = " unsupported: .*another boot id"
      for _, call in ipairs { "locked", "inspect", "break", "revoke" } do
        assert.matches("^" .. call .. text, b:ask(call, tool.hex("key")))
      end
      assert.matches("^ping" .. text, b:ask("ping"))
      b:acquire("b", "key", { timeout = 20 })
      b:expect("^b" .. text)
      assert.are.equal("a renewed", a:ask("renew", "a"))
      a:kill()
      b:hold("b", "key")
      local c = tool.start(dir)
      c:acquire("c", "key")
      c:expect("^c" .. text)
    end)

  it("excludes between processes that cannot see each other", function()
    local function start()
      return tool.start(dir, nil, apart("--pid --mount-proc", ""))
    end
    check_exclusion(start(), start(), tool.start(dir))
  end)

  it("frees locks that were held before the machine was restarted", function()
    local a = elsewhere(1)
    local fence = a:hold("a", "key", { min_hold = 1000 })
    a:hold("other", "other")
    release(a, "a")
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

  local function write(name, bytes, at)
    local fd = assert(uv.fs_open(dir .. "/" .. name, "r+", 0))
    assert(uv.fs_write(fd, bytes, at))
    assert(uv.fs_close(fd))
  end

  local function zero(at, size)
    write("key", ("\0"):rep(size), at)
  end

  it("gives away no damaged lock while its holder is stopped", function()
    local a, b = tool.start(dir), tool.start(dir)
    a:send("ttl", 1000000)
    a:hold("a", "key")
    a:stop()
    zero(0, 4096)
    check_busy(b, "a damaged lock file")
    check_busy(b, "a damaged lock file")
  end)

  for header = 0, 1 do
    it("gives away no lock whose header " .. header .. " is damaged",
      function()
        local a, b = tool.start(dir), tool.start(dir)
        a:send("ttl", 1000000)
        a:hold("a", "key")
        release(a, "a")
        a:hold("a", "key")
        a:stop()
        zero(2048 * header, 2048)
        sweep(tool.start(dir))
        check_busy(b, ".*")
      end)
  end

  it("gives away no lock whose place in the table is damaged", function()
    local a, b, c = tool.start(dir), tool.start(dir), tool.start(dir)
    a:send("ttl", 1000000)
    a:hold("a", "key")
    c:acquire("c", "key", { timeout = 20 })
    a:wait_queue("key", 1)
    c:kill()
    a:stop()
    zero(8192, 512)
    sweep(tool.start(dir))
    check_busy(b, "a damaged lock file")
  end)

  -- Uses more files than are kept open. Meanwhile it may see that the lock is
  -- lost.
  local function let_go(p)
    for i = 1, 70 do
      p:acquire("o" .. i, "other" .. i)
      p:expect("^o" .. i .. " held")
      p:send("release", "o" .. i)
      p:expect("^o" .. i .. " released")
    end
  end

  -- Without its slots, and without both headers.
  for at, size in pairs { [8192] = 4096, [0] = 4096 } do
  it("gives away no lock whose holder lets go of its damaged file, " .. at,
  function()
    local a, b, c = tool.start(dir), tool.start(dir), tool.start(dir)
    a:hold("a", "key")
    b:send("ttl", 1000000)
    b:acquire("b", "key", { timeout = 20 })
    a:wait_queue("key", 1)
    a:kill()
    b:expect("^b held %d+$")
    c:acquire("c", "key", { timeout = 20 })
    b:wait_queue("key", 1)
    c:kill()
    zero(at, size)
    let_go(b)
    check_busy(tool.start(dir), "a damaged lock file")
  end)

  it("deletes no damaged file that it lets go of while others live, " .. at,
  function()
    local a, b = tool.start(dir), tool.start(dir)
    a:send("ttl", 1000000)
    a:hold("a", "key")
    b:acquire("b", "key")
    b:expect("^b busy")
    a:stop()
    zero(at, size)
    let_go(b)
    assert.is_truthy(uv.fs_stat(dir .. "/key"))
    check_busy(b, ".*") -- the header may say who holds it
  end)
  end

  -- What is left of a file, and whether it says whose it was.
  local LEFT = {
    ["zeros in both headers"] = function(name)
      write(name, ("\0"):rep(4096), 0)
    end,
    ["our magic and no sum"] = function(name)
      write(name, "ldfile01" .. ("x"):rep(4088), 0)
    end,
    ["zeros"] = function(name) write(name, ("\0"):rep(10240), 0) end,
    ["nothing"] = function(name)
      local fd = assert(uv.fs_open(dir .. "/" .. name, "r+", 0))
      assert(uv.fs_ftruncate(fd, 0))
      assert(uv.fs_close(fd))
    end,
  }
  local LONG = ("/"):rep(200)

  for what, damage in pairs(LEFT) do
    it("leaves a file without headers to who asks for its key: " .. what,
      function()
        local a, keys = tool.start(dir), { "key", ".a/%b\0", LONG }
        for i, key in ipairs(keys) do a:hold("a" .. i, key) end
        a:kill()
        for name in uv.fs_scandir_next, (assert(uv.fs_scandir(dir))) do
          if not name:find("^~[ws]") then damage(name) end
        end
        sweep(tool.start(dir))
        assert.is_truthy(uv.fs_stat(dir .. "/key"))
        local b = tool.start(dir)
        for i, key in ipairs(keys) do b:hold("b" .. i, key) end
      end)

    it("sweeps no file without headers while somebody lives: " .. what,
      function()
        local a, c = tool.start(dir), tool.start(dir)
        a:send("ttl", 1000000)
        a:hold("a", "key")
        a:stop()
        damage("key")
        sweep(c)
        assert.is_truthy(uv.fs_stat(dir .. "/key"))
        check_busy(tool.start(dir), "a damaged lock file")
      end)
  end

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
