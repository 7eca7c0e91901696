-- Key files that somebody else writes into while they are in use: the lock is
-- not given to a second one while the first may believe in it, and nothing
-- crashes or stands still.

local apart = require "spec.support.apart"
local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local TTL = 0.3
local LATER = { timeout = 20 }
local HEADER, SLOTS = 2048, 8192

describe("a lock file that is written into", function()
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

  local function start()
    local p = tool.start(dir)
    p:send("ttl", TTL * 1000)
    return p
  end

  local function overwrite(at, bytes)
    local fd = assert(uv.fs_open(path, "r+", 0))
    assert(uv.fs_write(fd, bytes, at))
    assert(uv.fs_close(fd))
  end

  local function truncate(size)
    local fd = assert(uv.fs_open(path, "r+", 0))
    assert(uv.fs_ftruncate(fd, size))
    assert(uv.fs_close(fd))
  end

  local KINDS = {
    ["truncated to nothing"] = function() truncate(0) end,
    ["cut in a header"] = function() truncate(100) end,
    ["cut behind the headers"] = function() truncate(2 * HEADER) end,
    ["full of zeros"] = function() overwrite(0, ("\0"):rep(16384)) end,
    ["full of random bytes"] = function() overwrite(0, uv.random(16384)) end,
    ["random in the first header"] =
      function() overwrite(0, uv.random(HEADER)) end,
    ["random in the second header"] =
      function() overwrite(HEADER, uv.random(HEADER)) end,
    ["zeros in the first header"] =
      function() overwrite(0, ("\0"):rep(HEADER)) end,
    ["zeros in the second header"] =
      function() overwrite(HEADER, ("\0"):rep(HEADER)) end,
    ["random in the slots"] = function() overwrite(SLOTS, uv.random(8192)) end,
    ["random in the key"] =
      function() overwrite(2 * HEADER, uv.random(HEADER)) end,
    ["one that goes on with our magic"] =
      function() overwrite(0, "ldfile01" .. ("x"):rep(9000)) end,
  }

  -- Whoever gets it when the first one is stopped gets it after the time in
  -- which that one stops believing in it.
  for kind, damage in pairs(KINDS) do
    it("(" .. kind .. ") is not granted again within its ttl", function()
      local a, b, c = start(), start(), start()
      local fence = a:hold("a", "key")
      b:acquire("b", "key", LATER)
      b:wait_queue("key", 1)
      -- Random bytes are damage to those who have seen the table before.
      c:acquire("first", "key")
      c:expect("^first busy")
      a:stop()
      local began = uv.hrtime()
      damage()
      c:acquire("try", "key")
      c:expect("^try busy")
      c:acquire("c", "key", LATER)
      for _ = 1, 2 do
        local who, later
        repeat
          local line = b:read_line(0.01) or c:read_line(0.01)
          who, later = (line or ""):match("^([bc]) held (%d+)")
          local over = (uv.hrtime() - began) / 1e9 >= TTL * 0.9
          assert.is_true(over or not who, line)
          -- The table may be whole enough to say that a holds, until it ends.
          if over and not a.process.status then
            a:kill()
          end
        until who
        assert.is_true(tonumber(later) > fence)
        fence = tonumber(later)
        local p = who == "b" and b or c
        p:send("release", who)
        p:expect("^" .. who .. " released$")
      end
      assert.is_true(c:hold("c2", "key") > fence)
    end)
  end

  it("makes a holder that runs notice at once", function()
    local a, b = start(), start()
    a:hold("a", "key")
    truncate(0)
    b:acquire("b", "key", LATER)
    a:expect("^a lost") -- nothing renews by itself in there
    assert.matches("^a lost", a:ask("release", "a"))
    b:expect("^b held")
  end)

  it("is mended at once when no other process is there", function()
    local a = start()
    a:hold("a", "key")
    a:send("release", "a")
    a:expect("^a released$")
    overwrite(0, uv.random(16384))
    a:hold("b", "key")
  end)

  -- b has read ~store while the long ttl was in it.
  it("is kept for the longest ttl though ~store was deleted", function()
    local a, b = start(), start()
    a:send("ttl", 300000)
    a:hold("a", "key")
    assert.matches("^ping ok", b:ask("ping"))
    for _, again in ipairs { false, true } do
      assert(uv.fs_unlink(dir .. "/~store"))
      if again then
        b:hold("b", "other")
      end
      truncate(0)
      b:acquire("b", "key")
      b:expect("^b busy %(a damaged lock file%)$")
      local left = b:ask("inspect", tool.hex("key"))
        :match "damaged.* ttl=([%d.]+)"
      assert.is_true(tonumber(left) > 270 and tonumber(left) <= 300, left)
    end
  end)

  it("is the key's as long as its name is", function()
    local a = start()
    a:hold("a", "key")
    overwrite(2 * HEADER + 8, "K") -- a bit of the key's first byte
    local b = start()
    b:acquire("b", "key", LATER)
    b:wait_queue("key", 1)
    assert.are.equal("a released", a:ask("release", "a"))
    b:expect("^b held")
    assert.are.equal("list ok {{key} nil}", b:ask("list"))
  end)

  -- As a file system that takes upper and lower case for one.
  it("by two keys is one key's", function()
    local a = start()
    a:hold("a", "KEY")
    server.write_file(path, "")
    local b = tool.start(dir, nil, apart("--mount",
      ("mount --bind %s/KEY %s"):format(dir, path)))
    b:acquire("b", "key")
    b:expect("^b invalid: .*another key's")
    b:acquire("b", "KEY")
    b:expect("^b busy")
  end)

  it("is free at once after an admin breaks the lock", function()
    local a, b = start(), start()
    a:send("ttl", 1000000)
    a:hold("a", "key")
    truncate(0)
    b:acquire("b", "key")
    b:expect("^b busy %(a damaged lock file%)$")
    assert.are.equal("break ok true", b:ask("break", tool.hex("key")))
    b:hold("b", "key")
  end)
end)
