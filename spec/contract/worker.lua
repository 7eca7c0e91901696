-- One of many processes that add 1 to a number in a file, without any other
-- protection than the lock. Prints a line for every turn: the number it wrote,
-- its fence, when it came in and when it was about to leave.
-- usage: worker.lua URL KEY FILE TURNS [unlocked | dies | unfair]
-- unfair: in four coroutines, which may hand the lock to each other.

local core = require "dlock.core"
local dlock = require "dlock"

local url, key, path, how = arg[1], arg[2], arg[3], arg[5]
local turns = tonumber(arg[4])
local DIES_AT = 3 -- which turn
io.stdout:setvbuf("line")
-- Whoever dies is not to be waited for, and the others may stand still.
local store = assert(dlock.open { url = url,
  session_timeout = how == "dies" and 2 or 10,
  host = how == "unfair" and "luv" or nil })

local function spin(seconds)
  local until_ = core.now() + seconds
  repeat until core.now() >= until_
end

local function turn(i, fence)
  local came = core.now()
  local file = assert(io.open(path, "r+"))
  local number = tonumber(file:read(12))
  if how == "dies" and i == DIES_AT then
    print("holding")
    spin(60)
  end
  spin(how == "unlocked" and 0.005 or 0.0005)
  file:seek("set")
  file:write(("%012d"):format(number + 1))
  file:close() -- one write
  print(("turn %d %d %.9f %.9f"):format(number + 1, fence, came, core.now()))
end

local function unfair()
  local uv = require "luv"
  local mutex, left = store:mutex(key,
    { fair = false, local_handoffs = 4, timeout = 60 }), turns
  for _ = 1, 4 do
    coroutine.wrap(function()
      while left > 0 do
        left = left - 1
        local lease = assert(mutex:acquire())
        turn(0, lease.fence)
        assert(lease:release())
      end
    end)()
  end
  while uv.loop_alive() do uv.run("once") end
  turns = 0
end

print("ready")
io.read() -- all start together
if how == "unfair" then unfair() end
for i = 1, turns do
  if how == "unlocked" then
    turn(i, 0)
  else
    local lease = assert(store:lock(key, { timeout = 60,
      ttl = how == "dies" and i == DIES_AT and 1 or nil }))
    turn(i, lease.fence)
    assert(lease:release())
  end
end
store:close()
print("done")
