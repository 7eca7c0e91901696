-- What the ZooKeeper specs share: stores that are closed behind a case, keys
-- nobody else uses, the server's own view of the nodes, and every operation of
-- the engine, also those that have no method in Lua.

local core = require "dlock.core"
local engine = require "spec.support.engine"
local host = require "dlock.host"
local loop = require "spec.support.loop"
local opened = require "spec.support.opened"
local process = require "spec.support.process"
local shared = require "spec.support.shared"
local zk = require "spec.support.zk"

local common = opened("zk", { url = shared.at("DLOCK_TEST_ZOOKEEPER"),
  session_timeout = 4 })

--- Paths of ephemeral nodes with `part` in them.
function common.nodes(part, url)
  local found = {}
  for _, paths in pairs(zk.ephemerals(url or common.url)) do
    for _, path in ipairs(paths) do
      if path:find(part, 1, true) then found[#found + 1] = path end
    end
  end
  return found
end

local eventually = common.eventually

function common.eventually(what, fn, timeout)
  return eventually(nil, what, fn, timeout or 10 * loop.patience)
end

function common.queued(key, n, url)
  common.eventually(n .. " nodes", function()
    return #common.nodes(key .. "/", url) >= n
  end)
end

--- Another process; `store` and `key` are there for the script.
function common.peer(script, key, opts)
  opts = opts or {}
  return process.spawn {
    script = ([[
      local dlock = require "dlock"
      local store = assert(dlock.open { url = arg[1], session_timeout = %g })
      local key = arg[2]
    ]]):format(opts.session_timeout or 4) .. script,
    args = { opts.url or common.url, key },
  }
end

local function client_of(lease)
  return core.client(lease)
end

local function wait(client, ticket, message, code)
  if not ticket then return nil, message, code end
  return host.wait(client, ticket, (host.ready(client)))
end

--- The engine of a store, with every operation as a waiting method.
function common.engine(store, key)
  local lease = assert(store:lock((key or common.key()) .. "-engine"))
  local client = client_of(lease)
  lease:release()
  local self = {}
  function self.acquire(k, want, opts)
    opts = opts or {}
    return wait(client, engine.acquire(client.engine, k, {
      units = want[1], cap = want[2], timeout = opts.timeout, ttl = opts.ttl,
      renew = opts.renew, min_hold = opts.min_hold, owner = opts.owner,
      value = opts.value }))
  end
  function self.start(k, want, timeout, ttl)
    return assert(engine.acquire(client.engine, k, { units = want[1],
      cap = want[2], timeout = timeout or 10, ttl = ttl }))
  end
  function self.finish(ticket)
    return wait(client, ticket)
  end
  return setmetatable(self, { __index = function(_, name)
    return function(...)
      return wait(client, client.engine[name](client.engine, ...))
    end
  end })
end

--- guard and downgrade of a lease.
function common.guard(lease, ...)
  return wait(client_of(lease), core.guard(lease, ...))
end

function common.downgrade(lease)
  return wait(client_of(lease), core.downgrade(lease))
end

return common
