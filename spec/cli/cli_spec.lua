-- The command: what it understands, what it prints, how it ends. (`dlock run`:
-- cli/run_spec.)
local command = require "spec.support.command"
local dlock = require "dlock"
local json = require "dlock.json"
local loop = require "spec.support.loop"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"

local run, spawn = command.run, command.spawn
local unpack = rawget(_G, "unpack") or table.unpack

for _, subject in ipairs(lot.two_stores(subjects)) do
  describe("the command on " .. subject.name, function()
    local url, key, store = subject.url(), nil, nil

    before_each(function() key, store = command.open(url) end)
    after_each(command.clean)

    it("shows, lists, counts, breaks", function()
      local lease = assert(store:lock(key))
      local _, out = run("--url", url, "show", key)
      -- Redis knows the exact fence of few holds that have no value.
      assert.matches("^exclusive\nheld by %S+, fence [atmos ]*" ..
        ("%.0f"):format(lease.fence) .. ", ends in ", out)
      _, out = run("--url", url, "ls", key)
      assert.matches("^" .. key .. "  exclusive  %S+/%d+  [%d.-]+ ?s?\n$", out)
      _, out = run("--url", url, "stats", key)
      assert.equal("1 keys, 1 holders, 0 waiters\n", out)
      assert.equal(0, (run("--url", url, "break", key)))
      assert.equal("lost", select(3, lease:release()))
      _, out = run("--url", url, "show", key)
      assert.equal("free\n", out)
    end)

    it("prints JSON when asked to", function()
      local lease = assert(store:lock(key))
      local fence = ("%.0f"):format(lease.fence)
      local _, out = run("--url", url, "--json", "ls", key)
      assert.matches('^%[{.*"holder":"%S+/%d+","holders":1,"key":"' .. key
        .. '","mode":"exclusive","waiters":0}%]\n$', out)
      _, out = run("--url", url, "show", "--json", key)
      assert.matches('^{"holders":%[{"fence":' .. fence .. ',.*"owner":".*}%],'
        .. '"key":"' .. key .. '","mode":"exclusive","waiters":%[%]}\n$', out)
      _, out = run("--url", url, "--json", "stats", key)
      assert.equal('{"holders":1,"keys":1,"waiters":0}\n', out)
      _, out = run("--url", url, "--json", "ping")
      assert.matches('^{"round_trip":[%d.e-]+}\n$', out)
      assert(lease:release())
      _, out = run("--url", url, "show", "--json", key)
      assert.equal('{"holders":[],"key":"' .. key .. '","waiters":[]}\n', out)
    end)

    it("asks the holder for the lock", function()
      local lease = assert(store:lock(key, { ttl = 2 }))
      assert.equal(0, (run("revoke", "--url", url, key)))
      local asked
      lease:on_revoke(function() asked = true end)
      -- One that is lost on a busy machine would never be asked.
      while not asked and lease:held() do assert(store:ping()) end
      assert.is_true(asked)
      assert(lease:release())
    end)

    -- Another client may check less than dlock.open does.
    it("shows no control byte of another client", function()
      local bare = require("dlock.store").open(
        assert(require("dlock.url").parse(url)),
        { name = "evil\27]0;x\7\n\194\155Jend" })
      local odd = key .. "\27[2J\194\155\n%d"
      local function check(pattern, out, err)
        assert.matches(pattern, out .. err)
        assert.is_nil((out .. err):gsub("\n$", "")
          :gsub("\nheld by ", ""):find("[%z\1-\31\127]"), out .. err)
        assert.is_nil((out .. err):find("\194\155", 1, true), out .. err)
      end
      local function says(pattern, ...)
        local _, out, err = run("--url", url, ...)
        check(pattern, out, err)
      end
      local lease = assert(bare:lock(odd))
      says("^dlock: busy: .* held by evil.*end", "run", "-n", odd, "--", "true")
      -- It has to connect and to be told who it is in this time.
      local timed_out = "^dlock: timeout: .* held by evil.*end"
      for _, timeout in ipairs { "0.1", "0.5", "3", "15" } do
        local _, out, err = run("--url", url, "run", "--timeout", timeout, odd,
          "--", "true")
        if err:find(timed_out) or timeout == "15" then
          check(timed_out, out, err)
          break
        end
      end
      says("^exclusive\nheld by evil.*end, fence", "show", odd)
      says('"owner":"evil.*end"', "show", "--json", odd)
      says("^" .. key .. "\\x1b%[2J\\xc2\\x9b\\x0a%%d  exclusive  evil.*end",
        "ls", key)
      says(key, "ls", "--json", key)
      assert(lease:release())
      assert(bare:close())
    end)

    it("watches a key", function()
      local p = spawn("--url", url, "watch", key)
      local time = "^%d+%-%d%d%-%d%dT%d%d:%d%d:%d%d "
      p:expect(time .. "free$")
      local lease = assert(store:lock(key))
      p:expect(time .. "held by ")
      assert(lease:release())
      p:expect(time .. "free$")
      p:kill("sigint")
      assert.same({ 0, "" }, { p:wait(10), p.err })
    end)

    it("watches all keys", function()
      local p = spawn("--url", url, "watch")
      local lease = assert(store:lock(key))
      p:expect(" " .. key .. " held by ")
      assert(lease:release())
      p:expect(" " .. key .. " free$")
      p:kill("sigterm")
      assert.same({ 0, "" }, { p:wait(10), p.err })
    end)

    it("says whether a key is held, and who leads", function()
      assert.same({ 1, "", "" }, { run("--url", url, "held", key) })
      assert.same({ 1, "", "" }, { run("--url", url, "leader", key) })
      local lease = assert(assert(store:election(key)):campaign {
        value = "me\27" })
      assert.same({ 0, "", "" }, { run("--url", url, "held", key) })
      assert.same({ 0, "me\\x1b\n", "" }, { run("--url", url, "leader", key) })
      local _, out = run("--url", url, "--json", "held", key)
      assert.equal('{"held":true,"key":"' .. key .. '"}\n', out)
      _, out = run("--url", url, "leader", "--json", key)
      assert.matches('^{"key":"' .. key .. '","leader":{"fence":'
        .. ("%.0f"):format(lease.fence) .. ',"owner":"[^"]+",', out)
      assert(lease:release())
    end)

    it("shows permits, the time and the value of a hold", function()
      if subject.plain then
        assert.equal(64, (run("--url", url, "run", "--permits", "2/3", key,
          "--", "true")))
        return
      end
      local lease = assert(assert(store:semaphore(key, 3)):acquire {
        permits = 2, value = "import of May" })
      local _, out = run("--url", url, "show", key)
      assert.matches("^semaphore, 3 permits\nheld by %S+, fence %d+, ends in "
        .. "[%d.]+ s, for [%d.]+ s, 2 permits, value import of May\n$", out)
      assert(lease:release())
    end)

    it("prints metrics", function()
      local lease = assert(store:lock(key))
      local _, out = run("--url", url, "stats", "--prometheus", key)
      for _, name in ipairs { "keys", "holders" } do
        assert.matches("# HELP dlock_" .. name .. " %u[^\n]+%.\n# TYPE dlock_"
          .. name .. " gauge\ndlock_" .. name .. '{store="[^"\n]+"} 1\n', out)
      end
      assert.matches('\ndlock_waiters{store="[^"]+"} 0\n$', out)
      assert(lease:release())
    end)

    it("takes its options before and after verb and key, in both forms",
      function()
        for _, line in ipairs { { "--url", url, "ping" },
            { "ping", "--url", url }, { "--url=" .. url, "show", key },
            { "show", "--url=" .. url, key }, { "show", key, "--url", url },
            { "show", "--url", url, "--", key } } do
          local status, _, err = run(unpack(line))
          assert.same({ 0, "" }, { status, err })
        end
      end)

    it("touches nothing when it is called wrongly", function()
      local lease = assert(store:lock(key))
      for _, line in ipairs { { "break", key, "--help" }, { "break", "--help" },
          { "break", key, "-h" }, { "--url", "--help", "break", key },
          { "break", key, "--version" } } do
        local status, out = run(unpack(line, 1, 5))
        assert.equal(0, status)
        assert.matches("dlock", out)
      end
      for _, line in ipairs { { key, "other" }, { key, "--frob" },
          { key, "--url=" .. url }, { key, "-x" }, { key, "--ttl", "5" },
          { "--url", key }, { "--", key, "--json" }, { key, "--json" },
          { key, "--help=no" }, { key, "--jsno" } } do
        local status, out, err = run("--url", url, "break", unpack(line))
        assert.same({ 64, "" }, { status, out })
        assert.matches("^dlock: [^\n]+\ndlock break %-%-help lists", err)
      end
      assert.is_true(lease:held())
      assert(lease:release())
    end)
  end)
end

describe("the command", function()
  local on_files = "file://" .. tostring(os.getenv("DLOCK_TEST_DIR")) .. "/cli"

  after_each(process.close_all)

  it("breaks where the options behind the key say, and nowhere else",
    function()
      local here, there = on_files .. "1", on_files .. "2"
      local stores = { assert(dlock.open(here)), assert(dlock.open(there)) }
      local leases = { assert(stores[1]:lock("prod")),
        assert(stores[2]:lock("prod")) }
      assert.equal(0, (process.run { file = "bin/dlock",
        args = { "break", "prod", "--url", there },
        env = { DLOCK_URL = here } }))
      assert(leases[1]:release())
      assert.equal("lost", select(3, leases[2]:release()))
      for _, store in ipairs(stores) do assert(store:close()) end
    end)

  it("of a build runs on the Lua that it was built for", function()
    local status, out = process.run {
      command = { "dlock", "--url", on_files, "ping" } }
    assert.equal(0, status)
    assert.matches("^[%d.]+ ms\n$", out)
  end)

  it("watches all keys in a table, in a terminal", function()
    local url = on_files .. "3"
    local store = require("dlock.store").open(
      assert(require("dlock.url").parse(url)), { name = "evil\27]0" })
    local lease = assert(store:lock("table"))
    local p = process.spawn { command = { "script", "-qfec", "exec "
      .. process.lua .. " bin/dlock watch --url " .. url, "/dev/null" } }
    p:expect("^\27%[H%d+%-.*file://")
    p:expect("^KEY +MODE +HOLDER +AGE +ENDS IN +WAITING\27%[K")
    p:expect("^table +exclusive +evil\\x1b%]0 +[%d.]+ s +[%d.]+ s +0\27%[K")
    assert(lease:release())
    p:expect("WAITING\27%[K\r?$")
    p:write("\3")
    assert.equal(0, (p:wait(10)))
    assert(store:close())
  end)

  it("loads no more than its verb needs", function()
    local status, out = process.run { args = { on_files }, script = [[
      local status = require("dlock.cli") { "--url", arg[1], "run", "k", "--",
        "true" }
      for _, name in ipairs { "kinds.all", "kinds.fallback", "logger",
          "cli.help", "cli.handle", "cli.look", "cli.watch",
          "cli.waiting" } do
        if package.loaded["dlock." .. name] then print(name) end
      end
      for _, name in ipairs { "kinds.barrier", "kinds.latch", "kinds.once",
          "kinds.semaphore", "host.cqueues", "host.luv" } do
        if not package.preload["dlock." .. name] then print(name) end
      end
      assert(require("dlock").open(arg[1]):latch("l", 1):count())
      assert(not package.preload["dlock.kinds.latch"])
      os.exit(status)]] }
    assert.same({ 0, "" }, { status, out })
  end)

  it("says 69 when the store is not there", function()
    local status, _, err = run("ping", "--url", "redis://127.0.0.1:1")
    assert.equal(69, status)
    assert.matches("^dlock: unavailable: ", err)
  end)

  it("says 74 when what it prints cannot be written", function()
    for _, line in ipairs { "ping", "ls", "show k", "stats", "watch k",
        "--json ls", "--help", "--version" } do
      local store = assert(dlock.open(on_files))
      local lease = assert(store:lock("here"))
      for _, nowhere in ipairs { ">/dev/full", ">&-" } do
        local status, _, err = process.run { command = { "sh", "-c",
          process.lua .. ' bin/dlock --url "$0" ' .. line .. nowhere,
          on_files } }
        assert.same({ line, 74 }, { line, status })
        assert.matches("^dlock: the output cannot be written: %u", err)
      end
      assert(lease:release())
      assert(store:close())
    end
  end)

  it("ends as other programs do when nobody reads what it prints", function()
    local store = assert(dlock.open(on_files))
    local p = spawn("--url", on_files, "watch", "unread")
    p:expect(" free$")
    loop.close(p.pipes[2])
    local lease = assert(store:lock("unread"))
    local _, signal = p:wait(10)
    assert.same({ 13, "" }, { signal, p.err })
    assert(lease:release())
    assert(store:close())
  end)

  it("tells of a release that got no answer", function()
    local private = redis.start()
    local status, _, err = run("run", "--url", private.url, "--io-timeout",
      "0.2", "k", "--", "sh", "-c", "kill -STOP " .. private.pid .. "; exit 3")
    private:resume()
    private:stop()
    assert.equal(3, status)
    assert.matches("^dlock: unavailable: 'k': .* its ttl ends it\n$", err)
  end)

  it("says 77 when it is refused", function()
    local url = assert(os.getenv("DLOCK_TEST_REDIS"))
    local path = tostring(os.getenv("DLOCK_TEST_DIR")) .. "/password"
    server.write_file(path, "wrong\n")
    local status, _, err = run("ping", "--password-file", path, "--url", url)
    assert.equal(77, status)
    assert.matches("^dlock: denied: ", err)
    local its_status, _, why = process.run { file = "bin/dlock",
      args = { "ping" },
      env = { DLOCK_URL = url, DLOCK_PASSWORD_FILE = path .. ".none" } }
    assert.equal(64, its_status)
    assert.matches("^dlock: invalid: password_file .* cannot be read", why)
    assert.is_nil(why:find("DLOCK_URL", 1, true), why)
  end)

  it("gives the prefix to the store", function()
    local url = assert(os.getenv("DLOCK_TEST_REDIS"))
    local store = assert(dlock.open { url = url, prefix = "mine:" })
    local lease = assert(store:lock("k"))
    local _, out = run("show", "--url", url, "--prefix", "mine:", "k")
    assert.matches("^exclusive\n", out)
    _, out = run("show", "--url", url, "--prefix=other:", "k")
    assert.equal("free\n", out)
    assert(lease:release())
    assert(store:close())
  end)
end)

describe("JSON text", function()
  it("holds what was put in", function()
    assert.equal('{"a":[1,1.5,true,"x"],"b":{"c":null},"d":[]}', json.encode {
      a = { 1, 1.5, true, "x" }, b = { c = math.huge }, d = {} })
    assert.equal('"\\u0022\\u005c\\u000a\\u0000/"', json.encode('"\\\n\0/'))
    assert.equal("null", json.encode(nil))
    assert.equal("17638205551234", json.encode(17638205551234))
  end)

  it("is UTF-8, whatever a key is", function()
    for _, s in ipairs { "é", "€", "😀", "a é" } do
      assert.equal('"' .. s .. '"', json.encode(s))
    end
    for _, s in ipairs { "\255", "\195", "\195x", "é\128", "\192\128",
        "\237\160\128", "\240\128\128\128", "\244\144\128\128", "\226\130" } do
      assert.matches('^"[%w%s\\u]*"$', json.encode(s))
    end
  end)
end)
