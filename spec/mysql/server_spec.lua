-- The MySQL store on servers of its own: rights, settings, TLS, and the exact
-- fence. What every database has in common: spec/sql/server_spec.lua.

local certificates = require "spec.support.certificates"
local common = require "spec.mysql.common"
local mysql = require "spec.support.mysql"
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local said = require "spec.sql.said"

local key, open = common.key, common.open

local function code_of(_, _, code)
  return code
end

describe("a MariaDB server", function()
  local server, made, sessions

  after_each(function()
    for _, one in ipairs(sessions or {}) do one:close() end
    common.clean_up()
    if server then server:stop() end
    if made then made:remove() end
    server, made, sessions = nil, nil, nil
  end)

  local function start(opts)
    server, sessions = mysql.start(opts), {}
    return server
  end

  local function connect(opts)
    local all = { url = server.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    return open(all)
  end

  -- ---- tables, rights, settings ----

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
      local url = ("mysql://app:secret@127.0.0.1:%d/shop"):format(server.port)
      local store = connect { url = url }
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
      local _, told = connect { url = url, tables = "zz_" }:try_lock "k"
      assert.is_truthy(told:find("dlock --tables zz_ schema mysql | mysql shop",
        1, true), told)
      assert(server:sql "REVOKE UPDATE ON shop.dlock_key FROM app")
      assert.are.equal("denied", code_of(store:try_lock "k2"))
      assert(server:sql "DROP TABLE shop.dlock_key")
      _, told, code = store:lock "k3"
      assert.are.equal("denied", code, told)
      assert.is_truthy(told:find("dlock schema mysql | mysql shop", 1, true),
        told)
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
    assert(server:sql "SET GLOBAL sql_select_limit = 1")
    _, message, code = connect { io_timeout = 0.5 }:ping()
    assert.are.equal("unavailable", code, message)
    assert.is_truthy(message:find("read-only (a replica", 1, true), message)
    assert(server:sql("SET GLOBAL read_only = 0, GLOBAL sql_select_limit ="
      .. " 18446744073709551615"))
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

  it("answers what the page says to what people do instead", function()
    start()
    assert(server:sql("CREATE USER one; CREATE USER two;"
      .. " GRANT ALL ON dlock.* TO one, two"))
    assert.equal(9, said("docs/mysql.md", function(name)
      return name == "dba" and server:session()
        or mysql.connect((server.url:gsub("dlock:[^@]*", name .. ":")))
    end))
  end)

  it("that takes no statement so long: a guarded one is invalid, and not sent",
    function()
      start { conf = "max_allowed_packet = 1M\n" }
      local lease = assert(connect():lock "k")
      assert.are.equal(0,
        lease:guard("DO LENGTH(?)", ("x"):rep(5e5)))
      for _, size in ipairs { 6e5, 3e6 } do
        local ok, message, code = lease:guard("DO LENGTH(?)", ("x"):rep(size))
        assert.is_nil(ok)
        assert.are.equal("invalid", code, message)
        assert.matches("max_allowed_packet", message)
      end
      assert(lease:release())
    end)

  it("whose session a guarded statement changed: not for dlock's own calls",
    function()
      start()
      local events = {}
      assert(server:sql("CREATE TABLE work (n INT); CREATE DATABASE other;"
        .. " CREATE ROLE taker; GRANT ALL ON dlock.* TO taker;"
        .. " CREATE USER taken IDENTIFIED BY 'secret';"
        .. " GRANT ALL ON other.* TO taken; GRANT taker TO taken;"
        .. " SET DEFAULT ROLE taker FOR taken;"
        .. " CREATE PROCEDURE nobody() SET ROLE NONE"))
      assert(mysql.feed(("mysql+unix://root@%s/dlock"):format(server.socket),
        "DELIMITER //\nCREATE FUNCTION nothing() RETURNS INT SQL SECURITY"
        .. " INVOKER BEGIN SET ROLE NONE; RETURN 1; END //\nCREATE TRIGGER t"
        .. " BEFORE INSERT ON work FOR EACH ROW SET ROLE NONE //"))
      local url = ("mysql://taken:secret@127.0.0.1:%d/dlock")
        :format(server.port)
      local one = connect { url = url, on_event = function(event)
        events[#events + 1] = event.kind
      end }
      local two, k = connect { url = url }, key()
      local lease = assert(one:lock(k, { ttl = 20 }))
      for _, statement in ipairs { "SET timestamp = 1000",
        "SET autocommit = 0", "LOCK TABLES work WRITE", "USE other",
        "SET ROLE NONE", "CALL nobody()", "SELECT nothing()",
        "INSERT INTO work VALUES (1)", "SELECT GET_LOCK('work', 0)" } do
        assert(lease:guard(statement), statement)
        assert(lease:extend())
        assert.are.equal("busy", code_of(two:try_lock(k)))
        assert.are.equal("1",
          server:sql "SELECT IS_FREE_LOCK('work')", statement)
      end
      assert(lease:release())
      assert(assert(one:try_lock(k)):release())
      assert.are.equal("0", server:sql("SELECT COUNT(*) FROM"
        .. " information_schema.TABLES WHERE TABLE_SCHEMA = 'other'"))
      for _, kind in ipairs(events) do assert.are.equal("connect", kind) end
      assert.is_true(#events < 3, #events)
    end)

  it("whose rows a guarded statement reads are not kept", function()
    start()
    local peer = process.spawn { script = [[
      local dlock = require "dlock"
      local function peak()
        for line in io.lines "/proc/self/status" do
          if line:find "^VmHWM" then return tonumber(line:match "%d+") end
        end
      end
      local store = assert(dlock.open { url = arg[1], io_timeout = 60 })
      local lease = assert(store:lock "k")
      local before = peak()
      assert(lease:guard "SELECT REPEAT('x', 1000000) FROM seq_1_to_100")
      assert(peak() - before < 50000, peak() - before)
      assert(lease:guard "SELECT * FROM seq_1_to_100000")
      for _ = 1, 2 do
        assert(lease:guard "UPDATE dlock_key SET value = 'v'" == 1)
      end
      assert(lease:release())
    ]], args = { server.url } }
    assert.are.equal(0, peer:wait(100))
    peer:close()
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
end)
