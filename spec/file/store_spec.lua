-- The file store from outside, by processes that can be killed at any moment.
-- The contract is in contract_spec; here is what only this store promises.

local process = require "spec.support.process"
local promptly = require "spec.support.promptly"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local tool = require "spec.support.file_tool"
local uv = require "luv"

local READ = { units = 1, cap = 0, timeout = 20 }
local WRITE = { timeout = 20 }
-- A waiter's own timer looks after a quarter of a second at the earliest.
local TOLD = 0.24

-- Names in a directory, sorted.
local function names(dir)
  local list, scan = {}, uv.fs_scandir(dir)
  while scan do
    local name = uv.fs_scandir_next(scan)
    if not name then
      break
    end
    list[#list + 1] = name
  end
  table.sort(list)
  return list
end

local function keys_in(dir)
  local n = 0
  for _, name in ipairs(names(dir)) do
    if not name:find("^~[sw]") then
      n = n + 1
    end
  end
  return n
end

local function seconds_since(start)
  return (uv.hrtime() - start) / 1e9
end

describe("file store", function()
  local dir, base

  local function set_up()
    base = server.new_dir()
    dir = base .. "/locks"
  end

  local function tear_down()
    process.close_all()
    server.remove_dir(base)
  end

  local timed = steady(set_up, tear_down)

  local function start(n)
    local list = {}
    for i = 1, n or 1 do
      list[i] = tool.start(dir)
    end
    return (table.unpack or unpack)(list)
  end

  describe("a death by kill -9", function()
    it("of the holder lets the next waiter in at once", function()
      promptly(TOLD, function(i)
        local a, b = start(2)
        local fence = a:hold("a", "key" .. i)
        b:acquire("b", "key" .. i, WRITE)
        a:wait_queue("key" .. i, 1)
        local began = uv.hrtime()
        a:kill()
        local _, later = b:expect("^b held (%d+)$")
        assert.is_true(tonumber(later) > fence)
        return seconds_since(began)
      end)
    end)

    it("of the holder is seen by a try", function()
      local a, b = start(2)
      a:hold("a", "key")
      b:acquire("b", "key")
      b:expect("^b busy %(a/%d+%)$")
      a:kill()
      b:hold("b", "key")
    end)

    it("of waiters in the middle blocks no other waiter", function()
      local all = { start(9) }
      all[1]:hold("w1", "key")
      for i = 2, 9 do
        all[i]:acquire("w" .. i, "key", WRITE)
        all[1]:wait_queue("key", i - 1)
      end
      for _, i in ipairs { 2, 4, 5, 8 } do
        all[i]:kill()
      end
      all[1]:send("release", "w1")
      local last = 0
      for _, i in ipairs { 3, 6, 7, 9 } do
        local _, fence = all[i]:expect("^w" .. i .. " held (%d+)$")
        assert.is_true(tonumber(fence) > last)
        last = tonumber(fence)
        all[i]:send("release", "w" .. i)
      end
    end)

    timed("of holder and all waiters but the last", function()
      local all = { start(6) }
      all[1]:hold("w1", "key")
      for i = 2, 6 do
        all[i]:acquire("w" .. i, "key", WRITE)
        all[i]:wait_queue("key", i - 1)
      end
      local began = uv.hrtime()
      for i = 1, 5 do
        all[i].process:kill()
      end
      all[6]:expect("^w6 held")
      assert.is_true(seconds_since(began) < 1.5)
    end)

    it("of one of two holders of permits lets a waiter in", function()
      local two = { units = 1, cap = 2, timeout = 20 }
      promptly(TOLD, function(i)
        local a, b, c = start(3)
        a:hold("a", "sem" .. i, two)
        b:hold("b", "sem" .. i, two)
        c:acquire("c", "sem" .. i, two)
        a:wait_queue("sem" .. i, 1)
        local began = uv.hrtime()
        b:kill()
        c:expect("^c held")
        return seconds_since(began)
      end)
    end)

    it("leaves nothing of it in the directory", function()
      local a, b = start(2)
      a:hold("a", "key")
      a:kill()
      b:hold("b", "key")
      assert.are.equal("b released", b:ask("release", "b"))
      assert.are.equal("- closed", b:ask("close"))
      assert.are.same({ "~store" }, names(dir))
    end)
  end)

  describe("a forked child", function()
    it("does not keep its killed parent's lock", function()
      local a, b = start(2)
      a:hold("a", "key")
      local child = tonumber(a:ask("fork"):match("forked (%d+)"))
      b:acquire("b", "key", WRITE)
      a:wait_queue("key", 1)
      a:kill()
      b:expect("^b held")
      -- It was really there all the time.
      assert.are.equal(0, uv.kill(child, "sigkill"))
    end)

    it("takes nothing from its parent by ending", function()
      local a, b = start(2)
      a:hold("a", "key")
      uv.kill(tonumber(a:ask("fork"):match("forked (%d+)")), "sigkill")
      b:acquire("b", "key")
      b:expect("^b busy")
      assert.are.equal("a renewed", a:ask("renew", "a"))
    end)
  end)

  describe("queue", function()
    it("grants a hundred readers behind one writer", function()
      local a, b = start(2)
      a:hold("w", "key")
      for i = 1, 100 do
        b:acquire("r" .. i, "key", READ)
      end
      a:wait_queue("key", 100)
      a:send("release", "w")
      local seen = {}
      for _ = 1, 100 do
        local _, id = b:expect("^r(%d+) held")
        seen[tonumber(id)] = true
      end
      assert.are.equal(100, #seen)
    end)

    it("is still watched by the waiter behind one that left", function()
      promptly(TOLD, function(i)
        local a, b, c = start(3)
        a:hold("a", "key" .. i)
        b:acquire("b", "key" .. i, WRITE)
        b:wait_queue("key" .. i, 1)
        c:acquire("c", "key" .. i, WRITE)
        c:wait_queue("key" .. i, 2)
        b:send("cancel", "b")
        b:expect("^b cancelled")
        local began = uv.hrtime()
        a:kill()
        c:expect("^c held")
        return seconds_since(began)
      end)
    end)
  end)

  it("answers in time when a process was stopped inside the mutex", function()
    local a, b = start(2)
    b:hold("b", "key")
    a:send("jam", tool.hex("key"))
    a:expect("jammed")
    b:acquire("w", "key", { timeout = 0.3 })
    b:expect("^w timeout", 5)
    b:acquire("t", "key")
    b:expect("^t unavailable: .*stopped", 10)
    b:send("release", "b")
    b.process:write("ping\n")
    b:expect("^ping ok", 5)
    uv.kill(a.pid, "sigcont")
    b:expect("^b released$")
    assert.is_false(b:locked("key"))
  end)

  describe("directory", function()
    it("is made with mode 0700, its files with 01600", function()
      local a = tool.start(base .. "/new")
      a:hold("a", "key")
      local mode = assert(uv.fs_stat(base .. "/new")).mode
      assert.are.equal(448, mode % 4096)
      mode = assert(uv.fs_stat(base .. "/new/key")).mode
      assert.are.equal(896, mode % 4096)
    end)

    it("is not made with its parents: the path may be mistyped", function()
      local a = tool.start(base .. "/deep/locks")
      local text = " invalid: .*/deep/locks: No such file .*parent"
      assert.matches("^ping" .. text, a:ask("ping"))
      a:acquire("a", "key", { timeout = 1 })
      a:expect("^a" .. text)
      assert.is_nil(uv.fs_stat(base .. "/deep"))
    end)

    -- "still held by somebody else" after the whole timeout, once.
    it("in which no file can be made is invalid", function()
      local a = tool.start("/proc")
      local text = " invalid: .*/proc: No such file or directory"
      assert.matches("^ping" .. text, a:ask("ping"))
      a:acquire("a", "key", { timeout = 600 })
      a:expect("^a" .. text)
    end)

    it("is refused when others can write to it", function()
      assert(uv.fs_mkdir(dir, 511))
      assert(uv.fs_chmod(dir, 511))
      assert.matches("^ping denied: .*chmod 0700", start():ask("ping"))
    end)

    it("is refused when it is a symbolic link", function()
      assert(uv.fs_mkdir(base .. "/real", 448))
      assert(uv.fs_symlink(base .. "/real", dir))
      local text = "^ping denied: .*symbolic link"
      assert.matches(text, start():ask("ping"))
      dir = dir .. "/"
      assert.matches(text, start():ask("ping"))
    end)

    it("is refused when it belongs to another user", function()
      assert(uv.fs_mkdir(dir, 448))
      if uv.getuid() ~= 0 then
        dir = "/" -- root's
        assert.matches("^ping denied: ", start():ask("ping"))
        return
      end
      assert(uv.fs_chown(dir, 1, 1))
      assert.matches("^ping denied: .*belongs to user 1", start():ask("ping"))
    end)

    it("can be deleted under us: holds are lost, new ones rise", function()
      local a, b = start(2)
      local fence = a:hold("a", "key")
      b:acquire("w", "key", WRITE)
      b:wait_queue("key", 1)
      server.remove_dir(dir)
      assert.matches("^a lost", a:ask("renew", "a"))
      local _, later = b:expect("^w held (%d+)$", 10)
      assert.is_true(tonumber(later) > fence)
      a:acquire("c", "key")
      a:expect("^c busy")
    end)

    it("has a file for no other key than its own", function()
      local a = start()
      local long = ("x"):rep(511)
      local tried = { "a", "A", "%41", "a/b", "a%2Fb", "..", ".", "~store",
        "~w0", "\0", "\0\0", "ä", "a\nb", "{}", " ", long .. "1",
        long .. "2", ("/"):rep(512), ("\255"):rep(512),
        "~h" .. ("A"):rep(64) }
      for i, key in ipairs(tried) do
        a:hold("k" .. i, key)
      end
      assert.are.equal(#tried, keys_in(dir))
      for i in ipairs(tried) do
        a:send("release", "k" .. i)
        a:expect("^k" .. i .. " released$")
      end
      a:ask("close")
      assert.are.same({ "~store" }, names(dir))
    end)

    it("stays small: files of idle keys go", function()
      local a = start()
      for i = 1, 500 do
        a:hold("k", "key" .. i)
        a:send("release", "k")
        a:expect("^k released$")
      end
      assert.is_true(keys_in(dir) <= 64)
      a:kill()
      assert.is_true(keys_in(dir) > 0)
      -- The next store to connect cleans up when the last sweep is a minute
      -- old; without its notes it does not know of any.
      assert(uv.fs_unlink(dir .. "/~store"))
      local b = start()
      b:ask("ping")
      b:ask("close")
      assert.are.same({ "~store" }, names(dir))
    end)

    it("can be emptied, and fences rise all the same", function()
      local a = start()
      local last = 0
      for _ = 1, 5 do
        local fence = a:hold("k", "key")
        assert.is_true(fence > last)
        assert.is_true(fence < 1e14)
        last = fence
        a:send("release", "k")
        a:expect("^k released$")
        for _, name in ipairs(names(dir)) do
          uv.fs_unlink(dir .. "/" .. name)
        end
      end
    end)

    it("may hold foreign and damaged files", function()
      local a = start()
      a:send("ttl", 100)
      a:hold("other", "other")
      server.write_file(dir .. "/foreign", ("text "):rep(2000))
      a:acquire("f", "foreign")
      a:expect("^f unavailable: .*no lock file", 5)
      a:hold("d", "damaged")
      server.write_file(dir .. "/damaged", "ldfile01" .. ("x"):rep(9000))
      assert.matches("^d lost", a:ask("renew", "d"))
      a:acquire("d2", "damaged", WRITE)
      a:expect("^d2 held")
    end)
  end)
end)
