-- The part of bench/run that is not shell: what there is to measure, and the
-- servers for it.
-- usage: bench/run [STORE]… [PART]…      (default: all of both)
--   STORE   redis, redlock, zookeeper, etcd, consul, postgres, mysql,
--           file
--   PART    pairs      uncontended pairs (bench/pairs.lua, redlock.lua)
--           handoff   from holder to waiter (bench/handoff.lua)
--           queue      many in the queue already (bench/queue.lua)
--           tls        the same pairs with TLS (bench/tls.lua); Redis only
--           cluster    pairs and hand-overs there (bench/cluster.lua); Redis
--                      only
--           readers    many readers who wait (bench/readers.lua)
--           leases     memory of leases, and their renewal

local cluster = require "bench.cluster"
local consul = require "spec.support.consul"
local etcd = require "spec.support.etcd"
local figures = require "bench.figures"
local handoff = require "bench.handoff"
local mysql = require "spec.support.mysql"
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local programs = require "bench.programs"
local queue = require "bench.queue"
local readers = require "bench.readers"
local redis = require "spec.support.redis"
local redlock = require "bench.redlock"
local server = require "spec.support.server"
local settings = require "bench.settings"
local tls = require "bench.tls"
local uncontended = require "bench.pairs"
local zk = require "spec.support.zk"

local STORES = { "redis", "redlock", "zookeeper", "etcd", "consul", "postgres",
  "mysql", "file" }
local PARTS = { "pairs", "tls", "cluster", "handoff", "queue", "readers",
  "leases" }

local function memory(title, url)
  if settings.renew_seconds == 0 then return end
  for _, lua in ipairs(settings.luas) do
    figures.say("%s, memory of one of 10,000 leases, %s: %.0f bytes", title,
      lua, programs.number(programs.lua(lua, "bench/memory.lua", url, 10000)))
  end
end

local function renewal(private)
  if settings.renew_seconds == 0 then return end
  local share = programs.number(programs.lua("lua5.4", "bench/redis.lua",
    "renew", private.url, 1000, settings.renew_seconds))
  figures.say("Redis, renewal of 1,000 leases at ttl 30: %.2f %% of one core",
    share * 100)
end

-- fn(server, …), and whatever comes of it, the server is stopped.
local function on(private, fn, ...)
  local ok, problem = pcall(fn, private, ...)
  private:stop()
  process.close_all()
  return ok or error(problem, 0)
end

local function on_redis(private, wanted)
  local admin = private:connect()
  if wanted.pairs then uncontended.redis(private, admin) end
  if wanted.tls then tls.redis() end
  if wanted.cluster then cluster.redis(private) end
  if wanted.handoff then handoff.redis(private, admin) end
  if wanted.queue then queue.redis(private, admin) end
  if wanted.readers then readers.redis(private, admin) end
  if wanted.leases then
    memory("Redis", private.url)
    renewal(private)
  end
  admin:close()
end

local function on_zookeeper(private, wanted)
  if wanted.pairs then uncontended.zookeeper(private) end
  if wanted.handoff then handoff.zookeeper(private) end
  if wanted.leases then memory("ZooKeeper", private.url) end
end

local function on_etcd(private, wanted)
  if wanted.pairs then uncontended.etcd(private) end
  if wanted.handoff then handoff.etcd(private) end
  if wanted.leases then memory("etcd", private.url) end
end

local function on_postgres(private, wanted)
  if wanted.pairs then uncontended.postgres(private) end
  if wanted.handoff then handoff.postgres(private) end
  if wanted.leases then memory("PostgreSQL", private.url) end
end

local function on_mysql(private, wanted)
  if wanted.pairs then uncontended.mysql(private) end
  if wanted.handoff then handoff.mysql(private) end
  if wanted.leases then memory("MariaDB", private.url) end
end

local function on_consul(private, wanted)
  if wanted.pairs then uncontended.consul(private) end
  if wanted.leases then memory("Consul", private.url) end
end

local stores = {}

function stores.redis(wanted)
  on(redis.start(), on_redis, wanted)
end

function stores.redlock(wanted)
  if wanted.pairs then redlock.compare() end
end

function stores.zookeeper(wanted)
  on(zk.start(), on_zookeeper, wanted)
end

function stores.etcd(wanted)
  on(etcd.start(), on_etcd, wanted)
end

-- What is committed is on the disk, as it is where data are.
function stores.postgres(wanted)
  on(postgres.start { max_connections = 300,
    conf = "fsync = on\nfull_page_writes = on\n" },
    on_postgres, wanted)
end

function stores.mysql(wanted)
  on(mysql.start { max_connections = 300,
    conf = "innodb_flush_log_at_trx_commit = 1\n" }, on_mysql, wanted)
end

function stores.consul(wanted)
  on(consul.start(), on_consul, wanted)
end

function stores.file(wanted)
  local dir = server.new_dir()
  if wanted.leases then memory("File", "file://" .. dir) end
  server.remove_dir(dir)
end

local wanted, known = {}, {}
for _, name in ipairs(arg) do wanted[name] = true end
-- Of which nothing is named, all is wanted.
for _, list in ipairs { STORES, PARTS } do
  local any = false
  for _, name in ipairs(list) do
    known[name], any = true, any or wanted[name]
  end
  for _, name in ipairs(list) do wanted[name] = not any or wanted[name] end
end
for name in pairs(wanted) do
  assert(known[name], "neither a store nor a part: " .. name)
end
server.remove_dir(server.new_dir()) -- fails early where /tmp is not writable
for _, name in ipairs(STORES) do
  if wanted[name] then stores[name](wanted) end
end
