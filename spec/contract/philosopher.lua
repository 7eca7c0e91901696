-- Takes two locks together, again and again, as one of many that name them in
-- one order or the other. Prints how many turns it had.
-- usage: philosopher.lua URL1 KEY1 URL2 KEY2 FILE TURNS SECONDS

local core = require "dlock.core"
local dlock = require "dlock"

local path, turns, seconds = arg[5], tonumber(arg[6]), tonumber(arg[7])
io.stdout:setvbuf("line")
local one = assert(dlock.open(arg[1]))
local two = assert(dlock.open(arg[3]))
local both = dlock.all { assert(one:mutex(arg[2])), assert(two:mutex(arg[4])) }

local function add_one()
  local file = assert(io.open(path, "r+"))
  local number = tonumber(file:read(12))
  file:seek("set")
  file:write(("%012d"):format(number + 1))
  file:close()
end

io.read() -- all start together
local begun, count = core.now(), 0
repeat
  local ok, message = both:with({ timeout = 60 }, add_one)
  assert(ok, message)
  count = count + 1
until count >= turns and core.now() - begun >= seconds
one:close()
two:close()
print("done " .. count)
