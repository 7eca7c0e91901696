-- What every case of the contract is handed: stores and other processes that
-- are closed behind it, keys nobody else uses, and waiting for things to happen
-- outside of dlock.

local dlock = require "dlock"
local hosts = require "spec.contract.hosts"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local protect = require "dlock.protect"
local uv = require "luv"

local context = {}
context.__index = context

local RUN = ("ct%d"):format(uv.os_getpid())

-- Of each one connection leads to the server, so a proxy may stand between.
local ON_NETWORK = { redis = true, zookeeper = true, etcd = true, consul = true,
  postgres = true, mysql = true }

local SESSION = 10 -- seconds: longer than a machine stands still

--- host: where it is run, by default in plain Lua.
function context.new(subject, host)
  host = host or hosts[1]
  local self = { subject = subject, host = host, count = 0, stores = {},
    peers = {} }
  self.on_network = ON_NETWORK[subject.name]
  subject.url() -- its server starts now
  self.prefix = RUN .. subject.name:gsub("%W", "") .. host.name
  return setmetatable(self, context)
end

--- A store of this subject, closed after the case.
function context:open(opts)
  local all = { url = self.subject.url(), session_timeout = SESSION,
    host = self.host.option }
  local more = not (opts and opts.url) and self.subject.options or {}
  for name, value in pairs(more) do all[name] = value end
  for name, value in pairs(opts or {}) do all[name] = value end
  local store = assert(dlock.open(all))
  self.stores[#self.stores + 1] = store
  return store
end

local PATHS = { zookeeper = true, ["zookeeper-user"] = true, etcd = true,
  consul = true }

--- The prefix of a store that is given none.
function context:default_prefix()
  local name = self.subject.name
  return (name == "file" or name == "postgres" or name == "mysql") and ""
    or PATHS[name] and "/dlock" or "dlock:"
end

--- A key that nobody used before.
function context:key()
  self.count = self.count + 1
  return ("%sn%d"):format(self.prefix, self.count)
end

function context:sleep(seconds)
  self.host.sleep(seconds)
end

--- As the host does it: see hosts.lua.
function context:later(seconds, fn)
  return self.host.later(seconds, fn)
end

function context:wrap(fn)
  return self.host.wrap(fn)
end

--- For functions that wait: on 5.1 no coroutine can wait inside of a pcall.
function context:pcall(...)
  return protect.call(...)
end

function context:now()
  return uv.hrtime() / 1e9
end

--- Asks until fn() says yes; fails after `timeout` seconds (10, see
--- loop.patience).
function context:eventually(what, fn, timeout)
  local deadline = self:now() + (timeout or 10 * loop.patience)
  repeat
    local result = fn()
    if result then
      return result
    end
    self:sleep(0.01)
  until self:now() > deadline
  error("never came true: " .. what, 2)
end

--- Returns when n processes wait in the queue of key. A crowd takes a store
--- that writes to a disk for each a while: 10 s for every hundred.
function context:queued(key, n)
  self:eventually(n .. " waiters", function()
    return self.subject.waiters(key) >= n
  end, 10 * math.max(1, n / 100) * loop.patience)
end

--- Returns when the store has noticed its n-th loss (1): its callbacks are due,
--- at the next call that may wait. Calls none of them.
function context:has_lost(store, n)
  local _, client = next(store)
  self:eventually("the event of a loss", function()
    return store:stats().lost >= (n or 1) and client.engine:has_events()
  end)
end

--- The message and code of wait(timeout), which is not to get what it waits
--- for. Who it is that holds it, `owner`, the server has to say before the time
--- is over, and may be slow just now: so it has longer each time.
function context:in_vain(owner, wait)
  local timeout = 0.1
  local message, code
  repeat
    local got
    got, message, code = wait(timeout)
    assert(not got, "it was free")
    timeout = timeout * 4
  until message:find(owner, 1, true) or timeout > 10
  return message, code
end

--- Tries to get what is kept for `seconds` after `start`. If they are not over
--- when the answer is there it has to be busy; a slow machine may be too late.
function context:is_kept(lockable, start, seconds)
  local lease, message, code = lockable:try_acquire()
  if self:now() - start < seconds then
    assert(code == "busy", message or "it was free")
  elseif lease then
    lease:release()
  end
end

local peer = {}
peer.__index = peer

--- Another process with a store of its own. session: a short one, in seconds,
--- for a peer that is to be killed while it holds or waits.
function context:peer(session)
  local options = self.subject.options or {}
  local child = process.spawn {
    file = "spec/contract/peer.lua",
    args = { self.subject.url(), session or SESSION,
      options.sentinel_username, options.sentinel_password },
  }
  local self_ = setmetatable({ process = child, pid = child.pid }, peer)
  self.peers[#self.peers + 1] = self_
  return self_
end

--- Sends a line of Lua (with string.format's arguments) and does not wait.
function peer:start(code, ...)
  if select("#", ...) > 0 then
    code = code:format(...)
  end
  self.process:write(code .. "\n")
end

--- The results of the line sent last, as strings.
function peer:finish(timeout)
  local line = assert(self.process:read_line(timeout or 20))
  local results = {}
  for part in (line .. "\t"):gmatch("([^\t]*)\t") do
    results[#results + 1] = part
  end
  if results[1] ~= "ok" then
    error("in the peer: " .. tostring(results[2]), 2)
  end
  return (table.unpack or unpack)(results, 2)
end

function peer:run(code, ...)
  self:start(code, ...)
  return self:finish()
end

function peer:kill()
  self.process:kill("sigkill")
  self.process:wait()
end

--- Ends the case: nothing may be left on the server once all are closed.
function context:clean_up()
  for _, one in ipairs(self.peers) do one.process:close() end
  for _, store in ipairs(self.stores) do store:close(2) end
  self.stores, self.peers = {}, {}
  collectgarbage()
  collectgarbage()
end

--- After a killed holder things stay until they expire: says so, and waits.
function context:expect_nothing_left(timeout)
  local left
  local ok = self:pcall(self.eventually, self, "nothing left", function()
    left = self.subject.leftovers(self.prefix .. "n" .. self.count)
    return #left == 0
  end, timeout or self.subject.stays or 2)
  if not ok then
    error("left on the server: " .. table.concat(left, ", "), 2)
  end
end

return context
