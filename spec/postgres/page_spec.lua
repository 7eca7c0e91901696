-- What docs/postgres.md shows of PostgreSQL is so: its rights are enough, its
-- fence is that of a lease, and what people do instead has the holes that it
-- says.

local dlock = require "dlock"
local pages = require "spec.support.pages"
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local said = require "spec.sql.said"

local PAGE = "docs/postgres.md"

local function blocks(pattern)
  local found = {}
  for _, block in ipairs(pages.blocks(PAGE)) do
    local text = table.concat(block, "\n")
    if block.language == "sql" and text:find(pattern) then
      found[#found + 1] = text
    end
  end
  return found
end

describe("docs/postgres.md", function()
  local server

  setup(function()
    server = postgres.start { bouncer = true, pool_size = 1 }
    assert(server:sql "CREATE DATABASE shop")
  end)

  teardown(function() server:stop() end)

  after_each(process.close_all)

  local function as_dba(sql)
    return postgres.ask(("postgres://postgres@127.0.0.1:%d/shop"):format(
      server[1].port), sql)
  end

  it("gives rights that are enough, and no more than they say", function()
    local status, schema = process.run { file = "bin/dlock",
      args = { "schema", "postgres" } }
    assert.equal(0, status)
    assert(as_dba(schema))
    assert(as_dba((blocks "CREATE ROLE app")[1]))
    local store = assert(dlock.open(("postgres://app:secret@127.0.0.1:%d/shop")
      :format(server[1].port)))
    finally(function() store:close(1) end)
    local lease = assert(store:lock("orders:42", { value = "x" }))
    assert.equal("1", postgres.ask(("postgres://app:secret@127.0.0.1:%d/shop")
      :format(server[1].port), lease:fence_sql()))
    local rw = store:rwlock("orders:42")
    assert(lease:downgrade())
    local reader = assert(rw:read():acquire())
    assert.equal(2, #store:inspect("orders:42").holders)
    assert.same({ "orders:42" }, (store:list()))
    assert(reader:release())
    assert(lease:extend(10))
    assert(store:revoke("orders:42"))
    assert(store:break_lock("orders:42"))
    assert.is_nil((lease:release()))
    assert.is_nil(postgres.ask(("postgres://app:secret@127.0.0.1:%d/shop")
      :format(server[1].port), "DROP TABLE dlock.key"))
  end)

  it("makes the schema by any name", function()
    local status, schema = process.run { file = "bin/dlock",
      args = { "schema", "postgres", "--schema", "user" } }
    assert.equal(0, status)
    assert(as_dba(schema))
    assert.equal("3", as_dba("SELECT count(*) FROM pg_tables"
      .. " WHERE schemaname = 'user'"))
    local store = assert(dlock.open { schema = "user", -- a word of SQL's
      url = ("postgres://postgres:@127.0.0.1:%d/shop"):format(server[1].port) })
    finally(function() store:close(1) end)
    local lease = assert(store:lock("k"))
    assert.equal("1", as_dba(lease:fence_sql()))
    lease:release()
    status = process.run { file = "bin/dlock", stderr = "pipe",
      args = { "schema", "postgres", "--schema", "a; b" } }
    assert.equal(64, status)
  end)

  it("has another lock of the same key in another schema", function()
    local url = ("postgres://postgres:@127.0.0.1:%d/shop"):format(
      server[1].port)
    local one, two = assert(dlock.open(url)),
      assert(dlock.open { url = url, schema = "other" })
    finally(function() one:close(1) two:close(1) end)
    local both = dlock.all { one:mutex "k", two:mutex "k" }
    assert(both:acquire()):release()
  end)

  it("shows the fence of a lease as it is", function()
    local store = assert(dlock.open(server.url))
    finally(function() store:close(1) end)
    local lease = assert(store:lock("orders:42"))
    local text = (blocks "FOR SHARE")[1]:gsub("fence = %d+",
      "fence = " .. ("%.0f"):format(lease.fence))
    assert.is_truthy(text:find("\n" .. lease:fence_sql() .. ";", 1, true), text)
    lease:release()
  end)

  it("says what PostgreSQL answers to what people do instead", function()
    assert(server:sql "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO dlock")
    assert.is_true(said(PAGE, function(name)
      if name == "dba" then return server:session() end
      if name:find "pooled" then return postgres.connect(server.bouncer.url) end
      local one = postgres.connect(server.url)
      assert(one:run(("SET application_name = '%s'"):format(name)))
      return one
    end) >= 13)
  end)
end)
