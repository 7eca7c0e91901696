-- What the Consul specs share: stores that are closed behind a case, keys
-- nobody else uses, and the server's own view of the keys.

local consul = require "spec.support.consul"
local opened = require "spec.support.opened"
local shared = require "spec.support.shared"

local common = opened("consul", { url = shared.at("DLOCK_TEST_CONSUL"),
  session_timeout = 4 })

--- The names of contenders (and what else is there) of key.
function common.nodes(key, url)
  return consul.keys(url or common.url, "dlock/" .. key .. "/")
end

return common
