-- examples/sentinel/run, cluster/run, redlock/run, etcd/run, consul/run,
-- postgres/run, mysql/run and tls/run: they start servers with one command, the
-- program beside each of them, their end.
local consul = require "spec.support.consul"
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

-- A store may connect to one more server between the two.
local SERVED = "\tlocked, fence %d+\n.*1\ttrue\n$"

describe("the example of", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  -- It takes up to twelve ports, of which one may be somebody else's by then.
  local function start(name, first_line)
    for _ = 1, 5 do
      local one = process.spawn { command = { ("examples/%s/run"):format(name),
        tostring(server.free_ports(12)) },
        env = { TMPDIR = dir, CONSUL = consul.program() },
        stderr = "pipe" }
      local ok, line = pcall(one.expect, one, first_line)
      if ok then
        return one, line
      end
      one:wait(20)
      assert(one.err:lower():find("address already in use", 1, true), line)
    end
    error "its ports were taken five times"
  end

  -- It leaves nothing.
  local function finish(one)
    one:kill("sigterm")
    one:wait(20)
    assert.is_nil((uv.fs_scandir_next(uv.fs_scandir(dir))))
  end

  -- What the page says to run, as it was printed.
  local function run(line, ...)
    local words = {}
    for word in line:match("^lua5%.4 (.-)    "):gmatch("%S+") do
      words[#words + 1] = word
    end
    local status, out, err = process.run { file = table.remove(words, 1),
      args = { words[1], words[2] or (...) }, timeout = 60 }
    assert.equal(0, status, out .. tostring(err))
    return out
  end

  it("a Redis set with Sentinels starts, serves, and leaves nothing",
  function()
    local set, line = start("sentinel", "^redis%+sentinel://")
    local url = line:match("%S+")
    local store = assert(dlock.open { url = url, io_timeout = 5 })
    eventually("a primary", 20, function() return store:ping() end)
    store:close(1)
    local out = run(set:expect("^lua5%.4 "), 1)
    assert.matches(SERVED, out)
    finish(set)
  end)

  it("a Redis Cluster starts, serves, and leaves nothing", function()
    local set, line = start("cluster", "^redis%+cluster://")
    local store = assert(dlock.open { url = line:match("%S+"), io_timeout = 5 })
    eventually("a cluster", 20, function() return store:ping() end)
    store:close(1)
    local out = run(set:expect("^lua5%.4 "), 1)
    assert.matches(SERVED, out)
    finish(set)
  end)

  for name, what in pairs { etcd = "three etcd members",
      consul = "three Consul servers", redlock = "five servers for Redlock" } do
    it(what .. " start, serve, and leave nothing", function()
      local set = start(name, "^" .. name .. "://")
      local out = run(set:expect("^lua5%.4 "), 1)
      assert.matches(SERVED, out)
      finish(set)
    end)
  end

  for name, what in pairs { postgres = "PostgreSQL", mysql = "MariaDB" } do
    it("a " .. what .. " starts, serves, and leaves nothing", function()
      postgres.let_in(dir)
      local one = start(name, "^" .. name .. "://")
      local out = run(one:expect("^lua5%.4 "))
      assert.matches("^locked, fence %d+\npaid\nanother one holds it, fence "
        .. "(%d+)\nundone\npaid\nwritten by %1\n$", out)
      assert.matches(SERVED, run(one:expect("^lua5%.4 "), 1))
      finish(one)
    end)
  end

  it("a Redis with TLS starts, serves, and leaves nothing", function()
    local one = start("tls", "^rediss://")
    local out = run(one:expect("^lua5%.4 "))
    assert.matches("locked over TLS, fence %d+\n", out)
    assert.matches("\ndenied: [^\n]* client certificate", out)
    assert.matches("\ndenied: [^\n]* not trusted here", out)
    finish(one)
  end)
end)
