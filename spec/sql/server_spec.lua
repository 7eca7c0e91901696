-- Both databases' stores on servers of their own: who makes the tables, what
-- outlives a restart, what is forgotten.

local clock = require "spec.support.clock"
local common = require "spec.sql.common"
local process = require "spec.support.process"
local postgres = require "spec.support.postgres"
local support = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

-- durable: what is committed outlives the server's process.
local SERVERS = {
  postgres = {
    forget = "ALTER FUNCTION dlock.%s RENAME TO forgotten_%s",
    finds = "SELECT count(*) FROM pg_proc WHERE proname = '%s'",
    durable = "fsync = on", sweep = "SELECT dlock.sweep1(0)",
    connections = "SELECT pid FROM pg_stat_activity WHERE usename = 'dlock'",
    finish = "SELECT pg_terminate_backend(%s)",
    drops = "SELECT 'DROP FUNCTION ' || oid::regprocedure FROM pg_proc WHERE"
      .. " pronamespace = 'dlock'::regnamespace UNION ALL SELECT 'DROP TABLE '"
      .. " || oid::regclass FROM pg_class WHERE relkind = 'r' AND"
      .. " relnamespace = 'dlock'::regnamespace",
  },
  mysql = {
    forget = "DROP PROCEDURE dlock_%s",
    finds = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE"
      .. " ROUTINE_NAME = 'dlock_%s'",
    durable = "innodb_flush_log_at_trx_commit = 1\n",
    sweep = "CALL dlock_sweep1(0)",
    connections = "SELECT ID FROM information_schema.PROCESSLIST"
      .. " WHERE USER = 'dlock'",
    finish = "KILL %s",
    drops = "SELECT CONCAT('DROP PROCEDURE ', ROUTINE_NAME) FROM"
      .. " information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() UNION"
      .. " ALL SELECT CONCAT('DROP TABLE ', TABLE_NAME) FROM"
      .. " information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()",
  },
}

-- The server may run as a user of its own.
local function let_in(dir)
  postgres.let_in(dir)
  for _, name in ipairs { "clock", "clock.so" } do
    assert(uv.fs_chmod(dir .. "/" .. name, 420)) -- 0644
  end
end

---@param db table of spec.sql.common
local function cases(db)
  local key, open, of = db.key, db.open, SERVERS[db.name]
  local all, server, events

  local function tear_down()
    db.clean_up()
    if all then all:stop() end
    all, server = nil, nil
  end

  local timed = steady(nil, tear_down)

  local function start(opts)
    all, events = db.start(opts), {}
    server = all[1] or all
  end

  local function connect(opts)
    local wanted = { url = server.url, on_event = function(event)
      events[#events + 1] = event.kind
    end }
    for name, value in pairs(opts or {}) do wanted[name] = value end
    return open(wanted)
  end

  local function heard(kind)
    for _, one in ipairs(events) do
      if one == kind then return true end
    end
  end

  local function rows(k)
    return db.rows(k, server.url)
  end

  it("has no tables: eight programs at once make them", function()
    start()
    local peers = {}
    for i = 1, 8 do
      peers[i] = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open(arg[1]))
        assert(store:ping())
        print "ready"
        io.read()
        local lease = assert(store:lock("first", { timeout = 60 }))
        assert(lease:release())
        print "end"
      ]], args = { server.url } }
      peers[i]:expect "ready"
    end
    for _, peer in ipairs(peers) do peer:write "\n" end
    for _, peer in ipairs(peers) do
      peer:expect "end"
      peer:close()
    end
    assert.are.equal("1", server:sql(db.sql "SELECT count(*) FROM {key}"))
  end)

  it("that lacks a table, a routine, or all of them: they are made again",
    function()
      start()
      local store, drops = connect(), {}
      local function use_all(what)
        local k = key()
        local lease = assert(store:lock(k, { ttl = 20 }), what)
        assert.are.equal("timeout", select(3, store:lock(k, { timeout = 0.1 })),
          what)
        assert(store:inspect(k), what)
        assert(store:list(k), what)
        assert(lease:guard(db.nothing), what)
        assert(lease:extend(), what)
        assert(store:revoke(k), what)
        assert(lease:downgrade(), what)
        assert(assert(store:rwlock(k)):read():try_acquire(), what)
        assert(store:break_lock(k), what)
      end
      use_all "at first"
      local sql = db.ask(of.drops, nil, server.url)
      for drop in sql:gmatch "[^\n]+" do drops[#drops + 1] = drop end
      assert.is_true(#drops > 15, sql)
      for _, drop in ipairs(drops) do
        db.ask(drop, nil, server.url)
        use_all(drop)
      end
      for _, drop in ipairs(drops) do db.ask(drop, nil, server.url) end
      use_all "all"
    end)

  it("that restarts: holds and places go on", function()
    start()
    local store, other, k = connect(), connect(), key()
    local lease = assert(store:lock(k, { ttl = 60 }))
    local peer = process.spawn { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open(arg[1]))
      local lease = assert(store:lock(arg[2], { timeout = 120 }))
      print "got"
      assert(lease:release())
    ]], args = { server.url, k } }
    db.eventually(other, "it waits", function() return rows(k) == 2 end)
    server:restart()
    assert.is_true(lease:held())
    db.eventually(other, "the server is there", function()
      return other:inspect(k)
    end)
    assert.are.equal(1, #other:inspect(k).holders)
    assert(lease:release(20))
    peer:expect("got", 60)
    assert.are.equal(0, peer:wait(20))
    peer:close()
  end)

  it("that is killed at a grant: it is there or not, fences rise", function()
    start { conf = of.durable }
    local store, k, last = connect { io_timeout = 1 }, key(), 0
    for i = 1, 3 do
      local peer = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open(arg[1]))
        print "ready"
        while true do
          local lease = store:lock(arg[2],
            { ttl = 0.5, renew = false, timeout = 1 })
          if not lease then break end
          print(("%.0f"):format(lease.fence))
          io.stdout:flush()
          lease:release()
        end
        print "end"
      ]], args = { server.url, k } }
      peer:expect "ready"
      local _, fence = peer:expect("^(%d+)$")
      assert.is_true(tonumber(fence) > last, "round " .. i)
      server:kill()
      peer:expect("end", 60)
      for seen in peer.out:gmatch("%d+") do fence = seen end
      last = tonumber(fence)
      peer:close()
      server:start_again()
      local lease = assert(store:lock(k, { timeout = 60 }))
      assert.is_true(lease.fence > last)
      last = lease.fence
      assert(lease:release())
      assert.are.equal(0, rows(k))
    end
  end)

  timed("that stands still for two ttl: lost before anybody else is in",
    function()
      start()
      local store, other, k = connect { io_timeout = 0.5 },
        connect { io_timeout = 0.5 }, key()
      local lease = assert(store:lock(k, { ttl = 1 }))
      assert(other:ping())
      server:pause()
      assert.is_true(lease:wait_lost(3))
      assert.is_false(lease:held())
      uv.sleep(1000)
      server:resume()
      assert(other:lock(k, { timeout = 20 })):release()
    end)

  it("whose clock steps: told if it went back; if forth, a hold is lost",
    function()
      local dir = support.new_dir()
      local servers_clock = clock.new(dir)
      let_in(dir)
      start { clock = servers_clock }
      local store, k = connect(), key()
      local lease = assert(store:lock(k, { ttl = 1.5 }))
      servers_clock:step(-3600)
      db.eventually(store, "it is told", function() return heard "clock" end)
      assert.is_true(lease:held())
      assert(lease:release())
      lease = assert(store:lock(k, { ttl = 1.5 }))
      local stepped = lease.fence
      servers_clock:step(7200)
      local next_one = assert(connect():lock(k, { timeout = 10 }))
      assert.is_true(next_one.fence > stepped)
      db.eventually(store, "it is lost", function() return heard "lost" end)
      assert.is_false(lease:held())
      assert(next_one:release())
    end)

  it("that ends connections: the next call has another one", function()
    start()
    local store, k = connect(), key()
    for _ = 1, 3 do
      assert(store:lock(k)):release()
      local ids = assert(server:sql(of.connections))
      assert.matches("%d", ids)
      for id in ids:gmatch("%d+") do
        assert(server:sql(of.finish:format(id)))
      end
    end
    for _, kind in ipairs(events) do assert.matches("connect$", kind) end
  end)

  it("is asked for a known key that is free by one bare statement", function()
    start()
    local store, k = connect(), key()
    for _ = 1, 3 do assert(assert(store:try_lock(k)):release()) end
    for _, name in ipairs { "acquire1", "leave1" } do
      assert(db.ask(of.forget:format(name, name), nil, server.url))
    end
    local lease = assert(store:lock(k))
    local fence = lease.fence
    assert(lease:release())
    lease = assert(store:lock(k))
    assert.is_true(lease.fence > fence)
    assert.are.equal(("%.0f"):format(lease.fence),
      db.ask("SELECT fence FROM {key} WHERE id = $", k, server.url))
    assert.are.equal("0", server:sql(of.finds:format "acquire1"))
    local _, _, code = store:try_lock(k)
    assert.are.equal("busy", code)
    assert.are.equal("1", server:sql(of.finds:format "acquire1"))
    assert(lease:release())
    assert.are.equal(0, rows(k))
  end)

  it("forgets keys by programs of one lock each", function()
    start()
    assert(assert(connect():lock "first"):release())
    server:sql(db.sql("INSERT INTO {key} (id, fence, until, since) VALUES ($,"
      .. " 1, '2001-01-01', '2001-01-01')", "old"))
    local count, left = 0
    repeat
      local store = connect()
      assert(assert(store:lock "k"):release())
      assert(store:close(5))
      count = count + 1
      left = server:sql(db.sql("SELECT count(*) FROM {key} WHERE id = $",
        "old"))
    until left == "0" or count == 1500 -- one in 64 sweeps
    assert.are.equal("0", left)
  end)

  it("forgets keys of which nobody knows", function()
    start()
    local store, k = connect(), key()
    for i = 1, 20 do assert(store:lock(k .. i)):release() end
    local lease = assert(store:lock(k))
    assert.are.equal("20", server:sql(of.sweep))
    assert.are.equal("1", server:sql(db.sql "SELECT count(*) FROM {key}"))
    assert.is_true(lease:held())
    assert(lease:release())
    local fence = lease.fence
    assert.are.equal("1", server:sql(of.sweep))
    lease = assert(store:lock(k))
    assert.is_true(lease.fence > fence)
    assert(lease:release())
  end)
end

for _, name in ipairs { "postgres", "mysql" } do
  local db = common(name)
  describe("a server of " .. db.title, function()
    cases(db)
  end)
end
