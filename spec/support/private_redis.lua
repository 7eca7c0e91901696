-- A private Redis for all cases of a describe, with a connection to look into
-- it: there before the first case, ended after the last one.
--
--   describe("…", function()
--     local private, admin
--     private_redis(function(...) private, admin = ... end)

local busted = require "busted"
local redis = require "spec.support.redis"

--- ready(server, admin): is given both when they are there.
---@param ready function
return function(ready)
  local private, admin

  busted.setup(function()
    private = redis.start()
    admin = private:connect()
    ready(private, admin)
  end)

  busted.teardown(function()
    admin:close()
    private:stop()
  end)
end
