-- The stores that the contract is run on: where they are, and what an admin or
-- another program can do there, around dlock. A missing server is a failure.

local consul = require "spec.support.consul"
local core = require "dlock.core"
local dlock = require "dlock"
local engine = require "spec.support.engine"
local etcd = require "spec.support.etcd"
local mysql = require "spec.support.mysql"
local postgres = require "spec.support.postgres"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local shared = require "spec.support.shared"
local url = require "dlock.url"
local uv = require "luv"
local zk = require "spec.support.zk"
local zk_client = require "spec.support.zk_client"

-- hands_over: with fair = false a lock may be handed on inside a process.
-- hears_late: of a revoke a holder may hear only by its next request.
-- plain: names the servers, for what others than dlock do there.
-- way: its number among those of which a run takes one by lot.
local function new_redis(name, url_of, plain)
  local on = { name = name, portable = true, hands_over = true,
    hears_late = true }

  function on.url()
    return shared.at(url_of)
  end

  -- A client of each server.
  local function connect()
    local found = {}
    for address in shared.at(plain):match("//([^/]*)"):gmatch("[^,]+") do
      found[#found + 1] = assert(redis.connect("redis://" .. address))
    end
    return found
  end

  -- Of a cluster one node has the key, and the others say where.
  local function call(...)
    local reply
    for _, client in ipairs(connect()) do
      local said, message = client:pcall(...)
      assert(not message or message:find("^MOVED"), message)
      if not message then reply = said end
      client:close()
    end
    return reply
  end

  --- The lock is deleted by somebody else.
  function on.delete(key)
    call("DEL", "dlock:" .. key)
  end

  --- Whether another program, with a lock library of its own, gets the lock;
  --- for 300 ms.
  function on.foreign(key)
    return call("SET", "dlock:" .. key, "foreign", "NX", "PX", 300) == "OK"
  end

  --- How many wait in the queue of key.
  function on.waiters(key)
    local count = 0
    for _, client in ipairs(connect()) do
      for _, queue in ipairs(client:names("~dlock:*:q:*" .. key)) do
        count = count + client:call("ZCARD", queue)
      end
      client:close()
    end
    return count
  end

  function on.buried() end

  --- The key of guarded writes.
  function on.data(key) return "dlock:" .. key .. "-data" end

  --- What is there of all keys that begin with prefix, but for the fences.
  function on.leftovers(prefix)
    local left = {}
    for _, client in ipairs(connect()) do
      client:left_of("*" .. prefix .. "*", left)
      client:close()
    end
    return left
  end

  --- Guarded writes: begin, finish around them; write returns how many there
  --- were.
  on.guarded = {
    begin = function() end,
    write = function(lease, key)
      return lease:guard("INCR", on.data(key))
    end,
    finish = function(lease, key)
      assert(lease:guard("DEL", on.data(key)))
    end,
  }
  return on
end

local on_redis = new_redis("redis", "DLOCK_TEST_REDIS", "DLOCK_TEST_REDIS")

-- The same server with TLS, for a user who may do no more than docs/security.md
-- says. Whose CA it is stands in $SSL_CERT_FILE.
local on_rediss = new_redis("rediss", "DLOCK_TEST_REDISS", "DLOCK_TEST_REDIS")
on_rediss.way = 0
local has_user = {}

-- Makes the user of docs/security.md on the server at that URL.
local function least_rights(name, where, ...)
  if has_user[where] then
    return
  end
  local rule = server.read_file("docs/security.md")
    :match("\nACL SETUSER (" .. name .. " on >secret [^\n]*)\n```")
  local words = {}
  for word in rule:gmatch("%S+") do words[#words + 1] = word end
  for _, word in ipairs { ... } do words[#words + 1] = word end
  local admin = assert(redis.connect(where))
  admin:call("ACL", "SETUSER", (table.unpack or unpack)(words))
  admin:close()
  has_user[where] = true
end

-- What cases have of their own: prefixes, and the command that they guard.
local ALSO = { "+incr", "~/ct*", "~~dlock:{??????}:?:/ct*", "~x:*",
  "~~dlock:{??????}:?:x:*" }

function on_rediss.url()
  least_rights("app", shared.at("DLOCK_TEST_REDIS"),
    (table.unpack or unpack)(ALSO))
  return (shared.at("DLOCK_TEST_REDISS"):gsub("//", "//app:secret@"))
end

-- For users who may do no more than docs/security.md says, on the primary and
-- on the Sentinels. Whoever has no options for the latter is nobody there.
local on_sentinel = new_redis("redis+sentinel", "DLOCK_TEST_SENTINEL",
  "DLOCK_TEST_SENTINEL_PRIMARY")
on_sentinel.way = 1
-- One Lua runs the contract with what is confirmed by a replica.
on_sentinel.options = { sentinel_username = "finder",
  sentinel_password = "secret", wait_replicas = jit and "all" }

function on_sentinel.url()
  local sentinels = shared.at("DLOCK_TEST_SENTINEL")
  least_rights("app", shared.at("DLOCK_TEST_SENTINEL_PRIMARY"),
    jit and "+wait" or "-wait", (table.unpack or unpack)(ALSO))
  for address in sentinels:match("//([^/]*)"):gmatch("[^,]+") do
    least_rights("finder", "redis://" .. address)
  end
  return (sentinels:gsub("//", "//app:secret@"))
end

-- In the contract only. Guarded keys have to be in the lock's slot, so a tag
-- stands in their name. lifts: releases lift counters, too (handoff.lua).
local on_cluster = new_redis("redis+cluster", "DLOCK_TEST_CLUSTER",
  "DLOCK_TEST_CLUSTER")
on_cluster.way, on_cluster.lifts = 2, true

function on_cluster.url()
  local nodes = shared.at("DLOCK_TEST_CLUSTER")
  for address in nodes:match("//([^/]*)"):gmatch("[^,]+") do
    least_rights("app", "redis://" .. address, "+cluster|slots", "+asking",
      "+ssubscribe", "+sunsubscribe", "+spublish", "+pubsub|shardnumsub",
      "&~dlock:{??????}:c:*",
      (table.unpack or unpack)(ALSO))
  end
  return (nodes:gsub("//", "//app:secret@"))
end

function on_cluster.data(key)
  local store = assert(dlock.open(on_cluster.url()))
  local tag = store:tag(key)
  store:close()
  return "dlock:" .. tag .. key .. "-data"
end

-- A majority of five servers. plain: it has the mutex, election and what is of
-- them, and no queue.
-- stays: so many seconds a note may stay behind a hold.
local on_redlock = { name = "redlock", portable = true, plain = true, way = 0,
  stays = 4,
  options = { node_timeout = 1 } } -- tests are slow, and the disk is asked

function on_redlock.url()
  return shared.at("DLOCK_TEST_REDLOCK")
end

-- fn's results on each node.
local function on_nodes(fn)
  local out = {}
  for address in on_redlock.url():gmatch("[%d.]+:%d+") do
    local client = assert(redis.connect("redis://" .. address))
    out[#out + 1] = fn(client)
    client:close()
  end
  return out
end

function on_redlock.delete(key)
  on_nodes(function(client) client:call("DEL", "dlock:" .. key) end)
end

--- How many clients of a node want to know when key is free.
function on_redlock.waiters(key)
  return math.max((table.unpack or unpack)(on_nodes(function(client)
    local count = 0
    for _, news in ipairs(client:names("~dlock:*:n:*" .. key)) do
      count = count + client:call("ZCARD", news)
    end
    return count
  end)))
end

function on_redlock.buried() end

function on_redlock.leftovers(prefix)
  local left = {}
  on_nodes(function(client) client:left_of("*" .. prefix .. "*", left) end)
  return left
end

-- inherits: how many descriptors of a client library stay open on exec.
local on_zookeeper = { name = "zookeeper", inherits = 3 }

function on_zookeeper.url()
  return shared.at("DLOCK_TEST_ZOOKEEPER")
end

local function ephemerals(part)
  local found = {}
  for _, paths in pairs(zk.ephemerals(on_zookeeper.url())) do
    for _, path in ipairs(paths) do
      if path:find(part, 1, true) then found[#found + 1] = path end
    end
  end
  return found
end

function on_zookeeper.waiters(key)
  return math.max(#ephemerals(key .. "/") - 1, 0)
end

on_zookeeper.leftovers = ephemerals

on_zookeeper.guarded = {
  begin = function(lease, key)
    assert(lease:guard("CREATE", "/data-" .. key, ""))
  end,
  write = function(lease, key)
    return lease:guard("SET", "/data-" .. key, "x")
  end,
  finish = function(lease, key)
    assert(lease:guard("DELETE", "/data-" .. key))
  end,
}

--- Returns when the server has noticed that n waiters of key are dead: they bar
--- others until their sessions are over. Elsewhere the dead are passed over.
local function buried(on, key, n)
  local limit = uv.hrtime() + 20e9
  while on.waiters(key) > 1 do
    assert(uv.hrtime() < limit, n .. " dead waiters are still there")
    uv.sleep(20)
  end
end

function on_zookeeper.buried(key, n)
  buried(on_zookeeper, key, n)
end

local on_etcd = { name = "etcd", portable = true }

function on_etcd.url()
  return shared.at("DLOCK_TEST_ETCD")
end

function on_etcd.leftovers(part)
  local found = {}
  for _, key in ipairs(etcd.keys(on_etcd.url(), "/dlock")) do
    if key:find(part, 1, true) then found[#found + 1] = key end
  end
  return found
end

function on_etcd.waiters(key)
  return math.max(#on_etcd.leftovers(key .. "/") - 1, 0)
end

function on_etcd.buried(key, n)
  buried(on_etcd, key, n)
end

on_etcd.guarded = {
  begin = function() end,
  write = function(lease, key)
    local revision, message, code = lease:guard("PUT", "/data-" .. key, "x")
    if not revision then
      return nil, message, code
    end
    local fields = etcd.ctl(on_etcd.url(), "get", "/data-" .. key, "-w=fields")
    return tonumber(fields:match('"Version" : (%d+)'))
  end,
  finish = function(lease, key)
    assert(lease:guard("DELETE", "/data-" .. key))
  end,
}

local on_consul = { name = "consul" }

function on_consul.url()
  return shared.at("DLOCK_TEST_CONSUL")
end

function on_consul.leftovers(part)
  local found = {}
  for _, key in ipairs(consul.keys(on_consul.url(), "dlock/")) do
    if key:find(part, 1, true) then found[#found + 1] = key end
  end
  return found
end

function on_consul.waiters(key)
  return math.max(#on_consul.leftovers(key .. "/") - 1, 0)
end

function on_consul.buried(key, n)
  buried(on_consul, key, n)
end

on_consul.guarded = {
  begin = function() end,
  write = function(lease, key)
    local seen = consul.get(on_consul.url(), "/v1/kv/data-" .. key .. "?raw")
    local count = (tonumber(seen) or 0) + 1
    local index, message, code = lease:guard("PUT", "data-" .. key,
      ("%d"):format(count))
    if not index then
      return nil, message, code
    end
    return count
  end,
  finish = function(lease, key)
    assert(lease:guard("DELETE", "data-" .. key))
  end,
}

local on_postgres = { name = "postgres", portable = true, hears_late = true }

function on_postgres.url()
  return shared.at("DLOCK_TEST_POSTGRES")
end

local function hex(bytes)
  return "'\\x" .. bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end) .. "'"
end

local function ask(sql)
  return postgres.ask(on_postgres.url(), sql)
end

function on_postgres.leftovers(part)
  local found = ask(("WITH used AS (SELECT id, until FROM dlock.key UNION ALL"
    .. " SELECT id, until FROM dlock.hold UNION ALL"
    .. " SELECT id, alive FROM dlock.wait) SELECT encode(id, 'hex') FROM used"
    .. " WHERE position(%s::bytea IN id) > 0 AND until > clock_timestamp()")
    :format(hex(part)))
  local keys = {}
  for key in (found or ""):gmatch("%S+") do keys[#keys + 1] = key end
  return keys
end

function on_postgres.waiters(key)
  return tonumber(ask("SELECT count(*) FROM dlock.wait WHERE id = "
    .. hex(key))) or 0
end

function on_postgres.buried() end

--- How many rows a statement gives.
function on_postgres.rows(sql)
  local found = assert(ask(sql))
  return select(2, found:gsub("[^\n]+", ""))
end

--- The lock is deleted by somebody else.
function on_postgres.delete(key)
  assert(ask("DELETE FROM dlock.key WHERE id = " .. hex(key)))
end

local has_data

-- The table of guarded writes, which other processes may make at the same time.
local function make_data()
  if not has_data then
    local made, problem = ask("CREATE TABLE IF NOT EXISTS ct_data"
      .. " (id text PRIMARY KEY, n integer)")
    assert(made or problem:find("already exists", 1, true)
      or problem:find("duplicate key", 1, true), problem)
    has_data = true
  end
end

on_postgres.guarded = {
  begin = make_data,
  write = function(lease, key)
    make_data()
    local count, message, code = lease:guard("INSERT INTO ct_data AS d VALUES"
      .. " ($1, 1) ON CONFLICT (id) DO UPDATE SET n = d.n + 1", key)
    if not count then
      return nil, message, code
    end
    assert(count == 1, count)
    local n = ask(("SELECT n FROM ct_data WHERE id = '%s'"):format(key))
    return tonumber(n)
  end,
  finish = function(lease, key)
    assert(lease:guard("DELETE FROM ct_data WHERE id = $1", key) == 1)
  end,
}

local on_mysql = { name = "mysql", portable = true, hears_late = true }

function on_mysql.url()
  return shared.at("DLOCK_TEST_MYSQL")
end

local function ask_mysql(sql)
  return mysql.ask(on_mysql.url(), sql)
end

local function digits(bytes)
  return "X'" .. bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end) .. "'"
end

function on_mysql.leftovers(part)
  local found = ask_mysql(("SELECT HEX(id) FROM (SELECT id, until FROM"
    .. " dlock_key UNION ALL SELECT id, until FROM dlock_hold UNION ALL"
    .. " SELECT id, alive FROM dlock_wait) used WHERE LOCATE(%s, id) > 0"
    .. " AND until > UTC_TIMESTAMP(6)"):format(digits(part)))
  local keys = {}
  for key in (found or ""):gmatch("%S+") do keys[#keys + 1] = key end
  return keys
end

function on_mysql.waiters(key)
  return tonumber(ask_mysql(("SELECT COUNT(*) FROM dlock_wait WHERE id = %s"
    .. " AND alive > UTC_TIMESTAMP(6)"):format(digits(key)))) or 0
end

function on_mysql.buried(key, n)
  buried(on_mysql, key, n)
end

--- How many rows a statement gives.
function on_mysql.rows(sql)
  local found = assert(ask_mysql(sql))
  return select(2, found:gsub("[^\n]+", ""))
end

--- The lock is deleted by somebody else.
function on_mysql.delete(key)
  assert(ask_mysql("DELETE FROM dlock_key WHERE id = " .. digits(key)))
end

local function make_mysql_data()
  assert(ask_mysql("CREATE TABLE IF NOT EXISTS ct_data"
    .. " (id VARBINARY(600) PRIMARY KEY, n INT)"))
end

on_mysql.guarded = {
  begin = make_mysql_data,
  write = function(lease, key)
    make_mysql_data()
    local count, message, code = lease:guard("INSERT INTO ct_data VALUES"
      .. " (?, 1) ON DUPLICATE KEY UPDATE n = n + 1", key)
    if not count then
      return nil, message, code
    end
    return tonumber((ask_mysql("SELECT n FROM ct_data WHERE id = "
      .. digits(key))))
  end,
  finish = function(lease, key)
    assert(lease:guard("DELETE FROM ct_data WHERE id = ?", key) == 1)
  end,
}

local on_file = { name = "file" }

function on_file.buried() end

function on_file.url()
  return "file://" .. shared.at("DLOCK_TEST_DIR") .. "/locks"
end

local function finish(ticket)
  while not core.drive(ticket, 0.2) do end
  return ticket:take()
end

-- What fn(engine) says of an engine without the store objects above it, on the
-- local store with that module.
local function asked(module, on, fn)
  local where = assert(url.parse(on.url()))
  local e = assert(engine.new(require("dlock.store." .. module),
    { shown = where.shown, scheme = module, path = where.path }))
  local found = fn(e)
  finish(e:close(1))
  return found
end

function on_file.waiters(key)
  return asked("file", on_file, function(e)
    return #assert(finish(e:inspect(key))).waiters
  end)
end

--- Files stay; that the locks in them are free is what the cases ask.
function on_file.leftovers()
  return {}
end

-- ZooKeeper for a user who may do no more than docs/security.md says, in a
-- place that everybody else is kept out of. In the contract only, whose cases
-- say all that there is to say about rights.
local on_closed = setmetatable({ name = "zookeeper-user" },
  { __index = on_zookeeper })
local has_place

function on_closed.url()
  local where = on_zookeeper.url()
  if not has_place then
    local path, acl = server.read_file("docs/security.md")
      :match("\ncreate (%S+) \"\" (digest:%S+)\n")
    local ok, problem = zk_client.create(where, path, acl, 30)
    assert(ok or problem == "error -110", problem) -- it may be there already
    has_place = path
  end
  return where:gsub("//", "//app:secret@") .. has_place
end

-- A whole store in one file, of whose requests and answers some get lost
-- (spec/c/model_store.c): for those who write a store. In the contract only.
local on_model = { name = "model" }

function on_model.buried() end

function on_model.url()
  require "spec.support.model"
  return "model://" .. shared.at("DLOCK_TEST_DIR") .. "/model"
end

function on_model.waiters(key)
  return asked("model", on_model, function(e)
    return #(finish(e:inspect(key)) or { waiters = {} }).waiters
  end)
end

function on_model.leftovers(prefix)
  return asked("model", on_model, function(e)
    return assert(finish(e:list(prefix)))
  end)
end

return { on_redis, on_rediss, on_zookeeper, on_file, on_sentinel, on_etcd,
  on_redlock, on_consul, on_postgres, on_mysql,
  closed = on_closed, cluster = on_cluster, model = on_model }
