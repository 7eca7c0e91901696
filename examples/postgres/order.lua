-- An order is written under a lock, by a transaction that asks for the fence
-- last. Then a writer that was late by a whole lease does the same: its
-- transaction is undone, although it never heard that its lease was over.
-- The statements go through psql, which every machine with PostgreSQL has; a
-- program has a client library, and the same statements.
-- usage: lua5.4 examples/postgres/order.lua URL
local dlock = require "dlock"

local url = arg[1]
local store = assert(dlock.open(url))

-- What psql prints of these lines.
local function psql(lines)
  local script = os.tmpname()
  local file = assert(io.open(script, "w"))
  file:write(lines)
  file:close()
  local pipe = assert(io.popen(("psql -X -A -t -q '%s' -f '%s' 2>&1"):format(
    url:gsub(":@", "@"), script)))
  local out = pipe:read "*a"
  pipe:close()
  os.remove(script)
  return out
end

-- Pays an order, and says whether that was done.
local function pay(lease)
  return psql(([[
    BEGIN;
    UPDATE orders SET state = 'paid', writer = %d WHERE id = 42;
    SELECT count(*) AS ours FROM (%s) AS f \gset
    \if :ours
      COMMIT;
      SELECT 'paid';
    \else
      ROLLBACK;
      SELECT 'undone: the lock was given to somebody else';
    \endif
  ]]):format(lease.fence, assert(lease:fence_sql())))
end

psql [[
  DROP TABLE IF EXISTS orders;
  CREATE TABLE orders (id integer, state text, writer bigint);
  INSERT INTO orders VALUES (42, 'open');
]]

local lease = assert(store:lock("orders:42"))
print("locked, fence " .. lease.fence)
io.write(pay(lease))
lease:release()

local late = assert(store:lock("orders:42", { ttl = 0.5, renew = false }))
local next_one = assert(store:lock("orders:42")) -- waits until that is over
print("another one holds it, fence " .. next_one.fence)
io.write(pay(late))
io.write(pay(next_one))
next_one:release()
store:close()
