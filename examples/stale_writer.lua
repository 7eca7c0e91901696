-- Why a lock is not enough, and what the fence is for. The first holder loses
-- its lock without noticing, as if its machine had been suspended; when it
-- wakes up and writes, the store of the data refuses.
--
--   lua examples/stale_writer.lua [URL]

local dlock = require "dlock"

local store = assert(arg[1] and dlock.open(arg[1]) or dlock.open())

-- The protected resource. In production: UPDATE … SET value = ?, fence = ?
-- WHERE fence <= ?, in one transaction.
local account = { value = 0, fence = 0 }

local function write(fence, value)
  if fence < account.fence then
    return nil, ("fence %d is older than %d"):format(fence, account.fence)
  end
  account.value, account.fence = value, fence
  return true
end

local first = assert(store:lock("account:7", { ttl = 0.2, renew = false }))
assert(write(first.fence, 1))
first:wait_lost() -- the pause

local second = assert(store:lock("account:7"))
assert(write(second.fence, 2))

print("late write by the first holder:", write(first.fence, 1))
print("the value is still", account.value)
assert(account.value == 2)
second:release()
store:close()
