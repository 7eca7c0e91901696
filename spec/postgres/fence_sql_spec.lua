-- A program is stopped in its transaction for longer than its lease, and
-- another one gets the lock meanwhile. With lease:fence_sql() as its last
-- statement its COMMIT never happens; without it does, which is the mistake.
-- DLOCK_FENCE_ROUNDS: how often (5)

local dlock = require "dlock"
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local shared = require "spec.support.shared"

local ROUNDS = tonumber(os.getenv("DLOCK_FENCE_ROUNDS")) or 5

local url = shared.at "DLOCK_TEST_POSTGRES"

-- Does so each time it is told to; says when it is in its transaction, and how
-- that ended.
local HOLDER = [[
  local dlock = require "dlock"
  local postgres = require "spec.support.postgres"
  local url, key, asks = arg[1], arg[2], arg[3] == "true"
  local store = assert(dlock.open(url))
  local program = postgres.connect(url)
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

describe("a transaction", function()
  local store

  before_each(function()
    store = assert(dlock.open(url))
    assert(postgres.ask(url, "CREATE TABLE IF NOT EXISTS fenced"
      .. " (key text, fence bigint, round integer)"))
  end)

  after_each(function()
    process.close_all()
    store:close(1)
  end)

  -- How the rounds ended. stop: whether the lock goes on while the holder is
  -- stopped.
  local function run(key, asks, stop)
    local holder = process.spawn { script = HOLDER, args = { url, key, asks } }
    local ends = {}
    for round = 1, ROUNDS do
      holder:write(round .. "\n")
      holder:expect "^in its transaction$"
      if stop then
        assert(holder:pause())
        local lease = assert(store:lock(key, { timeout = 20 }))
        assert(postgres.ask(url, ("INSERT INTO fenced VALUES ('%s', %d, %d)")
          :format(key, lease.fence, round)))
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
    assert.equal(tostring(ROUNDS), postgres.ask(url,
      "SELECT count(*) FROM fenced WHERE key = 'asks'"))
  end)

  it("that does not ask is committed behind the next holder's", function()
    assert.same(all "COMMIT", run("silent", false, true))
    assert.equal(tostring(2 * ROUNDS), postgres.ask(url,
      "SELECT count(*) FROM fenced WHERE key = 'silent'"))
  end)

  it("that asks is committed while the lock is its own", function()
    assert.same(all "COMMIT", run("plain", true, false))
  end)

  it("is waited for by the next grant once it has asked", function()
    local key = "waits"
    local old = assert(store:lock(key, { ttl = 0.3, renew = false }))
    local program = postgres.connect(url)
    assert.equal("1", program:run("BEGIN; " .. old:fence_sql()))
    local other = assert(dlock.open(url))
    finally(function() other:close(1) end)
    local lease, _, code = other:lock(key, { timeout = 1 })
    assert.is_nil(lease)
    assert.is_truthy(code == "timeout" or code == "unavailable", code)
    assert(program:run "COMMIT")
    assert(other:lock(key, { timeout = 20 })):release()
  end)
end)
