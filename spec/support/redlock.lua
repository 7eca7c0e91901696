-- Independent Redis servers on free loopback ports, for specs of Redlock.
--
--   local set = redlock.start { max_ttl = 1 }   -- five that keep each write
--   set.url                                     -- redlock://…
--   set.nodes[1]:kill()                         -- as redis.start gives it
--   set:each(function(client, i) … end); set:stop()

local redis = require "spec.support.redis"

local redlock = {}
local set = {}
set.__index = set

local KEEPS = { appendonly = "yes", appendfsync = "always" }

--- count: 5; config: redis.conf settings, in place of those that keep each
--- write; new_dir(name): where a server's files are; env(i): more environment.
function redlock.start(opts)
  opts = opts or {}
  local self, hosts = setmetatable({ nodes = {} }, set), {}
  for i = 1, opts.count or 5 do
    local dir = opts.new_dir and opts.new_dir("redlock-" .. i)
    self.nodes[i] = redis.start(opts.config or KEEPS, dir,
      opts.env and opts.env(i))
    hosts[i] = "127.0.0.1:" .. self.nodes[i].port
  end
  self.url = "redlock://" .. table.concat(hosts, ",")
  return self
end

--- fn(client, i) on a connection to each node that answers.
function set:each(fn)
  for i, node in ipairs(self.nodes) do
    local client = node:connect()
    if client then
      fn(client, i)
      client:close()
    end
  end
end

--- On how many nodes the key is held.
function set:votes(key)
  local held = 0
  self:each(function(client)
    held = held + client:call("EXISTS", "dlock:" .. key)
  end)
  return held
end

--- Sets the nodes' counters of the key apart, where they have one.
function set:spread(key, by)
  self:each(function(client, i)
    local name = client:call("KEYS", "~dlock:*:v:dlock:" .. key)[1]
    if name then client:call("HINCRBY", name, "fence", by * i) end
  end)
end

function set:stop()
  for _, node in ipairs(self.nodes) do node:stop() end
end

return redlock
