-- Takes a lock on a Redis that is spoken to with TLS, and that wants to see a
-- certificate of ours.
-- usage: lua5.4 examples/tls/lock.lua URL DIRECTORY
--   DIRECTORY has ca.crt (who is trusted), client.crt and client.key
local dlock = require "dlock"

local url, dir = assert(arg[1], "a URL"), assert(arg[2], "a directory")
local store = assert(dlock.open { url = url, tls = {
  cafile = dir .. "/ca.crt",
  cert = dir .. "/client.crt", key = dir .. "/client.key",
} })
assert(store:with("job", function(lease)
  print("locked over TLS, fence " .. lease.fence)
end))

-- Without our certificate the server refuses us, and without its CA we refuse
-- the server; both say what to do.
for _, tls in ipairs { { cafile = dir .. "/ca.crt" }, {} } do
  local other = assert(dlock.open { url = url, tls = tls })
  print(select(2, other:ping()))
  other:close()
end
store:close()
