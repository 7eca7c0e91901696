-- The PostgreSQL store on servers of its own: rights, limits, and poolers. What
-- every database has in common: spec/sql/server_spec.lua.

local common = require "spec.postgres.common"
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open, now = common.key, common.open, common.now

local function code_of(_, _, code)
  return code
end

describe("a PostgreSQL server", function()
  local server, between, events

  local function tear_down()
    common.clean_up()
    if between then between:stop() end
    if server then server:stop() end
    server, between = nil, nil
  end

  local timed = steady(nil, tear_down)

  local function start(opts)
    server = postgres.start(opts)
    events = {}
    return server
  end

  local function connect(opts)
    local all = { url = server.url, on_event = function(event)
      events[#events + 1] = event.kind .. " " .. event.message
    end }
    for name, value in pairs(opts or {}) do all[name] = value end
    return open(all)
  end

  local function rows(k)
    return common.rows(k, server[1].url)
  end

  local function told(kind)
    for _, text in ipairs(events) do
      if text:find(kind, 1, true) then return text end
    end
  end

  -- ---- the schema ----

  it("whose user may not make the schema, and then has none of it", function()
    start()
    assert(server:sql "ALTER DATABASE dlock OWNER TO postgres")
    assert(server:sql "REVOKE CREATE ON DATABASE dlock FROM PUBLIC")
    local store = connect { schema = "locks" }
    local lease, message, code = store:try_lock "k"
    assert.is_nil(lease)
    assert.are.equal("denied", code, message)
    assert.is_truthy(message:find(
      'dlock --schema "locks" schema postgres | psql dlock', 1, true), message)
    -- An administrator makes it.
    local psql = process.spawn { script = [[
      local store = require "dlock.store"
      io.write(assert(store.schema("postgres", { schema = "locks" })))
    ]] }
    assert.are.equal(0, psql:wait(20))
    assert(server:sql(psql.out))
    psql:close()
    assert(server:sql("GRANT USAGE ON SCHEMA locks TO dlock; GRANT SELECT,"
      .. " INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA locks TO dlock"))
    lease = assert(store:lock "k")
    assert(server:sql "REVOKE UPDATE ON locks.key FROM dlock")
    assert.are.equal("denied", code_of(store:try_lock "k2"))
    assert.are.equal("0", server:sql("SELECT count(*) FROM locks.key WHERE"
      .. " id = 'k2'"))
    assert(server:sql "GRANT UPDATE ON locks.key TO dlock")
    assert(lease:release())
  end)

  -- ---- defaults of others ----

  it("with other defaults: serializable, read-only, an odd search_path",
    function()
      start()
      local store = connect()
      assert(store:lock "k"):release()
      store:close()
      for _, set in ipairs {
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "search_path = 'nowhere'",
        "DateStyle = 'German'", "bytea_output = 'escape'",
        "TimeZone = 'Europe/Berlin'",
      } do
        assert(server:sql("ALTER ROLE dlock SET " .. set))
        local one, two = connect(), connect()
        local lease = assert(one:lock("k", { ttl = 5 }))
        assert.are.equal("busy", code_of(two:try_lock "k"))
        assert(lease:extend())
        local left = one:inspect("k").holders[1].ttl
        assert.is_true(left > 3 and left <= 5.1, left)
        assert(lease:release())
        assert(two:lock "k"):release()
        assert(server:sql("ALTER ROLE dlock RESET ALL"))
      end
      assert(server:sql("ALTER ROLE dlock SET default_transaction_read_only"
        .. " = on"))
      local _, message, code = connect { io_timeout = 0.5 }:ping()
      assert.are.equal("unavailable", code)
      assert.is_truthy(message:find("read-only", 1, true), message)
      assert.is_truthy(message:find("default_transaction_read_only", 1, true),
        message)
    end)

  it("whose session a guarded statement changed: not for dlock's own calls",
    function()
      start()
      local one, two, k = connect(), connect(), key()
      assert(server:sql("CREATE ROLE other; GRANT other TO dlock; ALTER ROLE"
        .. " dlock SET default_transaction_isolation = 'serializable'"))
      local lease = assert(one:lock(k, { ttl = 20 }))
      for _, statement in ipairs { "SET ROLE other",
        "SELECT set_config('role', 'other', false)",
        "SET search_path = other; SET lock_timeout = 0",
        "SET default_transaction_read_only = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL"
          .. " SERIALIZABLE",
        "CREATE TEMP TABLE pg_stat_activity (pid integer)",
        "SELECT pg_advisory_lock(42)",
      } do
        assert(lease:guard(statement))
        assert(lease:extend())
        assert.are.equal("busy", code_of(two:try_lock(k)))
        assert.are.equal(0, lease:guard([[
          SELECT 1 WHERE current_user <> session_user
            OR current_setting('search_path') = 'other'
            OR current_setting('transaction_isolation') <> 'read committed'
            OR to_regclass('pg_temp.pg_stat_activity') IS NOT NULL
            OR EXISTS (SELECT 1 FROM pg_locks WHERE objid = 42)]]), statement)
      end
      assert(lease:release())
      for _, text in ipairs(events) do assert.matches("^connect ", text) end
    end)

  it("whose transactions are crossed: the whole call is repeated", function()
    start()
    local store = connect()
    assert(store:lock "k"):release()
    assert(server:sql [[
      CREATE SEQUENCE crossed; GRANT USAGE ON crossed TO dlock;
      CREATE FUNCTION cross_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('public.crossed') % 3 = 1 THEN
          RAISE EXCEPTION 'crossed' USING ERRCODE = TG_ARGV[0];
        END IF;
        RETURN NEW;
      END $$]])
    for _, state in ipairs { "40001", "40P01", "55P03" } do
      assert(server:sql(("CREATE TRIGGER crosses BEFORE INSERT OR UPDATE ON"
        .. " dlock.key FOR EACH ROW EXECUTE FUNCTION cross_it('%s')")
        :format(state)))
      for _ = 1, 3 do
        local lease = assert(store:lock(key()))
        assert(lease:extend())
        assert.are.equal("busy", code_of(connect():try_lock(lease.key)))
        assert(lease:downgrade())
        assert(store:break_lock(lease.key))
        assert.are.equal("lost", code_of(lease:release()))
        assert.are.equal(0, rows(lease.key))
      end
      assert(server:sql "DROP TRIGGER crosses ON dlock.key")
    end
  end)

  -- ---- ends of connections ----

  it("that ends idle connections: the next call has another one", function()
    start()
    assert(server:sql "ALTER ROLE dlock SET idle_session_timeout = '100ms'")
    local store, k = connect(), key()
    for _ = 1, 3 do
      assert(store:lock(k)):release()
      common.eventually(open(), "it was ended", function()
        return server:sql("SELECT count(*) FROM pg_stat_activity WHERE"
          .. " usename = 'dlock'") == "0"
      end)
    end
    assert.is_nil(told "loose")
  end)

  it("that takes no more connections says so", function()
    start()
    assert(server:sql "ALTER ROLE dlock CONNECTION LIMIT 0")
    local store = connect { io_timeout = 0.5 }
    local _, message, code = store:ping()
    assert.are.equal("unavailable", code, message)
    assert.is_truthy(message:find("too many connections", 1, true), message)
    assert(server:sql "ALTER ROLE dlock CONNECTION LIMIT 1")
    local lease = assert(store:lock("k", { ttl = 3, timeout = 10 }))
    assert.are.equal("timeout", code_of(store:lock("k", { timeout = 1 })))
    -- A renewal then takes the connection that there is.
    assert.is_nil((lease:wait_lost(4.5)))
    assert.is_true(lease:held())
    assert(lease:release())
  end)

  it("that lets nobody end a connection: told, and taken back twice", function()
    start()
    assert(server:sql("REVOKE EXECUTE ON FUNCTION pg_terminate_backend"
      .. " FROM PUBLIC"))
    between = proxy.start(server.url)
    local store, k = connect { url = between.url, io_timeout = 0.5 }, key()
    assert(store:lock(k .. "mark")):release()
    between:hold("up", { sent = k .. "mark" })
    assert.are.equal("unavailable",
      code_of(store:lock(k, { timeout = 0.3, ttl = 600 })))
    assert(store:lock(k .. "b", { timeout = 10 })):release()
    assert.is_truthy(told "loose")
    between:release("up")
    common.eventually(store, "the late request was taken back", function()
      return server:sql("SELECT count(*) FROM pg_stat_activity WHERE"
        .. " usename = 'dlock'") == "1" and rows(k) == 0
    end)
  end)

  -- ---- PgBouncer ----

  it("behind PgBouncer, which passes no notices: waits ask, and it is told",
    function()
      start { bouncer = true }
      local a, b = connect { url = server.bouncer.url },
        connect { url = server.bouncer.url }
      local k = key()
      local lease = assert(a:lock(k, { ttl = 1 }))
      local peer = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open(arg[1]))
        local lease = assert(store:lock(arg[2], { timeout = 60 }))
        print "got"
        assert(lease:release())
      ]], args = { server.bouncer.url, k } }
      common.eventually(a, "it waits", function()
        return #assert(a:inspect(k)).waiters == 1
      end)
      assert.are.equal("timeout", code_of(b:lock(k, { timeout = 0.5 })))
      assert.is_truthy(told "unheard")
      assert(lease:extend())
      assert.is_true(lease:held())
      assert(lease:release())
      peer:expect("got", 20)
      assert.are.equal(0, peer:wait(20))
      peer:close()
      local past = connect { url = server.bouncer.url, listen = server.url }
      lease = assert(a:lock(k))
      events = {}
      assert.are.equal("timeout", code_of(past:lock(k, { timeout = 0.5 })))
      assert.is_nil(told "unheard")
      assert(lease:release())
    end)

  -- ---- the dead ----

  timed("with a dead waiter at the head of a queue: the next one is in soon",
    function()
      start()
      local store, k = connect(), key()
      local lease = assert(store:lock(k))
      local dead = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open(arg[1]))
        store:lock(arg[2], { timeout = 60 })
      ]], args = { server.url, k } }
      common.eventually(store, "it waits", function()
        return #assert(store:inspect(k)).waiters == 1
      end)
      uv.kill(dead.pid, "sigkill")
      dead:close()
      assert(lease:release())
      local began = now()
      assert(store:lock(k, { timeout = 10 })):release()
      assert.is_true(now() - began < 3, now() - began)
    end)
end)
