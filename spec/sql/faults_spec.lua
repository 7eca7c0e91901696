-- Both databases' stores when the network fails, or others lock their rows.

local common = require "spec.sql.common"
local library = require "spec.support.library"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local unpack = table.unpack or unpack -- luacheck: ignore
local between, sessions = nil, {}

local function code_of(_, _, code)
  return code
end

---@param db table of spec.sql.common
local function cases(db)
  local key, open, now = db.key, db.open, db.now

  local function through(opts)
    between = between or proxy.start(db.url)
    local all = { url = between.url }
    for name, value in pairs(opts or {}) do all[name] = value end
    return open(all)
  end

  local function session()
    sessions[#sessions + 1] = db.connect(db.url)
    return sessions[#sessions]
  end

  local function lock_row(of, k)
    assert(of:run "BEGIN")
    assert(of:run((db.sql("SELECT 1 FROM {key} WHERE id = $ FOR UPDATE", k))))
  end

  local function tear_down()
    for _, one in ipairs(sessions) do one:close() end
    sessions = {}
    db.clean_up()
    if between then between:stop() end
    between = nil
  end

  local timed = steady(nil, tear_down)

  setup(function()
    local store = open()
    assert(store:lock("make the schema")):release()
    db.clean_up()
  end)

  -- ---- connecting ----

  timed("nobody listens, no such name, nothing said: unavailable", function()
    local port = server.free_port()
    between = proxy.start(db.url)
    between:hold("both")
    for _, url in ipairs { db.name .. "://127.0.0.1:" .. port .. "/dlock",
      db.name .. "://nowhere.invalid/dlock", between.url } do
      local store = open { url = url, connect_timeout = 0.3, io_timeout = 0.3 }
      for _, call in ipairs {
        function() return store:ping() end,
        function() return store:lock(key(), { timeout = 0.3 }) end,
        function() return store:try_lock(key()) end,
      } do
        local start = now()
        local ok, message, code = call()
        assert.is_nil(ok)
        assert.are.equal("unavailable", code, message)
        assert.is_true(now() - start < 2, message)
      end
    end
  end)

  -- The thread is left behind (worker.c, W5).
  it("a resolver that hangs keeps no caller, no close and no process",
    function()
      local dir = server.new_dir()
      local path = library.build(dir, "resolver", [[
        #include <netdb.h>
        #include <unistd.h>
        int getaddrinfo(const char *host, const char *port,
                        const struct addrinfo *hints, struct addrinfo **out) {
          (void)host, (void)port, (void)hints, (void)out;
          sleep(120);
          return EAI_AGAIN;
        }
      ]])
      local status, out, err = process.run { timeout = 60, script = [[
        local dlock = require "dlock"
        local function hanging()
          return assert(dlock.open { url = arg[1],
            connect_timeout = 0.2, io_timeout = 0.2 })
        end
        local store = hanging()
        print((select(3, store:try_lock "k")))
        print((select(3, store:lock("k", { timeout = 0.3 }))))
        print((select(3, store:ping())))
        print(store:close(5))
        left = hanging()
        print((select(3, left:try_lock "k")))
      ]], args = { db.name .. "://hangs.example/db" },
        env = library.preload(path) }
      server.remove_dir(dir)
      assert.are.equal("", err)
      assert.are.equal(0, status)
      assert.are.equal("unavailable\nunavailable\nunavailable\ntrue\n"
        .. "unavailable\n", out)
    end)

  it("a wrong password: denied, and in no message", function()
    local store = open { url = (db.url:gsub(":sesame@", ":geheim@")) }
    local ok, message, code = store:ping()
    assert.is_nil(ok)
    assert.are.equal("denied", code, message)
    assert.is_nil(message:find("geheim", 1, true))
    assert.is_truthy(message:find("password", 1, true), message)
    store = open { url = (db.url:gsub(":sesame@", ":@")) }
    assert.are.equal("denied", code_of(store:ping()))
  end)

  it("no such database: " .. db.no_database, function()
    local store = open { url = (db.url:gsub("/dlock$", "/nowhere")) }
    local _, message, code = store:ping()
    assert.are.equal(db.no_database, code, message)
  end)

  -- ---- lost requests and answers ----

  -- What requests have in them. A key that was used is taken and given back by
  -- a bare statement, a new one by a function.
  local TAKES, GIVES = "key SET fence", "key SET token"

  local function key_for(request)
    local k = key()
    if request == TAKES then assert(open():lock(k)):release() end
    return k
  end

  it("an acquire whose answer is lost leaves one hold, and it is ours",
    function()
      for _, request in ipairs { TAKES, "acquire1" } do
        local store, k = through(), key_for(request)
        assert(store:ping())
        between:cut_after(request)
        local lease = assert(store:lock(k, { timeout = 10 }))
        assert.are.equal(1, db.rows(k))
        assert.is_true(lease:held())
        assert.are.equal(("%.0f"):format(lease.fence),
          db.ask("SELECT fence FROM {key} WHERE id = $", k))
        assert(lease:release())
        assert.are.equal(0, db.rows(k))
        assert(store:close())
      end
    end)

  it("a try whose answer is lost leaves nothing", function()
    local store, k = through(), key()
    assert(store:ping())
    between:cut_after(db.as_sent(k))
    local lease, _, code = store:try_lock(k)
    if lease then
      assert(lease:release())
    else
      assert.are.equal("unavailable", code)
    end
    db.eventually(store, "nothing is left", function()
      return db.rows(k) == 0
    end)
  end)

  it("a request that is cut anywhere: one hold, and a release", function()
    local store = through { io_timeout = 5 }
    assert(store:ping())
    for i = 0, db.cuts.to / db.cuts.step do
      local n = i * db.cuts.step
      local request = i % 2 == 0 and TAKES or "acquire1"
      local k = key_for(request)
      between:cut_at(request, n)
      local lease, message = store:lock(k, { timeout = 10 })
      assert(lease, ("%s, %d bytes: %s"):format(request, n,
        tostring(message)))
      assert.are.equal(1, db.rows(k))
      assert(lease:release())
      assert.are.equal(0, db.rows(k))
    end
  end)

  -- The client gives it up, and goes on with another connection.
  it("a request of a lost connection is not done later", function()
    local store, k = through { io_timeout = 0.5 }, key()
    assert(store:mutex(k .. "mark"):locked() == false)
    between:hold("up", { sent = db.as_sent(k .. "mark") })
    assert.are.equal("unavailable",
      code_of(store:lock(k, { timeout = 0.3 })))
    assert(store:lock(k .. "b", { timeout = 10 })):release()
    assert.are.equal(0, db.rows(k))
    between:release("up")
    for _ = 1, 20 do
      assert.are.equal(0, db.rows(k))
    end
  end)

  -- Its memory is another lease's soon.
  it("an attach that fails is none that a message could find", function()
    between = proxy.start(db.url)
    local p = process.spawn { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open { url = arg[1], io_timeout = 0.2 })
      local strings, leases = {}, {}
      for i = 1, 12 do
        strings[i] = assert(assert(store:lock(arg[2] .. i)):detach())
      end
      print "detached"
      io.read()
      for _, one in ipairs(strings) do
        assert(select(3, store:attach(one)) == "unavailable")
      end
      print "failed"
      io.read()
      for i = 1, 60 do
        leases[i] = assert(store:lock(arg[2] .. "held" .. i, { timeout = 20 }))
      end
      for _, lease in ipairs(leases) do assert(lease:release()) end
      print "released"
    ]], args = { between.url, key() } }
    p:expect "detached"
    between:hold("both")
    p:write "\n"
    p:expect "failed"
    between:release("both")
    p:write "\n"
    p:expect "released"
    assert.are.equal(0, p:wait())
  end)

  it("a statement that waits for a row when its connection goes", function()
    local store, k = through { io_timeout = 5 }, key()
    assert(store:lock(k)):release()
    local other = session()
    lock_row(other, k)
    local peer = process.spawn { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open { url = arg[1], io_timeout = 5 })
      assert(store:ping())
      print "ready"
      io.read()
      local lease = assert(store:lock(arg[2], { timeout = 20 }))
      print(("%.0f"):format(lease.fence))
      io.read()
      assert(lease:release())
      print "end"
    ]], args = { between.url, k } }
    peer:expect "ready"
    peer:write "\n"
    db.eventually(store, "it waits for the row", function()
      return db.ask(db.waits) == "1"
    end)
    between:close()
    assert(other:run "COMMIT")
    local _, fence = peer:expect("^(%d+)$", 20)
    assert.are.equal(1, db.rows(k))
    assert.are.equal(fence,
      db.ask("SELECT fence FROM {key} WHERE id = $", k))
    peer:write "\n"
    peer:expect "end"
    assert.are.equal(0, db.rows(k))
    peer:close()
  end)

  it("a release whose answer is lost is settled", function()
    for _, request in ipairs { GIVES, "leave1" } do
      local store, k = through { io_timeout = 5 }, key()
      local lock = request == GIVES and store:mutex(k)
        or store:semaphore(k, 2)
      local lease = assert(lock:acquire())
      between:cut_after(request)
      assert.is_true(lease:release())
      assert.are.equal(0, db.rows(k))
      assert(store:close())
    end
  end)

  it("an extension and a renewal whose answers are lost are asked again",
    function()
      local store, k = through { io_timeout = 5 }, key()
      local lease = assert(store:lock(k, { ttl = 3 }))
      between:cut_after("extend1")
      assert(lease:extend())
      between:cut_after("renew1")
      assert(between:wait_for("renew1", { count = 2 }))
      db.eventually(store, "it was renewed", function()
        return store:stats().renewed > 0
      end)
      assert.is_true(lease:held())
      assert(lease:release())
    end)

  it("an extension without an answer is no step of the server's clock",
    function()
      local told = {}
      local store, k = through { io_timeout = 0.5, on_event = function(event)
        told[event.kind] = true
      end }, key()
      local lease = assert(store:lock(k, { ttl = 6 }))
      between:hold("down")
      assert.are.equal("unavailable", code_of(lease:extend(60)))
      between:release("down")
      local renewed = store:stats().renewed
      db.eventually(store, "a renewal", function()
        return store:stats().renewed > renewed
      end)
      assert.is_true(tonumber(db.ask("SELECT count(*) FROM {key} WHERE id = $"
        .. " AND until > {now} + INTERVAL '30' SECOND", k)) == 1)
      assert.is_nil(told.clock)
      assert(lease:release())
    end)

  it("a break, a revoke, a guarded write: unavailable, not repeated",
    function()
      local store, k = through { io_timeout = 5 }, key()
      db.ask "CREATE TABLE IF NOT EXISTS cuts (n int)"
      local lease = assert(store:lock(k))
      for what, call in pairs {
        guard = function()
          return lease:guard("INSERT INTO cuts VALUES (1)")
        end,
        revoke1 = function() return store:revoke(k) end,
        break1 = function() return store:break_lock(k) end,
      } do
        if what ~= "break1" then
          between:cut_after(what)
          local ok, message, code = call()
          assert.is_nil(ok)
          assert.are.equal("unavailable", code, message)
          assert.is_truthy(message:find("may have been done", 1, true), message)
        end
      end
      assert.are.equal("1", db.ask "SELECT count(*) FROM cuts")
      between:cut_after("break1")
      assert.are.equal("unavailable", code_of(store:break_lock(k)))
      assert.are.equal(0, db.rows(k))
      assert.are.equal("lost", code_of(lease:release()))
      db.ask "DROP TABLE cuts"
    end)

  timed("a release that cannot be sent says unavailable, and is done later",
    function()
      local store, k = through { io_timeout = 0.5 }, key()
      local lease = assert(store:lock(k))
      between:refuse(true)
      between:close()
      local start = now()
      assert.are.equal("unavailable", code_of(lease:release()))
      assert.is_true(now() - start < 1.5)
      between:refuse(false)
      db.eventually(store, "it is free", function()
        return db.rows(k) == 0
      end)
    end)

  it("connections that swallow all are given up within io_timeout", function()
    local store, k = through { io_timeout = 0.5 }, key()
    assert(store:lock(k)):release()
    between:hold("both", { sent = db.as_sent(k) })
    assert.is_nil((store:lock(k .. "b", { timeout = 0.2 })))
    assert(store:lock(key(), { timeout = 10 })):release()
  end)

  it("answers in pieces of any size say the same", function()
    local store, k = through { io_timeout = 10 }, key()
    for _, bytes in ipairs { 1, 7, 64 } do
      between:trickle("down", bytes)
      local lease = assert(store:lock(k, { timeout = 20 }))
      assert.are.equal(1, #store:inspect(k).holders)
      assert(lease:release())
    end
    between:trickle("down")
  end)

  -- ---- waits ----

  it("a wait goes on through a new connection", function()
    local store, other, k = through(), open(), key()
    local lease = assert(other:lock(k))
    local mutex = assert(store:mutex(k))
    assert.are.equal("timeout", code_of(mutex:acquire { timeout = 0.3 }))
    between:close()
    assert(lease:release())
    assert(mutex:acquire { timeout = 5 }):release()
  end)

  -- ---- rows that others lock ----

  it("another's lock on a key's row: other keys and renewals go on", function()
    local store, k, free = open(), key(), key()
    local stuck = assert(store:lock(k .. "c", { ttl = 1 }))
    local mine = assert(store:lock(k .. "b", { ttl = 1 }))
    local theirs = assert(store:lock(k, { ttl = 20 }))
    assert(store:lock(free)):release()
    local other, more = session(), session()
    lock_row(other, k)
    lock_row(more, k .. "c") -- its renewal is due with mine
    local renewed = store:stats().renewed
    assert.are.equal("unavailable", code_of(theirs:release()))
    assert(store:lock(free, { timeout = 10 })):release()
    db.eventually(store, "renewals", function()
      return store:stats().renewed > renewed + 1
    end)
    assert.is_true(mine:held())
    assert.is_true(stuck:wait_lost(10))
    assert(other:run "COMMIT")
    assert(more:run "COMMIT")
    db.eventually(store, "the release is done", function()
      return db.rows(k) == 0
    end)
    assert(mine:release())
  end)

  it("another's lock on a row: a lost hold's give-back delays no other key",
    function()
      local store, k, free = open(), key(), key()
      local stuck = assert(store:lock(k, { ttl = 1 }))
      local other = session()
      lock_row(other, k)
      assert.is_true(stuck:wait_lost(10))
      local start, count = now(), 0
      while now() - start < 8 do
        count = count + 1
        assert(assert(store:try_lock(free .. count)):release())
      end
      assert(other:run "COMMIT")
    end)

  it("another's lock on another key's row: nobody waits for it", function()
    local store, k, locked = open(), key(), key()
    assert(store:lock(locked)):release()
    local other = session()
    lock_row(other, locked)
    assert(other:run((db.sql("INSERT INTO {hold} (id, token, units, cap,"
      .. " fence, until, since) VALUES ($, 'x', 1, 0, 1, {now} + INTERVAL '1'"
      .. " HOUR, {now})", locked))))
    local start = now()
    local lease = assert(store:lock(k, { ttl = 5 }))
    assert(lease:extend())
    assert(lease:guard(db.nothing))
    assert(lease:downgrade())
    assert(store:revoke(k))
    assert(store:inspect(k))
    assert(store:list(k))
    assert(lease:detach())
    assert(store:break_lock(k))
    local two = assert(assert(store:semaphore(k, 3)):acquire())
    assert(two:release())
    assert.is_true(now() - start < 0.9, now() - start)
    assert(other:run "ROLLBACK")
  end)

  it("a client that is stopped in the middle leaves no row locked", function()
    local store, k = open(), key()
    assert(store:lock(k)):release()
    between = proxy.start(db.url)
    for _, way in ipairs { "up", "down" } do
      local stuck = process.spawn { script = [[
        local dlock = require "dlock"
        local store = assert(dlock.open { url = arg[1] })
        assert(store:ping())
        print "ready"
        io.read()
        store:lock(arg[2], { timeout = 30, ttl = 0.5, renew = false })
      ]], args = { between.url, k } }
      stuck:expect "ready"
      local n = between:count(TAKES)
      between:hold(way)
      stuck:write "\n"
      assert(between:wait_for(TAKES, { count = n + 1 }))
      uv.kill(stuck.pid, "sigstop")
      local start = now()
      assert(store:lock(k, { timeout = 10 })):release()
      assert.is_true(now() - start < 2, now() - start)
      uv.kill(stuck.pid, "sigkill")
      stuck:close()
      between:discard(way)
      between:close()
    end
  end)

  -- ---- keys ----

  it("keys of all bytes, exact, in lists too", function()
    local store, base, leases = open(), key(), {}
    for byte = 0, 255, 5 do
      local k = base .. string.char(byte) .. "%_"
      leases[k] = assert(store:lock(k))
    end
    local longest = base .. ("\255"):rep(512 - #base)
    leases[longest] = assert(store:lock(longest))
    local found = 0
    for _, k in ipairs(assert(store:list(base))) do
      assert.is_truthy(leases[k])
      found = found + 1
    end
    assert.are.equal(53, found)
    assert.are.same({ longest }, (store:list(longest)))
    for _, lease in pairs(leases) do assert(lease:release()) end
    assert.are.equal(0, #store:list(base))
  end)

  it("a guarded statement that fails is undone, in the server's words",
    function()
      local store, k = open(), key()
      local lease = assert(store:lock(k))
      for sql, words in pairs(db.guards_refused) do
        local ok, message, code = lease:guard(sql)
        assert.is_nil(ok)
        assert.are.equal("invalid", code, message)
        assert.is_truthy(message:find(words, 1, true), message)
      end
      assert.are.equal("invalid", code_of(lease:guard(db.parameter, "a\0b")))
      assert.are.equal(1, lease:guard(db.join, "a", "'\"\\ä", k))
      assert.are.equal("a'\"\\ä", store:inspect(k).holders[1].value)
      assert(lease:release())
      assert.are.equal("lost", code_of(lease:guard(db.nothing)))
    end)

  it("a guarded statement with too few arguments is not done", function()
    local store, k, all = open(), key(), {}
    db.ask "CREATE TABLE IF NOT EXISTS few (a varchar(9))"
    local lease = assert(store:lock(k))
    for i = 1, 16 do
      all[i] = db.name == "mysql" and "?" or "$" .. i
      local insert = "INSERT INTO few VALUES (CONCAT("
        .. table.concat(all, ",") .. "))"
      local words = {}
      for _ = 1, i - 1 do words[#words + 1] = "" end
      local ok, message, code = lease:guard(insert, unpack(words))
      assert.is_nil(ok)
      assert.are.equal("invalid", code, message)
      assert.matches(db.too_few, message, 1, true)
      words[i] = "x" .. i
      assert.are.equal(1, lease:guard(insert, unpack(words)))
      assert.are.equal("x" .. i, db.ask "SELECT a FROM few")
      assert.are.equal(1, lease:guard "DELETE FROM few")
    end
    assert(lease:release())
    db.ask "DROP TABLE few"
  end)

  it("a guarded statement that a foreign key refuses: in its words",
    function()
      local store, k = open(), key()
      db.ask "DROP TABLE IF EXISTS lines_of"
      db.ask "DROP TABLE IF EXISTS orders"
      db.ask "CREATE TABLE orders (id integer PRIMARY KEY)"
      local lease = assert(store:lock(k))
      for _, when in ipairs(db.checks) do
        db.ask("CREATE TABLE lines_of (n integer, CONSTRAINT of_order"
          .. " FOREIGN KEY (n) REFERENCES orders (id) " .. when .. ")")
        local ok, message, code = lease:guard "INSERT INTO lines_of VALUES (42)"
        assert.is_nil(ok)
        assert.are.equal("invalid", code, message)
        assert.matches("foreign key constraint", message, 1, true)
        assert.matches("of_order", message, 1, true)
        assert.matches(db.names_row and "(42)" or "REFERENCES", message, 1,
          true)
        assert.matches("^0%s*$", db.ask "SELECT COUNT(*) FROM lines_of")
        db.ask "DROP TABLE lines_of"
      end
      assert.is_true(lease:held())
      assert(lease:release())
      db.ask "DROP TABLE orders"
    end)

  it("a reader's exact fence keeps no other reader", function()
    local store, k, all = open(), key(), {}
    for i = 1, 4 do
      all[i] = assert(assert(store:rwlock(k)):read():acquire { ttl = 20 })
    end
    local other = session()
    assert(other:run "BEGIN")
    assert.are.equal("1", other:run(all[2]:fence_sql()))
    local start = now()
    assert(all[1]:extend())
    assert(all[3]:release())
    assert(assert(store:rwlock(k)):read():try_acquire()):release()
    assert.is_true(now() - start < 5)
    assert(other:run "COMMIT")
    assert(all[2]:extend())
  end)

  it("a reader whose time is over writes nothing by a late guard", function()
    local store, k = open(), key()
    db.ask "CREATE TABLE IF NOT EXISTS late (n int)"
    local lease = assert(assert(store:rwlock(k)):read()
      :acquire { ttl = 20, renew = false })
    assert.are.equal(1, lease:guard("INSERT INTO late VALUES (1)"))
    db.ask("UPDATE {hold} SET until = {now} WHERE id = $", k)
    assert.is_true(lease:held())
    assert.are.equal("lost",
      code_of(lease:guard("INSERT INTO late VALUES (2)")))
    assert.are.equal("1", db.ask "SELECT count(*) FROM late")
    db.ask "DROP TABLE late"
  end)
end

for _, name in ipairs { "postgres", "mysql" } do
  local db = common(name)
  describe("with " .. db.title .. " in trouble,", function()
    cases(db)
  end)
end
