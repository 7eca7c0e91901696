-- The MySQL store on servers of its own: rights, settings, restarts, TLS, and
-- the exact fence.

local certificates = require "spec.support.certificates"
local common = require "spec.mysql.common"
local mysql = require "spec.support.mysql"
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open = common.key, common.open

local function code_of(_, _, code)
  return code
end

describe("a MariaDB server", function()
  local server, made, sessions, events

  local function tear_down()
    for _, one in ipairs(sessions or {}) do one:close() end
    common.clean_up()
    if server then server:stop() end
    if made then made:remove() end
    server, made, sessions = nil, nil, nil
  end

  local timed = steady(nil, tear_down)

  local function start(opts)
    server, sessions, events = mysql.start(opts), {}, {}
    return server
  end

  local function connect(opts)
    local all = { url = server.url, on_event = function(event)
      events[#events + 1] = event.kind
    end }
    for name, value in pairs(opts or {}) do all[name] = value end
    return open(all)
  end

  local function rows(k)
    return common.rows(k, server.url)
  end

  -- ---- tables, rights, settings ----

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
  end)

  it("whose account may make nothing: an administrator does, by the page",
    function()
      start { conf = "sql_mode = ANSI,SIMULTANEOUS_ASSIGNMENT\n" }
      local found = {}
      for _, block in ipairs(pages.blocks "docs/mysql.md") do
        if block.language == "sql" then
          found[#found + 1] = table.concat(block, "\n")
        end
      end
      local as_root = ("mysql+unix://root@%s/shop"):format(server.socket)
      assert(server:sql "CREATE DATABASE shop")
      assert(server:sql(found[2]:match "^[^\n]*"))
      assert(server:sql "GRANT EXECUTE ON shop.* TO app")
      local store = connect { url = ("mysql://app:secret@127.0.0.1:%d/shop")
        :format(server.port) }
      local lease, message, code = store:try_lock "k"
      assert.is_nil(lease)
      assert.are.equal("denied", code, message)
      assert.is_truthy(message:find("dlock schema mysql | mysql shop", 1, true),
        message)
      local printed = process.spawn { script = [[
        local store = require "dlock.store"
        io.write(assert(store.schema("mysql", {})))
      ]] }
      assert.are.equal(0, printed:wait(20))
      for _ = 1, 2 do -- it may be run again
        assert(mysql.feed(as_root, printed.out))
      end
      printed:close()
      assert(server:sql((found[2]:gsub("^[^\n]*\n", ""))))
      lease = assert(store:lock "orders:42")
      assert(lease:extend())
      local sql = lease:fence_sql()
      local shown = found[1]:match "(SELECT 1[^;]*);"
      assert.are.equal(shown:gsub("fence = %d+", ""),
        sql:gsub("fence = %d+", ""))
      assert(lease:release())
      assert(server:sql "REVOKE UPDATE ON shop.dlock_key FROM app")
      assert.are.equal("denied", code_of(store:try_lock "k2"))
    end)

  it("with other tables' names, and other defaults", function()
    start { conf = "transaction_isolation = SERIALIZABLE\nautocommit = 0\n"
      .. "completion_type = CHAIN\ninnodb_rollback_on_timeout = ON\n"
      .. "default_time_zone = '+05:00'\n"
      .. "sql_mode = ANSI,SIMULTANEOUS_ASSIGNMENT,NO_BACKSLASH_ESCAPES\n" }
    local one, two = connect { tables = "shop_" }, connect { tables = "shop_" }
    local lease = assert(one:lock("k", { ttl = 1 }))
    assert.are.equal("busy", code_of(two:try_lock "k"))
    local renewed = one:stats().renewed
    common.eventually(one, "it is renewed", function()
      return one:stats().renewed > renewed + 1
    end)
    assert.is_true(lease:held())
    local left = two:inspect("k").holders[1].ttl
    assert.is_true(left > 0 and left <= 1.1, left)
    assert.are.equal(1, lease:guard("UPDATE shop_key SET value = ? WHERE"
      .. " id = 'k'", "a'\\"))
    assert(lease:release())
    assert.are.equal("1", server:sql "SELECT COUNT(*) FROM shop_key")
  end)

  it("with a binary log by statements: invalid; by rows it works", function()
    start { binlog = "STATEMENT" }
    local _, message, code = connect():ping()
    assert.are.equal("invalid", code, message)
    assert.is_truthy(message:find("binlog_format", 1, true), message)
    assert(server:sql "SET GLOBAL binlog_format = ROW")
    local lease = assert(connect():lock "k")
    assert(lease:downgrade())
    assert(lease:release())
  end)

  it("that is a replica, or full: unavailable, and says so", function()
    start()
    local store = connect { io_timeout = 0.5 }
    assert(store:lock "k"):release()
    assert(server:sql "SET GLOBAL read_only = 1")
    local _, message, code = store:lock("k", { timeout = 1 })
    assert.are.equal("unavailable", code, message)
    assert.is_truthy(message:find("read-only", 1, true), message)
    assert(server:sql "SET GLOBAL read_only = 0")
    assert(store:lock("k", { timeout = 10 })):release()
    assert(server:sql "ALTER USER dlock WITH MAX_USER_CONNECTIONS 1")
    local only = connect()
    assert(only:ping())
    _, message, code = connect { io_timeout = 0.5 }:ping()
    assert.are.equal("unavailable", code, message)
    assert.is_truthy(message:find("max_user_connections", 1, true), message)
  end)

  it("with TLS: its certificate is checked", function()
    made = certificates.make()
    start { tls = made }
    local store = connect { tls = { cafile = made:path "ca.crt" } }
    local lease = assert(store:lock "k")
    assert.are.equal("timeout", code_of(store:lock("k", { timeout = 0.3 })))
    assert(lease:release())
    local _, message, code = connect { tls = { cafile = made:path "other.crt" },
      io_timeout = 1 }:ping()
    assert.are.equal("denied", code, message)
    assert.is_nil(message:find("sesame", 1, true))
  end)

  -- ---- ends ----

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
    common.eventually(other, "it waits", function() return rows(k) == 2 end)
    server:restart()
    assert.is_true(lease:held())
    common.eventually(other, "the server is there", function()
      return other:inspect(k)
    end)
    assert(lease:release(20))
    peer:expect("got", 60)
    assert.are.equal(0, peer:wait(20))
    peer:close()
  end)

  it("that is killed at a grant: it is there or not, fences rise", function()
    start { conf = "innodb_flush_log_at_trx_commit = 1\n" }
    local store, k, last = connect { io_timeout = 1 }, key(), 0
    for i = 1, 3 do
      local peer = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open(arg[1]))
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

  it("that ends idle connections: the next call has another one", function()
    start()
    local store, k = connect(), key()
    for _ = 1, 3 do
      assert(store:lock(k)):release()
      for id in server:sql("SELECT ID FROM information_schema.PROCESSLIST"
          .. " WHERE USER = 'dlock'"):gmatch("%d+") do
        assert(server:sql("KILL " .. id))
      end
    end
    for _, kind in ipairs(events) do assert.matches("connect$", kind) end
  end)

  -- ---- the exact fence ----

  it("a transaction that asked for the fence: nobody else before its COMMIT",
    function()
      start()
      local store, k = connect(), key()
      assert(server:sql "CREATE TABLE work (n INT)")
      local old = assert(store:lock(k, { renew = false, ttl = 60 }))
      local sql = assert(old:fence_sql())
      local one = server:session()
      sessions[1] = one
      assert(one:run "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
      assert(one:run "START TRANSACTION")
      assert(one:run "INSERT INTO work VALUES (1)")
      assert.are.equal("1", one:run(sql))
      assert.is_nil((store:break_lock(k))) -- it waits for the row
      assert(one:run "COMMIT")
      assert(connect():break_lock(k))
      assert(one:run "START TRANSACTION")
      assert(one:run "INSERT INTO work VALUES (2)")
      assert.are.equal("", one:run(sql))
      assert(one:run "ROLLBACK")
      assert.are.equal("1", server:sql "SELECT COUNT(*) FROM work")
    end)

  it("forgets keys of which nobody knows", function()
    start()
    local store, k = connect(), key()
    for i = 1, 20 do assert(store:lock(k .. i)):release() end
    local lease = assert(store:lock(k))
    assert.are.equal("20", server:sql "CALL dlock_sweep1(0)")
    assert.are.equal("1", server:sql "SELECT COUNT(*) FROM dlock_key")
    assert(lease:release())
    local fence = lease.fence
    assert.are.equal("1", server:sql "CALL dlock_sweep1(0)")
    lease = assert(store:lock(k))
    assert.is_true(lease.fence > fence)
    assert(lease:release())
  end)
end)
