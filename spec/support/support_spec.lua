-- The helpers in spec/support are what the other specs stand on: each is shown
-- to do what it says, on every Lua that runs the specs.

local uv = require "luv"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local server = require "spec.support.server"
local redis = require "spec.support.redis"
local zk = require "spec.support.zk"
local zk_client = require "spec.support.zk_client"
local proxy = require "spec.support.proxy"
local fake_server = require "spec.support.fake_server"
local leaks = require "spec.support.leaks"
local control = require "spec.support.control"

local function seconds(work)
  local began = uv.hrtime()
  work()
  return (uv.hrtime() - began) / 1e9
end

describe("loop.wait", function()
  it("ends with the event, or with the time", function()
    local timer, fired = uv.new_timer(), nil
    timer:start(10, 0, function()
      fired = "yes"
    end)
    assert.equal("yes", loop.wait(5, function()
      return fired
    end))
    loop.close(timer)
    assert.is_true(seconds(function()
      assert.is_false(loop.wait(0.02, function()
        return false
      end))
    end) >= 0.019)
  end)
end)

describe("process", function()
  after_each(process.close_all)

  it("talks to a script under the same Lua", function()
    local odd = "it's \"odd\"\n\\ \0end"
    local p = process.spawn {
      script = [[
        print(_VERSION, #arg, #arg[1], arg[2])
        for line in io.lines() do print("got " .. line) end
        os.exit(3)
      ]],
      args = { odd, 2 },
    }
    assert.equal(_VERSION .. "\t2\t" .. #odd .. "\t2", p:read_line())
    p:write("a\nb\n")
    assert.equal("got a", p:read_line())
    assert.equal("b", select(2, p:expect("^got (.)$")))
    assert.same({ nil, "timeout" }, { p:read_line(0.01) })
    p:close_stdin()
    assert.equal(3, p:wait())
    assert.same({ nil, "eof" }, { p:read_line() })
  end)

  it("runs scripts with our modules and environment to their end", function()
    local status, out, err = process.run {
      script = [[
        require "spec.support.control"
        io.stderr:write("oops")
        print(os.getenv("DLOCK_A"), os.getenv("HOME"))
      ]],
      env = { DLOCK_A = "b", HOME = false },
    }
    assert.same({ 0, "b\tnil\n", "oops" }, { status, out, err })
    assert.equal(1, (process.run { script = "error 'x'" }))
    assert.equal(7, (process.run { command = { "sh", "-c", "exit 7" } }))
  end)

  it("kills, stops and continues by signal", function()
    local p = process.spawn { script = "print(1) print(io.read())" }
    p:read_line()
    p:pause()
    p:write("2\n")
    assert.same({ nil, "timeout" }, { p:read_line(0.05) })
    p:resume()
    assert.equal("2", p:read_line())
    p = process.spawn { script = "print(1) while true do end" }
    p:read_line()
    p:kill()
    local _, signal = p:wait()
    assert.equal(9, signal)
    assert.is_false(server.alive(p.pid))
  end)

  it("says what it read when an expected line does not come", function()
    local p = process.spawn { script = "print 'something else'" }
    assert.has_error(function()
      p:expect("^ready$", 5)
    end)
  end)
end)

describe("redis", function()
  it("speaks to the server of the test run", function()
    local r = redis.connect()
    local name = "support-spec:" .. uv.hrtime()
    assert.equal("OK", r:call("SET", name, "a\r\nb", "PX", 60000))
    assert.equal("a\r\nb", r:call("GET", name))
    assert.is_true(r:call("PTTL", name) > 50000)
    assert.same({ 1, redis.null, { "x" } },
      r:call("EVAL", "return {1, false, {'x'}}", 0))
    assert.is_nil((r:call("GET", name .. "none")))
    assert.has_error(function()
      r:call("INCR", name)
    end)
    assert.is_true(r:command_counts().get >= 2)
    r:call("DEL", name)
    r:close()
    local s = redis.connect(os.getenv("DLOCK_TEST_REDIS_SOCKET"))
    assert.equal("PONG", s:call("PING"))
    s:close()
  end)

  it("starts private servers that can hang, die and come back", function()
    local s = redis.start { maxmemory = "3mb", requirepass = "secret" }
    finally(function()
      s:stop()
    end)
    local r = redis.connect((s.url:gsub("//", "//:secret@")))
    assert.equal("3145728", r:call("CONFIG", "GET", "maxmemory")[2])
    s:pause()
    r:send("PING")
    assert.same({ nil, "timeout" }, { r:read(0.05) })
    s:resume()
    assert.equal("PONG", r:read())
    s:kill()
    assert.is_nil((r:pcall("PING")))
    assert.is_nil((redis.connect(s.url)))
    s:start_again()
    assert.is_truthy(s:connect())
    s:stop()
    assert.is_nil(uv.fs_stat(s.dir or "/nowhere"))
  end)
end)

describe("zk", function()
  it("asks the server of the test run", function()
    assert.equal("imok", zk.four("ruok"))
    assert.is_number(zk.stats().zk_watch_count)
    assert.is_table(zk.ephemerals())
  end)

  it("starts private servers that can hang, die and come back", function()
    local s = zk.start()
    finally(function()
      s:stop()
    end)
    s:pause()
    assert.same({ nil, "timeout" }, { zk.four("ruok", s.url, 0.05) })
    s:resume()
    assert.equal("imok", zk.four("ruok", s.url))
    s:kill()
    assert.is_nil((zk.four("ruok", s.url)))
    s:start_again()
    assert.equal("imok", zk.four("ruok", s.url))
  end)
end)

describe("an ensemble", function()
  it("takes other ports when one is taken before it has begun", function()
    local free_port, asked = server.free_port, 0
    local taken = uv.new_tcp()
    local three
    finally(function()
      server.free_port = free_port
      loop.close(taken)
      if three then
        three:stop()
      end
    end)
    -- What the first member elects a leader by.
    server.free_port = function()
      asked = asked + 1
      local port = free_port()
      if asked == 3 then
        assert(taken:bind("127.0.0.1", port))
        assert(taken:listen(1, function() end))
      end
      return port
    end
    three = zk.start_ensemble(3)
    assert.equal(18, asked)
    assert.is_number(three:leader())
  end)
end)

describe("server.free_port", function()
  it("never gives the same port twice", function()
    local seen = {}
    for _ = 1, 500 do
      local port = server.free_port()
      assert.is_nil(seen[port])
      seen[port] = true
    end
  end)

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

describe("zk_client", function()
  it("writes through a server, and says why it could not", function()
    local one = zk.start()
    finally(function()
      one:stop()
    end)
    local function last_change()
      return tonumber((zk.four("srvr", one.url):match("Zxid: (%S+)")))
    end
    local before = last_change()
    assert.is_true(zk_client.write(one.url, "/", "some data", 30))
    assert.is_true(last_change() >= before + 2) -- a session, and its write
    assert.are.same({ nil, "error -101" },
      { zk_client.write(one.url, "/missing", "", 30) })
    assert(one:pause())
    assert.are.same({ nil, "no session in time" },
      { zk_client.write(one.url, "/", "", 0.1) })
    one:resume()
    assert.is_true(zk_client.write(one.url, "/", "", 30))
    one:kill()
    assert.are.same({ nil, "ECONNREFUSED" },
      { zk_client.write(one.url, "/", "", 30) })
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

describe("control", function()
  it("carries any bytes", function()
    local all = {}
    for i = 0, 255 do
      all[#all + 1] = string.char(i)
    end
    all = table.concat(all)
    assert.equal(all, control.unhex(control.hex(all)))
  end)
end)
