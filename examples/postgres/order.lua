-- An order is written under a lock, by a transaction that asks for the fence
-- last. Then a writer that was late by a whole lease does the same: its
-- transaction is undone, although it never heard that its lease was over.
-- The statements go through the database's own client program; a program has a
-- library, and the same statements.
-- usage: lua5.4 examples/postgres/order.lua URL, one of PostgreSQL or MariaDB
local dlock = require "dlock"

local url = arg[1]
local store = assert(dlock.open(url))

local client, ask_and_end
if url:find "^postgres" then
  client = ("psql -X -A -t -q '%s' -f"):format(url:gsub(":@", "@"))
  ask_and_end = [[
    SELECT count(*) AS ours FROM (%s) AS f \gset
    \if :ours
      COMMIT;
    \else
      ROLLBACK;
    \endif
    SELECT CASE WHEN :ours > 0 THEN 'paid' ELSE 'undone' END;]]
else
  client = ("mariadb --no-defaults -N -B -u %s -h %s -P %s %s <"):format(
    url:match "^mysql://([^:@]+):?@([^:]+):(%d+)/(.+)$")
  -- The client has no \if, so what is not committed by then is undone.
  ask_and_end = [[
    SELECT COUNT(*) INTO @ours FROM (%s) AS f;
    SET @end = IF(@ours, 'COMMIT', 'DO 0');
    PREPARE the_end FROM @end;
    EXECUTE the_end;
    ROLLBACK;
    SELECT IF(@ours, 'paid', 'undone');]]
end

-- What the client prints of these lines.
local function sql(lines)
  local script = os.tmpname()
  local file = assert(io.open(script, "w"))
  file:write(lines)
  file:close()
  local pipe = assert(io.popen(("%s '%s' 2>&1"):format(client, script)))
  local out = pipe:read "*a"
  pipe:close()
  os.remove(script)
  return out
end

-- Pays an order, and says whether that was done.
local function pay(lease)
  return sql(("BEGIN; UPDATE orders SET state = 'paid', writer = %d"
    .. " WHERE id = 42;\n"):format(lease.fence)
    .. ask_and_end:format(assert(lease:fence_sql())))
end

sql [[
  DROP TABLE IF EXISTS orders;
  CREATE TABLE orders (id integer PRIMARY KEY, state varchar(9), writer bigint);
  INSERT INTO orders VALUES (42, 'open', NULL);
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
io.write("written by ", sql "SELECT writer FROM orders;")
next_one:release()
store:close()
