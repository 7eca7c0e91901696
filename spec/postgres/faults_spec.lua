-- The PostgreSQL store when what is PostgreSQL's own fails. What every database
-- has in common: spec/sql/faults_spec.lua.

local common = require "spec.postgres.common"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"

local key, open = common.key, common.open
local between

local function code_of(_, _, code)
  return code
end

describe("with PostgreSQL in trouble,", function()
  after_each(function()
    common.clean_up()
    if between then between:stop() end
    between = nil
  end)

  it("another program at that port: unavailable", function()
    local p = process.spawn { script = [[
      local uv = require "luv"
      local tcp = uv.new_tcp()
      tcp:bind("127.0.0.1", 0)
      tcp:listen(8, function()
        local client = uv.new_tcp()
        tcp:accept(client)
        client:read_start(function(_, data)
          if not data then client:close() return end
          client:write "HTTP/1.1 400 Bad Request\r\n\r\n"
        end)
      end)
      print(tcp:getsockname().port)
      uv.run()
    ]] }
    local store = open { io_timeout = 0.5,
      url = "postgres://127.0.0.1:" .. p:read_line() .. "/dlock" }
    local ok, message, code = store:ping()
    assert.is_nil(ok)
    assert.are.equal("unavailable", code, message)
    assert.is_truthy(message:find("expected authentication", 1, true), message)
  end)

  it("an environment by which libpq would go elsewhere: invalid", function()
    for _, name in ipairs { "PGHOSTADDR", "PGSERVICE" } do
      local status, out, err = process.run { script = [[
        print(require("dlock").open(arg[1]))
      ]], args = { common.url }, env = { [name] = "127.0.0.2" } }
      assert.are.equal("", err)
      assert.are.equal(0, status)
      assert.matches("^nil\t[^\n]*" .. name .. "[^\n]*\tinvalid\n$", out)
    end
  end)

  it("a notice that is lost is found by asking", function()
    local other, k = open(), key()
    between = proxy.start(common.url)
    local lease = assert(other:lock(k, { ttl = 60 }))
    local peer = process.spawn { script = [[
      local dlock = require "dlock"
      local store = assert(dlock.open { url = arg[1] })
      assert(store:ping())
      print "ready"
      local lease = assert(store:lock(arg[2], { timeout = 20 }))
      print "got"
      assert(lease:release())
      print "end"
    ]], args = { between.url, k } }
    peer:expect "ready"
    common.eventually(other, "it waits, and listens", function()
      return common.ask("SELECT heard FROM dlock.wait WHERE id = $", k) == "t"
    end)
    between:hold("down", { sent = "LISTEN dlock_" })
    assert(lease:release())
    peer:expect("got", 10)
    between:release("down")
    peer:expect "end"
    peer:close()
  end)

  it("listen = false: a wait that hears nothing", function()
    local store, k = open { listen = false }, key()
    local lease = assert(open():lock(k))
    assert.are.equal("timeout", code_of(store:lock(k, { timeout = 0.3 })))
    assert(lease:release())
    assert(store:lock(k)):release()
  end)

  it("a session that forgets its prepared statements costs nothing", function()
    local store, k = open(), key()
    common.ask "CREATE TABLE IF NOT EXISTS known (name text)"
    for _ = 1, 3 do assert(assert(store:lock(k)):release()) end
    local lease = assert(store:lock(k))
    assert.is_true(assert(lease:guard("INSERT INTO known SELECT name FROM"
      .. " pg_prepared_statements WHERE statement LIKE '%SET fence%'")) == 1)
    assert(lease:guard("DEALLOCATE ALL"))
    assert(lease:release())
    for _ = 1, 3 do assert(assert(store:lock(k)):release()) end
    common.ask "DROP TABLE known"
  end)

  it("guarded statements with ; between: the last one's rows, all or nothing",
    function()
      common.ask "CREATE TABLE IF NOT EXISTS several (n integer)"
      local lease = assert(open():lock(key()))
      assert.are.equal(2, lease:guard("INSERT INTO several VALUES (1);"
        .. " INSERT INTO several VALUES (2), (3)", "not asked for"))
      assert.are.equal("invalid", code_of(lease:guard("INSERT INTO several"
        .. " VALUES (4); SELECT 1 / 0")))
      assert.are.equal("3", common.ask "SELECT count(*) FROM several")
      assert(lease:release())
      common.ask "DROP TABLE several"
    end)
end)
