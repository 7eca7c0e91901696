-- The helpers in spec/support without which a spec could pass for nothing: each
-- is shown to do what it says.

local uv = require "luv"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local redis = require "spec.support.redis"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"
local shared = require "spec.support.shared"
local fake_server = require "spec.support.fake_server"
local leaks = require "spec.support.leaks"

local function seconds(work)
  local began = uv.hrtime()
  work()
  return (uv.hrtime() - began) / 1e9
end

describe("server.free_port", function()
  it("gives ports of a block that no other process gives away", function()
    local p = process.spawn { script = [[
      print(require("spec.support.server").free_port())
      io.read()
    ]] }
    finally(process.close_all)
    local port = tonumber(p:read_line())
    local tcp = uv.new_tcp()
    local free = tcp:bind("127.0.0.1", port - port % 500)
      and tcp:listen(1, function() end)
    loop.close(tcp)
    assert.is_falsy(free)
  end)
end)

describe("server.add_memory", function()
  it("gives a run a part in memory, which goes with it", function()
    local run, ours = server.new_dir(), os.getenv("DLOCK_TEST_DIR")
    uv.os_setenv("DLOCK_TEST_DIR", run)
    finally(function() uv.os_setenv("DLOCK_TEST_DIR", ours) end)
    assert.equal("here", server.memory_dir("here"))
    server.add_memory(run)
    local memory = uv.fs_readlink(run .. "/memory")
    assert.equal(not memory, server.memory_dir("here") == "here")
    server.remove_run(run)
    assert.is_nil(uv.fs_stat(run))
    assert.is_nil(memory and uv.fs_stat(memory) or nil)
  end)
end)

describe("leftovers", function()
  it("names what keeps the loop alive, and keeps it so no more", function()
    finally(process.close_all)
    local p = process.spawn { script = [[
      local leftovers, uv = require "spec.support.leftovers", require "luv"
      local timer, pipe = uv.new_timer(), uv.new_pipe(false)
      local thread = uv.new_thread(function() require "luv".sleep(100) end)
      timer:start(60000, 0, function() end)
      print(leftovers.kinds(), uv.loop_alive())
      leftovers.release()
      local none = leftovers.kinds() == ""
      thread:join()
      uv.run "nowait"
      print(none, uv.loop_alive())
      timer:close()
      pipe:close()
    ]] }
    assert.equal("timer\ttrue", p:read_line())
    assert.equal("true\tfalse", p:read_line())
  end)
end)

describe("server.spawn", function()
  it("keeps no loop alive for a server that a failed case left", function()
    finally(process.close_all)
    local p = process.spawn { script = [[
      local s = require("spec.support.redis").start()
      print(require("luv").loop_alive())
      s:stop()
    ]] }
    assert.equal("false", p:read_line())
  end)
end)

describe("proxy", function()
  local p, r, direct

  before_each(function()
    p = proxy.start(os.getenv("DLOCK_TEST_REDIS"))
    r = redis.connect(p.url)
    direct = redis.connect()
    direct:call("DEL", "support-spec")
  end)

  after_each(function()
    direct:call("DEL", "support-spec")
    direct:close()
    r:close()
    p:stop()
  end)

  it("forwards, counts and waits", function()
    assert.equal("PONG", r:call("PING"))
    assert.equal(1, p:count("PING"))
    assert.equal(1, p:count("PONG", "down"))
    assert.equal(1, p:wait_for("PING"))
    assert.same({ nil, "timeout" }, { p:wait_for("NO", { timeout = 0.01 }) })
    assert.equal(1, p:stats().open)
  end)

  it("holds one direction, and releases or discards", function()
    p:hold("down")
    r:send("INCR", "support-spec")
    p:wait_for(":1", { way = "down" })
    assert.same({ nil, "timeout" }, { r:read(0.02) })
    p:release("down")
    assert.equal(1, r:read())
    p:hold("up")
    r:send("INCR", "support-spec")
    p:wait_for("INCR", { count = 2 })
    p:discard("up")
    assert.equal("1", r:call("GET", "support-spec"))
  end)

  it("holds only connections that sent something", function()
    local sub = redis.connect(p.url)
    sub:call("SUBSCRIBE", "support-spec")
    p:hold("down", { sent = "subscribe" })
    direct:call("PUBLISH", "support-spec", "m")
    p:wait_for("message", { way = "down" })
    assert.equal("PONG", r:call("PING"))
    assert.same({ nil, "timeout" }, { sub:read(0.02) })
    p:release()
    assert.equal("m", sub:read()[3])
    sub:close()
  end)

  it("cuts around a request", function()
    p:cut_after("SET")
    assert.is_nil((r:pcall("SET", "support-spec", "a")))
    assert.equal("a", direct:call("GET", "support-spec"))
    r = redis.connect(p.url)
    p:cut_before("SET", { skip = 1 })
    assert.equal("OK", r:call("SET", "support-spec", "b"))
    assert.is_nil((r:pcall("SET", "support-spec", "c")))
    assert.equal("b", direct:call("GET", "support-spec"))
    r = redis.connect(p.url)
    p:cut_after("SET", { now = true })
    assert.is_nil((r:pcall("SET", "support-spec", "d")))
  end)

  it("drops messages and bytes", function()
    r:call("SUBSCRIBE", "support-spec")
    p:drop_messages("down", 1, "m1")
    direct:call("PUBLISH", "support-spec", "m1")
    direct:call("PUBLISH", "support-spec", "m2")
    assert.equal("m2", r:read()[3])
    p:drop("down", 5)
    direct:call("PUBLISH", "support-spec", "m3")
    assert.has_error(function()
      r:read()
    end)
  end)

  it("delays and trickles", function()
    p:delay("down", 0.05)
    assert.is_true(seconds(function()
      r:call("PING")
    end) >= 0.045)
    p:delay("down", 0)
    p:trickle("both", 1)
    assert.equal("hello", r:call("ECHO", "hello"))
    p:trickle("both")
    assert.equal("hello", r:call("ECHO", "hello"))
  end)

  it("closes, resets and refuses", function()
    -- A connection counts once the proxy has accepted it.
    r:call("PING")
    assert.equal(1, p:close())
    assert.same({ nil, "closed" }, { r:pcall("PING") })
    r = redis.connect(p.url)
    r:call("PING")
    assert.equal(0, p:reset { sent = "SUBSCRIBE" })
    assert.equal(1, p:reset())
    assert.same({ nil, "ECONNRESET" }, { r:pcall("PING") })
    p:refuse(true)
    assert.same({ nil, "ECONNREFUSED" }, { redis.connect(p.url) })
    p:refuse(false)
    r = redis.connect(p.url)
    assert.equal("PONG", r:call("PING"))
  end)
end)

describe("fake_server", function()
  local f, r

  local function start(rules, opts)
    f = fake_server.start(rules, opts)
    r = redis.connect(f.url)
  end

  after_each(function()
    r:close()
    f:stop()
  end)

  it("answers as Redis where no rule says otherwise", function()
    start()
    assert.equal("PONG", r:call("PING"))
    assert.equal(7, r:call("CLIENT", "ID"))
    assert.is_truthy(r:call("INFO"):find("redis_version:7"))
    assert.same({ "subscribe", "a", 1 }, r:call("SUBSCRIBE", "a"))
    assert.equal("OK", r:call("MULTI"))
    assert.equal("QUEUED", r:call("SET", "a", "b"))
    assert.equal("QUEUED", r:call("INCR", "f"))
    local all = r:call("EXEC")
    assert.equal("OK", all[1])
    assert.is_true(all[2] > 1e12)
  end)

  it("answers by rules, in turn, late, never, or closes", function()
    start {
      SET = { "-LOADING later\r\n", true },
      ["CLIENT ID"] = ":9\r\n",
      GET = fake_server.SILENT,
      ECHO = { raw = "+late\r\n", delay = 0.02 },
      TYPE = fake_server.CLOSE,
    }
    assert.same({ nil, "LOADING later" }, { r:pcall("SET", "a", "b") })
    assert.equal("OK", r:call("SET", "a", "b"))
    assert.equal(9, r:call("CLIENT", "ID"))
    r:send("GET", "a")
    assert.same({ nil, "timeout" }, { r:read(0.02) })
    assert.equal("late", r:call("ECHO", "x"))
    assert.same({ nil, "closed" }, { r:pcall("TYPE", "x") })
    assert.equal(2, f:count("SET"))
    assert.equal(1, f:wait_for("GET"))
    assert.equal("SET a b", f:log()[2])
  end)

  it("answers by a function, and anything at all", function()
    start [[return function(name, words)
      return name == "PING" and "+" .. words[2] .. "\r\n" or nil
    end]]
    assert.equal("hi", r:call("PING", "hi"))
    f:rules { ["*"] = "HTTP/1.1 400 Bad Request\r\n" }
    assert.has_error(function()
      r:pcall("PING")
    end)
    f:close_connections()
    r = redis.connect(f.url)
    f:wait_for("connection", 2)
    f:push("+pushed\r\n")
    assert.equal("pushed", r:read())
  end)

  it("closes or is silent from the start", function()
    start({}, { on_accept = "close" })
    assert.is_nil((r:pcall("PING")))
    r:close()
    f:stop()
    start({}, { on_accept = "silent" })
    r:send("PING")
    assert.same({ nil, "timeout" }, { r:read(0.02) })
  end)
end)

describe("leaks", function()
  it("names what was left behind, and only that", function()
    local before = leaks.snapshot()
    assert.same({}, leaks.since(before))
    local file = io.open("Makefile")
    local list = leaks.since(before, 0)
    assert.equal(1, #list)
    assert.is_truthy(list[1]:find("Makefile", 1, true))
    file:close()
    assert.same({}, leaks.since(before))
  end)
end)

describe("postgres", function()
  local postgres = require "spec.support.postgres"

  it("kills, stops and promotes, and the standby has what was committed",
    function()
      local p = postgres.start { standbys = 1, synchronous = true }
      finally(function()
        process.close_all()
        p:stop()
      end)
      assert(p:sql "CREATE TABLE t (n int)")
      p[1]:pause()
      local s = postgres.connect(p[2].unix)
      assert.equal("t", s:run "SELECT pg_is_in_recovery()")
      p[1]:resume()
      assert(p:sql "INSERT INTO t VALUES (7)")
      p[1]:kill()
      p[2]:promote()
      assert.equal("7|f", p[2]:sql "SELECT n, pg_is_in_recovery() FROM t")
      p[1]:follow(p[2])
      assert.equal("7|t", p[1]:sql "SELECT n, pg_is_in_recovery() FROM t")
    end)

  it("keeps a transaction open, and tells of a statement that failed",
    function()
      finally(process.close_all)
      local url = shared.at "DLOCK_TEST_POSTGRES"
      local s = postgres.connect(url)
      assert.equal("", s:run "BEGIN; CREATE TABLE own (n int)")
      assert.equal("1\n2", s:run "SELECT * FROM generate_series(1, 2)")
      local done, why = s:run "SELECT 1 / 0"
      assert.is_nil(done)
      assert.matches("division by zero", why)
      s:close()
      assert.is_nil((postgres.ask(url, "SELECT * FROM own")))
    end)
end)

describe("mysql", function()
  local mysql = require "spec.support.mysql"

  it("kills and starts again with what was committed, and tells of failures",
    function()
      local m = mysql.start()
      finally(function()
        process.close_all()
        m:stop()
      end)
      assert(m:sql "CREATE TABLE t (n INT PRIMARY KEY)")
      local s = mysql.connect(m.unix)
      assert.equal("", s:run "INSERT INTO t VALUES (7)")
      assert.equal("", s:run "START TRANSACTION; INSERT INTO t VALUES (8)")
      local done, why = s:run "INSERT INTO t VALUES (7)"
      assert.is_nil(done)
      assert.matches("Duplicate entry", why)
      assert.equal("7\n8", s:run "SELECT n FROM t ORDER BY n")
      s:close()
      m:kill()
      assert.is_nil((m:sql "SELECT 1"))
      m:start_again()
      assert.equal("7", mysql.ask(m.url, "SELECT n FROM t"))
      m:restart()
      assert.equal("7", m:sql "SELECT n FROM t")
    end)
end)
