-- What the specs of both databases share: stores that are closed behind a case,
-- keys nobody else uses, the server's own view of the rows, and the words in
-- which the two differ.
--
--   local db = common "mysql"; db.title, db.open(), db.rows(key)
--   db.ask("SELECT fence FROM {key} WHERE id = $", key)

local opened = require "spec.support.opened"
local shared = require "spec.support.shared"

-- as_sent: a key in a request; cuts: of an acquire; waits: how many statements
-- wait for a row; nothing, join, too_few, guards_refused: guarded; checks: when
-- a row of a foreign key must be there.
local DIALECTS = {
  postgres = {
    title = "PostgreSQL", variable = "DLOCK_TEST_POSTGRES",
    tables = "dlock.", clock = "clock_timestamp()", literal = "'\\x%s'::bytea",
    as_sent = function(key) return key end,
    cuts = { to = 480, step = 24 }, no_database = "invalid",
    waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE"
      .. " '%SET fence%' AND wait_event_type = 'Lock'",
    nothing = "SELECT 1", parameter = "SELECT $1",
    join = "UPDATE dlock.key SET value = convert_to($1 || $2, 'UTF8')"
      .. " WHERE id = convert_to($3, 'UTF8')",
    guards_refused = {
      ["SELECT 1/0"] = "division by zero",
      ["SELECT * FROM not_there"] = "not_there",
      ["nonsense"] = "syntax error",
      ["COMMIT"] = "transaction commands",
    },
    too_few = "there is no parameter",
    checks = { "", "DEFERRABLE INITIALLY DEFERRED" }, names_row = true,
  },
  mysql = {
    title = "MySQL", variable = "DLOCK_TEST_MYSQL",
    tables = "dlock_", clock = "UTC_TIMESTAMP(6)", literal = "X'%s'",
    cuts = { to = 240, step = 16 }, no_database = "denied",
    waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST"
      .. " WHERE COMMAND = 'Query' AND TIME_MS > 200",
    nothing = "DO 1", parameter = "SELECT ?",
    join = "UPDATE dlock_key SET value = CONCAT(?, ?) WHERE id = ?",
    guards_refused = {
      ["SELECT * FROM not_there"] = "not_there",
      ["nonsense"] = "SQL syntax",
      ["INSERT INTO dlock_key VALUES (1)"] = "Column count",
    },
    too_few = "Incorrect arguments to EXECUTE",
    checks = { "" },
  },
}

-- The digits of these bytes.
local function hex(bytes)
  return (bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end))
end

local ROWS = "SELECT (SELECT count(*) FROM {key} WHERE id = $ AND until >"
  .. " {now}) + (SELECT count(*) FROM {hold} WHERE id = $ AND until > {now})"
  .. " + (SELECT count(*) FROM {wait} WHERE id = $ AND alive > {now})"

local function make(name)
  local dialect = DIALECTS[name]
  local support = require("spec.support." .. name)
  local db = opened(name, { url = shared.at(dialect.variable) })
  for field, value in pairs(dialect) do db[field] = value end
  db.name, db.start, db.connect = name, support.start, support.connect
  db.as_sent = dialect.as_sent or hex

  --- A literal of these bytes.
  function db.literal(bytes)
    return (dialect.literal:format(hex(bytes)))
  end

  --- A statement: {key}, {hold}, {wait} are tables, {now} is the time, $ is the
  --- key.
  function db.sql(text, key)
    text = text:gsub("{(%l+)}", function(word)
      return word == "now" and dialect.clock or dialect.tables .. word
    end)
    return key and text:gsub("%$", function() return db.literal(key) end)
      or text
  end

  --- What the server says to a statement.
  function db.ask(text, key, url)
    return assert(support.ask(url or db.url, (db.sql(text, key))))
  end

  --- How many holds and places of key are in time.
  function db.rows(key, url)
    return tonumber(db.ask(ROWS, key, url))
  end

  return db
end

local made = {}

---@param name string postgres or mysql
return function(name)
  made[name] = made[name] or make(name)
  return made[name]
end
