-- The command: what it prints, how it ends, and what it does to its child.
local dlock = require "dlock"
local process = require "spec.support.process"
local subjects = require "spec.contract.subjects"

local counter = 0

local function each_store(body)
  for _, subject in ipairs(subjects) do
    describe("on " .. subject.name, function()
      local url, key = subject.url(), nil
      before_each(function()
        counter = counter + 1
        key = ("cli:%d:%d"):format(os.time(), counter)
      end)
      body(url, function() return key end)
    end)
  end
end

local function options(url, ...)
  return { file = "bin/dlock", args = { "--url", url, ... } }
end

local function run(url, ...)
  return process.run(options(url, ...))
end

local function spawn(url, ...)
  return process.spawn(options(url, ...))
end

each_store(function(url, key)
  it("run ends with the command's status and tells it key and fence", function()
    local status, out = run(url, "run", key(), "--", "sh", "-c",
      'echo "$DLOCK_KEY $DLOCK_FENCE"; exit 7')
    assert.equal(7, status)
    assert.equal(key(), out:match("^(%S+) %d+\n$"))
  end)

  it("run ends with 75 when somebody else holds it, then gets it", function()
    local store = assert(dlock.open(url))
    local lease = assert(store:lock(key()))
    local status, _, err = run(url, "run", "--timeout", "0.1", key(), "--",
      "echo", "never")
    assert.equal(75, status)
    assert.matches("still held by", err)
    assert(lease:release())
    assert.equal(0, (run(url, "run", "--timeout", "5", key(), "--", "true")))
    assert(store:close())
  end)

  it("run tells its command to end when the lock is lost, and says 70",
    function()
      local store = assert(dlock.open(url))
      local how = options(url, "run", "--ttl", "0.6", key(), "--", "sh",
        "-c", "trap 'echo told; exit 0' TERM; echo begun; "
        .. "while :; do sleep 0.05; done")
      how.stderr = "pipe"
      local p = process.spawn(how)
      p:expect("^begun$")
      assert(store:break_lock(key()))
      p:expect("^told$")
      assert.equal(70, (p:wait(10)))
      assert.matches("^dlock: lost: the lease on 'cli:", p.err)
      p:close()
      assert(store:close())
    end)

  it("run passes SIGTERM on and releases when the command is gone", function()
    local store = assert(dlock.open(url))
    local p = spawn(url, "run", key(), "--", "sh", "-c",
      "trap 'echo told; exit 3' TERM; echo begun; while :; do sleep 0.05; done")
    p:expect("^begun$")
    p:kill("sigterm")
    p:expect("^told$")
    assert.equal(3, (p:wait(10)))
    p:close()
    assert(assert(store:lock(key(), { timeout = 5 })):release())
    assert(store:close())
  end)

  it("run takes a reader's part and permits", function()
    local status, out = run(url, "run", "--shared", key(), "--", process.lua,
      "bin/dlock", "--url", url, "run", "--shared", "--timeout", "2", key(),
      "--",
      "echo", "both")
    assert.same({ 0, "both\n" }, { status, out })
    status, out = run(url, "run", "--permits", "2/3", key(), "--", process.lua,
      "bin/dlock", "--url", url, "show", key())
    assert.equal(0, status)
    assert.matches("^semaphore, 3 permits\nheld by ", out)
  end)

  it("shows, lists, breaks", function()
    local store = assert(dlock.open(url))
    local lease = assert(store:lock(key()))
    local _, out = run(url, "show", key())
    assert.matches("^exclusive\nheld by %S+, fence %d+, ends in ", out)
    _, out = run(url, "ls", key())
    assert.equal(key() .. "\n", out)
    assert.equal(0, (run(url, "break", key())))
    assert.equal("lost", select(3, lease:release()))
    _, out = run(url, "show", key())
    assert.equal("free\n", out)
    assert(store:close())
  end)

  it("watches a key", function()
    local p = spawn(url, "watch", key())
    p:expect("^free$")
    local store = assert(dlock.open(url))
    local lease = assert(store:lock(key()))
    p:expect("^held by ")
    assert(lease:release())
    p:expect("^free$")
    p:kill("sigint")
    assert.equal(0, (p:wait(10)))
    p:close()
    assert(store:close())
  end)

  it("pings", function()
    local status, out = run(url, "ping")
    assert.equal(0, status)
    assert.matches("^[%d.]+ ms\n$", out)
  end)
end)

describe("the command", function()
  local on_files = "file://" .. tostring(os.getenv("DLOCK_TEST_DIR")) .. "/cli"

  it("of a build runs on the Lua that it was built for", function()
    local status, out = process.run {
      command = { "dlock", "--url", on_files, "ping" } }
    assert.equal(0, status)
    assert.matches("^[%d.]+ ms\n$", out)
  end)

  it("says 69 when the store is not there", function()
    local status, _, err = run("redis://127.0.0.1:1", "ping")
    assert.equal(69, status)
    assert.matches("^dlock: unavailable: ", err)
  end)

  it("says 127 when the command cannot be started", function()
    local status, _, err = run(on_files, "run", "k", "--", "/no/such/file")
    assert.equal(127, status)
    assert.matches("No such file", err)
  end)

  it("explains itself when it is called wrongly", function()
    for _, args in ipairs { {}, { "frob" }, { "run", "k" }, { "show" },
        { "run", "--ttl", "soon", "k", "--", "true" },
        { "run", "--permits", "x", "k", "--", "true" } } do
      local unpack = rawget(_G, "unpack") or table.unpack
      local status, _, err = run(on_files, unpack(args))
      assert.equal(64, status)
      assert.matches("^dlock: ", err)
    end
  end)
end)
