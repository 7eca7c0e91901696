-- The command: what it understands, what it prints, how it ends. (`dlock run`:
-- cli/run_spec.)
local args = require "dlock.cli.args"
local command = require "spec.support.command"
local dlock = require "dlock"
local json = require "dlock.json"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"

local run, spawn = command.run, command.spawn
local unpack = rawget(_G, "unpack") or table.unpack

for _, subject in ipairs(subjects) do
  describe("the command on " .. subject.name, function()
    local url, key, store = subject.url(), nil, nil

    before_each(function()
      key = command.key()
      store = assert(dlock.open(url))
    end)

    after_each(function()
      process.close_all()
      assert(store:close())
    end)

    it("shows, lists, counts, breaks", function()
      local lease = assert(store:lock(key))
      local _, out = run("--url", url, "show", key)
      -- Redis knows the exact fence of few holds that have no value.
      assert.matches("^exclusive\nheld by %S+, fence [atmos ]*" ..
        ("%.0f"):format(lease.fence) .. ", ends in ", out)
      _, out = run("--url", url, "ls", key)
      assert.equal(key .. "\n", out)
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
      assert.equal('["' .. key .. '"]\n', out)
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
      says("^" .. key .. "\\x1b%[2J\\xc2\\x9b\\x0a%%d\n$", "ls", key)
      says(key, "ls", "--json", key)
      assert(lease:release())
      assert(bare:close())
    end)

    it("watches a key", function()
      local p = spawn("--url", url, "watch", key)
      p:expect("^free$")
      local lease = assert(store:lock(key))
      p:expect("^held by ")
      assert(lease:release())
      p:expect("^free$")
      p:kill("sigint")
      assert.same({ 0, "" }, { p:wait(10), p.err })
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
          { key, "--help=no" } } do
        local status, out, err = run("--url", url, "break", unpack(line))
        assert.same({ 64, "" }, { status, out })
        assert.matches("^dlock: [^\n]+\ndlock %-%-help lists", err)
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
    p:expect("^free$")
    loop.close(p.pipes[2])
    local lease = assert(store:lock("unread"))
    local _, signal = p:wait(10)
    assert.same({ 13, "" }, { signal, p.err })
    assert(lease:release())
    assert(store:close())
  end)

  it("says 77 when it is refused", function()
    local url = assert(os.getenv("DLOCK_TEST_REDIS"))
    local path = tostring(os.getenv("DLOCK_TEST_DIR")) .. "/password"
    server.write_file(path, "wrong\n")
    local status, _, err = run("ping", "--password-file", path, "--url", url)
    assert.equal(77, status)
    assert.matches("^dlock: denied: ", err)
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

  it("shows its version and its usage, in which everything stands", function()
    local _, out = run("--version")
    assert.equal("dlock " .. dlock.VERSION .. "\n", out)
    local status
    status, out = run("frob", "-h")
    assert.equal(0, status)
    for _, name in ipairs(args.names()) do
      assert.matches("[%s]" .. name:gsub("%-", "%%-") .. "[%s,]", out)
    end
  end)

  local function read(line)
    local list = {}
    for word in line:gmatch("%S+") do list[#list + 1] = word end
    return args.read(list)
  end

  it("reads its command line", function()
    assert.same({ verb = "run", words = { "k" }, command = { "-n", "--", "-h" },
      options = { ["-n"] = true, ["-E"] = 0, ["--ttl"] = 1.5,
        ["--permits"] = { permits = 1, of = 3 } } },
      read("-n run --permits 1/3 -E 0 k --ttl=1.5 -- -n -- -h"))
    assert.equal(math.huge, read("run k --timeout inf -- x")
      .options["--timeout"])
    assert.same({ verb = "show", words = { "--key" }, options = {} },
      read("show -- --key"))
    assert.same({ verb = "ls", words = {},
      options = { ["--prefix"] = "-x=y" } }, read("ls --prefix=-x=y"))
    assert.same({ verb = "run", words = { "-k" }, command = { "x", "--" },
      options = { ["-n"] = true } }, read("run -n -- -k -- x --"))
    assert.is_true(read("frob --frob -h").help)
    assert.same({ "--help" }, read("break -- --help").words)
  end)

  it("says which seconds it takes, in its own words", function()
    for given, range in pairs { ["--timeout 1000000001"] = "inf or SECONDS"
        .. " from 0 to 1000000000", ["--ttl 0.05"] = "SECONDS from 0.1 to"
        .. " 31536000", ["--ttl 31536001"] = "SECONDS from 0.1 to 31536000" } do
      local option, value = given:match("^(%S+) (%S+)$")
      local status, out, err = run("--url", on_files, "run", option, value, "k",
        "--", "true")
      assert.same({ 64, "" }, { status, out })
      assert.matches("^dlock: " .. option:gsub("%-", "%%-") .. " takes "
        .. range .. ", not '" .. value .. "'\n", err)
    end
    for _, line in ipairs { "--timeout 0", "--timeout 1000000000", "--ttl .1",
        "--ttl 31536000" } do
      assert.is_truthy(read("run " .. line .. " k -- x"), line)
    end
  end)

  it("takes a value behind a blank as one behind =, with a dash too", function()
    for _, value in ipairs { "-x", "-", "--x", "-x=y", "--=", "---" } do
      local joined, apart = read("ls --prefix=" .. value .. " -x"),
        read("ls --prefix " .. value)
      assert.is_nil(joined) -- -x itself is no option
      assert.same({ verb = "ls", words = {}, options =
        { ["--prefix"] = value } }, apart)
      assert.same(read("ls --prefix=" .. value), apart)
    end
    for _, line in ipairs { "--ttl%s-1", "--timeout%s-inf" } do
      local _, joined = read("run k " .. line:format("=") .. " -- x")
      local _, apart = read("run k " .. line:format(" ") .. " -- x")
      assert.is_string(joined)
      assert.equal(joined, apart)
    end
  end)

  it("does not take an option for the value of another one", function()
    for _, next_one in ipairs { "--json", "--url=a", "-n", "--" } do
      local found, problem = read("show --prefix " .. next_one .. " k")
      assert.is_nil(found)
      assert.is_truthy(problem:find("^%-%-prefix needs PREFIX"), problem)
      assert.is_truthy(problem:find("--prefix=...", 1, true), problem)
    end
    local _, problem = read("run -E -n k -- x")
    assert.equal("-E needs STATUS from 0 to 255", problem)
    assert.same({ ["--prefix"] = "--json" },
      read("ls --prefix=--json").options)
  end)

  it("refuses what it does not understand", function()
    for _, line in ipairs { "", "frob", "--", "run", "run k", "run k --",
        "run k true", "run -- k", "run -- k true", "run -- k --",
        "run k j -- true", "show", "show a b", "ping k", "ls a b",
        "run --ttl soon k -- x",
        "run --ttl 5s k -- x",
        "run --ttl -5 k -- x", "run --ttl nan k -- x", "run --ttl inf k -- x",
        "run --timeout 0x5 k -- x", "run -E 256 k -- x", "run -E -1 k -- x",
        "run --permits x k -- x", "run --permits 1/3 --shared k -- x",
        "run -n --timeout 5 k -- x", "run --json k -- x", "show k -n",
        "show --url a --url b k", "run -nE 5 k -- x", "ping --url",
        "ping --json=yes", "show - --json=", "-", "run --shared=no k -- x" } do
      local found, problem = read(line)
      assert.is_nil(found, line)
      assert.is_truthy(problem)
    end
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
