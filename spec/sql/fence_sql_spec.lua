-- A program is stopped in its transaction for longer than its lease, and
-- another one gets the lock meanwhile. With lease:fence_sql() as its last
-- statement its COMMIT never happens; without it does, which is the mistake.
-- DLOCK_FENCE_ROUNDS: how often (5)

local common = require "spec.sql.common"
local pages = require "spec.support.pages"
local process = require "spec.support.process"

local ROUNDS = tonumber(os.getenv("DLOCK_FENCE_ROUNDS")) or 5

-- Does so each time it is told to; says when it is in its transaction, and how
-- that ended.
local HOLDER = [[
  local dlock = require "dlock"
  local url, key, asks = arg[1], arg[2], arg[3] == "true"
  local store = assert(dlock.open(url))
  local program = require("spec.support." .. arg[4]).connect(url)
  for round in io.lines() do
    local lease = assert(store:lock(key, { ttl = 0.3, timeout = 20 }))
    assert(program:run(("BEGIN; INSERT INTO fenced VALUES ('%s', %d, %s)")
      :format(key, lease.fence, round)))
    print "in its transaction"
    io.read()
    local rows = asks and assert(program:run(lease:fence_sql())) or "1"
    local ending = rows == "1" and "COMMIT" or "ROLLBACK"
    assert(program:run(ending))
    lease:release()
    print(ending)
  end
]]

-- As pgmoon and lua-resty-mysql give what a server says.
local function by_query(session)
  return { query = function(_, sql)
    local out, problem = session:run(sql)
    if not out then return nil, problem end
    return out == "" and {} or { { out } }
  end }
end

-- As LuaSQL does.
local function luasql(session)
  return {
    setautocommit = function() assert(session:run "BEGIN") end,
    commit = function() return session:run "COMMIT" end,
    rollback = function() return session:run "ROLLBACK" end,
    execute = function(_, sql)
      local out, problem = session:run(sql)
      return out and { fetch = function() return out ~= "" and out or nil end,
        close = function() end }, problem
    end,
  }
end

---@param db table of spec.sql.common
local function cases(db)
  local store

  before_each(function()
    store = db.open()
    db.ask "CREATE TABLE IF NOT EXISTS fenced (name text, fence bigint, n int)"
  end)

  after_each(function()
    process.close_all()
    db.ask "DROP TABLE fenced"
    db.close_stores()
  end)

  local function written(key)
    return db.ask(("SELECT count(*) FROM fenced WHERE name = '%s'"):format(key))
  end

  -- How the rounds ended. stop: whether the lock goes on while the holder is
  -- stopped.
  local function run(key, asks, stop)
    local holder = process.spawn { script = HOLDER, args = { db.url, key,
      asks, db.name } }
    local ends = {}
    for round = 1, ROUNDS do
      holder:write(round .. "\n")
      holder:expect "^in its transaction$"
      if stop then
        assert(holder:pause())
        local lease = assert(store:lock(key, { timeout = 20 }))
        db.ask(("INSERT INTO fenced VALUES ('%s', %d, %d)"):format(key,
          lease.fence, round))
        lease:release()
        holder:resume()
      end
      holder:write "go on\n"
      ends[#ends + 1] = holder:expect "^%u+$"
    end
    return ends
  end

  local function all(ending)
    local list = {}
    for i = 1, ROUNDS do list[i] = ending end
    return list
  end

  it("that asks for the fence is undone when the lock went on", function()
    local ends = run("asks", true, true)
    assert.same(all "ROLLBACK", ends)
    assert.equal(tostring(ROUNDS), written "asks")
  end)

  it("that does not ask is committed behind the next holder's", function()
    assert.same(all "COMMIT", run("silent", false, true))
    assert.equal(tostring(2 * ROUNDS), written "silent")
  end)

  it("that asks is committed while the lock is its own", function()
    assert.same(all "COMMIT", run("plain", true, false))
  end)

  it("is waited for by the next grant once it has asked", function()
    local key = "waits"
    local old = assert(store:lock(key, { ttl = 0.3, renew = false }))
    local program = db.connect(db.url)
    assert.equal("1", program:run("BEGIN; " .. old:fence_sql()))
    local other = db.open()
    local lease, _, code = other:lock(key, { timeout = 1 })
    assert.is_nil(lease)
    assert.is_truthy(code == "timeout" or code == "unavailable", code)
    assert(program:run "COMMIT")
    assert(other:lock(key, { timeout = 20 })):release()
  end)

  it("by the cookbook's functions is undone when the lock went on", function()
    db.ask "CREATE TABLE orders (id integer, state text)"
    finally(function() db.ask "DROP TABLE orders" end)
    local session, count = db.connect(db.url), 0
    for _, block in ipairs(pages.blocks "docs/cookbook.md") do
      local text = table.concat(block, "\n")
      if text:find("fence_sql", 1, true) then
        local pay = assert((loadstring or load)(text .. "\nreturn pay"))()
        local handle = (text:find("db:query", 1, true) and by_query
          or luasql)(session)
        db.ask "DELETE FROM orders"
        db.ask "INSERT INTO orders VALUES (42, 'new')"
        local late = assert(store:lock("orders:42", { ttl = 0.2,
          renew = false }))
        local lease = assert(store:lock("orders:42"))
        assert.is_false(pay(handle, late))
        assert.equal("new", db.ask "SELECT state FROM orders")
        assert.is_true(pay(handle, lease))
        assert.equal("paid", db.ask "SELECT state FROM orders")
        lease:release()
        count = count + 1
      end
    end
    session:close()
    assert.equal(2, count)
  end)
end

for _, name in ipairs { "postgres", "mysql" } do
  local db = common(name)
  describe("a transaction in " .. db.title, function()
    cases(db)
  end)
end
