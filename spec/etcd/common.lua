-- What the etcd specs share: stores that are closed behind a case, keys nobody
-- else uses, and the server's own view of the keys.

local etcd = require "spec.support.etcd"
local opened = require "spec.support.opened"
local shared = require "spec.support.shared"

local common = opened("etcd", { url = shared.at("DLOCK_TEST_ETCD"),
  session_timeout = 4 })

--- The names of contenders (and what else is there) of key.
function common.nodes(key, url)
  return etcd.keys(url or common.url, "/dlock/" .. key .. "/")
end

return common
