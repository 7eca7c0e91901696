-- What the torture does to a database server: its connections are ended, and
-- another program locks dlock's rows; besides what is done to one server. What
-- it has answered is there again.

local mysql = require "spec.support.mysql"
local one_server = require "spec.torture.nemesis.one_server"
local postgres = require "spec.support.postgres"

local nemesis = one_server.new { name = "sql", calm = 10, calls = {
  { name = "connection kill", weight = 5, least = 0, most = 0 },
  { name = "row lock", weight = 3, least = 0.3, most = 2.5 },
} }

-- table: before the names of dlock's; connections: their numbers; kill: of one;
-- text: of a key.
local DIALECTS = {
  postgres = {
    start = function() return postgres.start { max_connections = 200 } end,
    table = "dlock.", now = "clock_timestamp()", text = "encode(id, 'escape')",
    connections = "SELECT pid FROM pg_stat_activity WHERE usename = 'dlock'",
    kill = "SELECT pg_terminate_backend(%s)", log = "postgres.log",
  },
  mysql = {
    -- A commit outlives the process, not the machine.
    start = function()
      return mysql.start { max_connections = 200,
        conf = "innodb_flush_log_at_trx_commit = 2\n" }
    end,
    table = "dlock_", now = "UTC_TIMESTAMP(6)", text = "id",
    connections = "SELECT id FROM information_schema.processlist"
      .. " WHERE user = 'dlock'",
    kill = "KILL %s", log = "mysql.log",
  },
}

--- One on a private server.
function nemesis.start(_, store)
  local self = setmetatable({ dialect = DIALECTS[store] }, nemesis)
  self.all = self.dialect.start()
  self.server = self.all[1] or self.all
  self.url = self.server.url
  return self
end

-- One connection, or half of them.
nemesis["connection kill"] = function(self, fault)
  if self.down then return "none" end
  local admin, list = self.server:session(), {}
  for id in (admin:run(self.dialect.connections) or ""):gmatch("%d+") do
    list[#list + 1] = self.dialect.kill:format(id)
  end
  local count = fault.draw < 0.5 and 1 or math.floor(#list / 2)
  local first = math.floor(fault.draw * 997 % 1 * #list)
  for i = 1, math.min(count, #list) do
    admin:run(list[1 + (first + i) % #list])
  end
  admin:close()
end

-- All rows of keys at once, as a careless program or a dump may have them.
nemesis["row lock"] = function(self)
  if self.down then return "none" end
  self.other = self.server:session()
  self.other:send(("BEGIN; SELECT 1 FROM %skey FOR UPDATE"):format(
    self.dialect.table))
end

nemesis["end row lock"] = function(self)
  if self.other then self.other:close() end
  self.other = nil
end

function nemesis:logs()
  return { self.server.dir .. "/" .. self.dialect.log }
end

--- Rows of holds and waiters whose time is not over; rows of keys stay a day.
function nemesis:leftovers()
  local left, dialect = {}, self.dialect
  local asked = ([[
      SELECT CONCAT('held ', {text}) FROM {table}key WHERE until > {now}
      UNION ALL SELECT CONCAT('shared ', {text}) FROM {table}hold
        WHERE until > {now}
      UNION ALL SELECT CONCAT('waited for ', {text}) FROM {table}wait
        WHERE alive > {now}]]):gsub("{(%l+)}", dialect)
  for line in assert(self.server:sql(asked)):gmatch("[^\n]+") do
    left[#left + 1] = line
  end
  return left
end

function nemesis:stop()
  self.all:stop()
end

return nemesis
