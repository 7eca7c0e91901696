-- Uncontended pairs (acquire, release) on ZooKeeper, one after the other.
--   lua bench/zookeeper.lua host:port pairs      prints pairs per second
local dlock = require "dlock"

local function seconds()
  local file = assert(io.open("/proc/uptime"))
  local text = file:read("*l")
  file:close()
  return tonumber(text:match("^%S+"))
end

local address, pairs_wanted = arg[1], tonumber(arg[2])
if not address or not pairs_wanted then
  io.stderr:write("usage: zookeeper.lua host:port pairs\n")
  os.exit(2)
end

local store = assert(dlock.open("zookeeper://" .. address))
local mutex = store:mutex("bench")

local function run(count)
  for _ = 1, count do
    assert(assert(mutex:acquire()):release())
  end
end

run(math.ceil(pairs_wanted / 10))
local start = seconds()
run(pairs_wanted)
local spent = seconds() - start
print(("%.1f"):format(pairs_wanted / spent))
store:close()
