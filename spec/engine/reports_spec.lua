-- What a store tells on_event by itself about its connection: connect and
-- disconnect, and on ZooKeeper the end of a session.

local dlock = require "dlock"
local proxy = require "spec.support.proxy"
local shared = require "spec.support.shared"
local uv = require "luv"

local KEY = ("reports%d"):format(uv.os_getpid())

describe("the events of a connection", function()
  local between, store, seen

  after_each(function()
    store:close(2)
    between:stop()
  end)

  local function open(url, opts)
    between, seen = proxy.start(url), {}
    opts.url = between.url
    function opts.on_event(event)
      seen[#seen + 1] = event.kind
    end
    store = assert(dlock.open(opts))
  end

  -- Each call takes the events that are there.
  local function expect(...)
    local wanted, limit = { ... }, uv.hrtime() + 20e9
    repeat
      store:ping(1)
    until #seen >= #wanted or uv.hrtime() > limit
    assert.same(wanted, seen)
  end

  it("on Redis: it comes, and goes, and comes", function()
    open(os.getenv("DLOCK_TEST_REDIS"), {})
    expect("connect")
    between:reset()
    expect("connect", "disconnect", "connect")
  end)

  for name, variable in pairs { PostgreSQL = "DLOCK_TEST_POSTGRES",
    MySQL = "DLOCK_TEST_MYSQL" } do
    it(("on %s: it comes, and goes, and comes"):format(name), function()
      open(shared.at(variable), {})
      expect("connect")
      between:reset()
      expect("connect", "disconnect", "connect")
    end)
  end

  it("on ZooKeeper: it goes and comes with one session", function()
    open(shared.at("DLOCK_TEST_ZOOKEEPER"), { session_timeout = 10 })
    expect("connect")
    between:reset()
    expect("connect", "disconnect", "connect")
  end)

  it("on ZooKeeper: a session expires", function()
    open(shared.at("DLOCK_TEST_ZOOKEEPER"), { session_timeout = 2 })
    local lease = assert(store:lock(KEY))
    between:hold "both"
    between:refuse(true)
    assert.is_true(lease:wait_lost(10))
    local zk = assert(dlock.open(shared.at("DLOCK_TEST_ZOOKEEPER")))
    assert(zk:lock(KEY, { timeout = 20 })):release()
    assert(zk:close())
    between:discard()
    between:close()
    between:refuse(false)
    local limit = uv.hrtime() + 20e9
    repeat store:ping(1) until seen[#seen] == "connect" and #seen > 3
      or uv.hrtime() > limit
    local text = table.concat(seen, " ")
    assert.matches("session", text)
    assert.matches("lost", text)
    -- Whether that was known before or after the connection broke.
    assert.matches("^connect disconnect .*connect$", (text:gsub("lost ", "")))
  end)
end)
