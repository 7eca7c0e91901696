-- The servers that the specs of a run share. Redis is there from the start.
-- Each other one starts when a spec first asks where it is, because a server
-- that nobody asks costs 24 s at the start, and a part of a core until the end.
-- All end with the run.
--
--   shared.at "DLOCK_TEST_ETCD"   --> "etcd://127.0.0.1:…"
--
-- Ask where the file is loaded: a case that measures time is no place to start
-- a server. Processes of a spec find it in their environment.

local certificates = require "spec.support.certificates"
local server = require "spec.support.server"
local uv = require "luv"

local shared = {}

local function start(module, opts)
  return require("spec.support." .. module).start(opts)
end

-- What each tells, by name of the variable.
local STARTS = {}

function STARTS.redis()
  local made = certificates.make(server.new_dir())
  local one = start("redis", made:server "server")
  return { DLOCK_TEST_REDIS = one.url, DLOCK_TEST_REDISS = one.tls_url,
    DLOCK_TEST_REDIS_SOCKET = one.socket_url,
    SSL_CERT_FILE = made:path "ca.crt" } -- whom OpenSSL trusts
end

-- With Sentinels that are slow to judge: nothing is to fail over here because a
-- machine stood still.
function STARTS.sentinel()
  local set = start("sentinel", { down_after = 60000 })
  return { DLOCK_TEST_SENTINEL = set.url,
    DLOCK_TEST_SENTINEL_PRIMARY = set.nodes[1].url }
end

-- Slow to judge as well.
function STARTS.cluster()
  local set = start("cluster", { node_timeout = 60000 })
  for _, node in ipairs(set.nodes) do node.client:close() end
  return { DLOCK_TEST_CLUSTER = set.url }
end

function STARTS.redlock()
  return { DLOCK_TEST_REDLOCK = start("redlock", {}).url }
end

function STARTS.zookeeper()
  return { DLOCK_TEST_ZOOKEEPER = start("zk").url }
end

function STARTS.etcd()
  return { DLOCK_TEST_ETCD = start("etcd").url }
end

function STARTS.consul()
  return { DLOCK_TEST_CONSUL = start("consul").url }
end

function STARTS.postgres()
  local one = start("postgres", { max_connections = 300 })
  return { DLOCK_TEST_POSTGRES = one.url,
    DLOCK_TEST_POSTGRES_SOCKET = one.unix }
end

function STARTS.mysql()
  local one = start("mysql", { max_connections = 300 })
  return { DLOCK_TEST_MYSQL = one.url, DLOCK_TEST_MYSQL_SOCKET = one.unix }
end

--- Starts that server or set of servers; { [variable] = where it is }.
---@param name string
---@return table<string, string>
function shared.start(name)
  local where = STARTS[name]()
  for variable, value in pairs(where) do uv.os_setenv(variable, value) end
  return where
end

--- Whether there is such a server.
---@param name string
function shared.knows(name)
  return STARTS[name] ~= nil
end

--- What that variable says, of a server that is started if need be.
---@param variable string
---@return string
function shared.at(variable)
  local name = variable:match("^DLOCK_TEST_(%u+)"):lower()
  if not os.getenv(variable) and os.getenv("DLOCK_TEST_DIR") and STARTS[name]
  then
    shared.start(name)
  end
  local value = os.getenv(variable)
  if not value or value == "" then
    error(variable .. " is not set: run `make test`", 0)
  end
  return value
end

return shared
