-- A slow upstream that can serve three requests at a time. The permit is taken
-- in the access phase and ends with the request, whatever becomes of it: the
-- end, an error, a client that goes away.
local store = require "locks"

local limited = {}

local PERMITS, PATIENCE = 3, 10

function limited.enter()
  local permits = store:semaphore("upstream", PERMITS)
  local lease, message, code = permits:acquire { timeout = PATIENCE }
  if not lease then
    ngx.log(ngx.WARN, message)
    ngx.header["Retry-After"] = PATIENCE
    return ngx.exit(code == "timeout" and 429 or 503)
  end
end

-- Stands for the upstream. It counts who is inside.
function limited.slow()
  local cache = ngx.shared.cache
  local inside = cache:incr("inside", 1, 0)
  ngx.sleep(0.1)
  cache:incr("inside", -1)
  ngx.say("with ", inside, " inside")
end

return limited
