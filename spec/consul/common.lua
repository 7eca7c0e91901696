-- What the Consul specs share: stores that are closed behind a case, keys
-- nobody else uses, and the server's own view of the keys.

local consul = require "spec.support.consul"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local uv = require "luv"

local common = { url = os.getenv("DLOCK_TEST_CONSUL") }

local count, stores = 0, {}

function common.key()
  count = count + 1
  return ("consul%d-%d"):format(uv.os_getpid(), count)
end

function common.open(opts)
  local all = { url = common.url, session_timeout = 4 }
  for name, value in pairs(opts or {}) do all[name] = value end
  local store = assert(dlock.open(all))
  stores[#stores + 1] = store
  return store
end

function common.clean_up()
  for _, store in ipairs(stores) do store:close() end
  stores = {}
  process.close_all()
end

--- The names of contenders (and what else is there) of key.
function common.nodes(key, url)
  return consul.keys(url or common.url, "dlock/" .. key .. "/")
end

function common.now()
  return uv.hrtime() / 1e9
end

--- Waits until fn() says so, while the store's engine works.
function common.eventually(store, what, fn, timeout)
  local deadline = common.now() + (timeout or 60 * loop.patience)
  repeat
    store:mutex("nobody"):locked()
    local result = fn()
    if result then return result end
    uv.sleep(10)
  until common.now() > deadline
  error("never came true: " .. what, 2)
end

return common
