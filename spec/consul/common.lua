-- What the Consul specs share: stores that are closed behind a case, keys
-- nobody else uses, and the server's own view of the keys.

local consul = require "spec.support.consul"
local loop = require "spec.support.loop"
local opened = require "spec.support.opened"
local shared = require "spec.support.shared"
local uv = require "luv"

local common = opened("consul", { url = shared.at("DLOCK_TEST_CONSUL"),
  session_timeout = 4 })

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
