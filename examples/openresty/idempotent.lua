-- An idempotent POST: a client that got no answer sends its request again, with
-- the same Idempotency-Key, perhaps while the first one still runs. Both get
-- the same answer, and the order is placed once.
local store = require "locks"

local idempotent = {}

local function place_order()
  ngx.sleep(0.1) -- money moves
  return ("order %d\n"):format(ngx.shared.orders:incr("placed", 1, 0))
end

function idempotent.post()
  local key = ngx.var.http_idempotency_key
  if ngx.req.get_method() ~= "POST" or not key or #key > 200 or key == "" then
    return ngx.exit(400)
  end
  local answers = ngx.shared.orders
  local done, message = store:with("order:" .. key, function(lease)
    local answer = answers:get("answer:" .. key)
    if not answer then
      answer = place_order()
      -- A database would be given lease.fence as well, and refuse a smaller
      -- one than it has seen: then even a request that was asleep past its
      -- lease could do no harm.
      assert(lease:held())
      assert(answers:set("answer:" .. key, answer, 86400))
    end
    ngx.print(answer)
  end)
  if not done then
    ngx.log(ngx.ERR, message)
    ngx.header["Retry-After"] = 1
    return ngx.exit(503)
  end
end

return idempotent
