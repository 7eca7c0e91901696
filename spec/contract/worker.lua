-- One of many processes that add 1 to a number in a file, without any other
-- protection than the lock. Prints a line for every turn: the number it wrote,
-- its fence, when it came in and when it was about to leave.
-- usage: worker.lua URL KEY FILE TURNS [unlocked | dies]

local core = require "dlock.core"
local dlock = require "dlock"

local url, key, path, turns, how = arg[1], arg[2], arg[3], arg[4], arg[5]
io.stdout:setvbuf("line")
local store = assert(dlock.open { url = url, session_timeout = 2 })

local function spin(seconds)
  local until_ = core.now() + seconds
  repeat until core.now() >= until_
end

local function turn(i, fence)
  local came = core.now()
  local file = assert(io.open(path, "r+"))
  local number = tonumber(file:read(12))
  if how == "dies" and i == 3 then
    print("holding")
    spin(60)
  end
  spin(0.0005)
  file:seek("set")
  file:write(("%012d"):format(number + 1))
  file:close() -- one write
  print(("turn %d %d %.9f %.9f"):format(number + 1, fence, came, core.now()))
end

io.read() -- all start together
for i = 1, tonumber(turns) do
  if how == "unlocked" then
    turn(i, 0)
  else
    local lease = assert(store:lock(key, { ttl = 1, timeout = 60 }))
    turn(i, lease.fence)
    assert(lease:release())
  end
end
store:close()
print("done")
