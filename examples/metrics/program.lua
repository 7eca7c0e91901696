-- A program that works under a lock and shows its metrics on a port, with luv.
--   lua examples/metrics/program.lua PORT [URL]
-- curl http://127.0.0.1:PORT/metrics
local dlock = require "dlock"
local uv = require "luv"

local port, url = tonumber(arg[1]), arg[2]
assert(port, "usage: program.lua PORT [URL]")
local store = assert(dlock.open { url = url, host = "luv" })

coroutine.wrap(function()
  while true do
    assert(store:with("work", function() end))
    local me, timer = coroutine.running(), uv.new_timer()
    timer:start(50, 0, function()
      timer:close()
      assert(coroutine.resume(me))
    end)
    coroutine.yield()
  end
end)()

local server = uv.new_tcp()
assert(server:bind("127.0.0.1", port))
assert(server:listen(16, function()
  local client = uv.new_tcp()
  server:accept(client)
  client:read_start(function(_, request)
    if not request then
      client:close()
    elseif request:find "\r\n\r\n" then
      local page = store:stats "prometheus"
      client:write(("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
        .. "Content-Length: %d\r\nConnection: close\r\n\r\n%s"):format(#page,
        page), function() client:close() end)
    end
  end)
end))
uv.run()
