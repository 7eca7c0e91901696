-- The workers of bench/crowd.lua as handlers of one nginx (bench/peer_nginx
-- stands for each of them there): the same loop, clocks and lines as
-- bench/peer.py. A handler gives up the processor while it holds the lock and
-- after it released it, as requests do.

local ffi = require "ffi"

ffi.cdef [[
  struct turns_time { long s, us; };
  struct turns_ns { long s, ns; };
  struct turns_usage { struct turns_time user, system; long rest[14]; };
  int getrusage(int, struct turns_usage *);
  int clock_gettime(int, struct turns_ns *);
]]

local turns = { handlers = 0 }

local made = ffi.new "struct turns_ns"
local function now()
  ffi.C.clock_gettime(1, made)
  return tonumber(made.s) * 1e9 + tonumber(made.ns)
end

-- Processor time of this nginx worker (us), and how often it went to sleep.
local function usage()
  local is = ffi.new "struct turns_usage"
  ffi.C.getrusage(0, is)
  return { tonumber(is.user.s) * 1e6 + tonumber(is.user.us),
    tonumber(is.system.s) * 1e6 + tonumber(is.system.us),
    tonumber(is.rest[12]) }
end

local locks = {}

function locks.dlock(store)
  local mutex = store:mutex("turns", { timeout = 60 })
  return function() return assert(mutex:acquire()) end,
    function(lease) assert(lease:release()) end
end

local RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then"
  .. " return redis.call('del', KEYS[1]) end return 0"

--- On lua-nginx-redis (lua-resty-redis): SET NX PX every 10 ms.
function locks.by_hand(port)
  local redis, number = require "nginx.redis", 0
  local function connected()
    local r = redis:new()
    r:set_timeout(2000)
    assert(r:connect("127.0.0.1", port))
    return r
  end
  return function()
    local r = connected()
    number = number + 1
    local token = ngx.worker.pid() .. ":" .. number
    while r:set("by_hand", token, "NX", "PX", 30000) ~= "OK" do
      ngx.sleep(0.01)
    end
    r:set_keepalive(10000, 100)
    return token
  end, function(token)
    local r = connected()
    assert(r:eval(RELEASE, 1, "by_hand", token) == 1)
    r:set_keepalive(10000, 100)
  end
end

--- As the documentation of lua-resty-lock says that it works, with its usual
--- options: exptime 30, step 0.001, ratio 2, max_step 0.5.
function locks.shared_dict(dict)
  return function()
    local step = 0.001
    while not dict:add("turns", true, 30) do
      ngx.sleep(step)
      step = math.min(step * 2, 0.5)
    end
  end, function() dict:delete "turns" end
end

turns.locks = locks

-- Pairs until the time is over: how many, and their lines.
local function go_on(acquire, release, stop)
  local count, lines, in_time = 0, {}, true
  while in_time do
    local lease = acquire()
    local came = now()
    count = count + 1
    in_time = came < stop
    if in_time then
      ngx.sleep(0)
      lines[count] = ("%.0f %.0f\n"):format(came, now())
    end
    release(lease)
    ngx.sleep(0)
  end
  return count, lines
end

--- Serves one of them; at most so many in this nginx worker. Its processor time
--- is told by the last handler.
function turns.serve(most, acquire, release)
  local socket = assert(ngx.req.socket(true))
  if turns.handlers == most then return end
  turns.handlers = turns.handlers + 1
  socket:settimeout(60000)
  assert(socket:send "ready\n")
  local stop = tonumber(assert(socket:receive()))
  turns.before = turns.before or usage()
  local start = now()
  local count, lines = go_on(acquire, release, stop)
  local took, used = now() - start, { 0, 0, 0 }
  turns.handlers = turns.handlers - 1
  if turns.handlers == 0 then
    for i, value in ipairs(usage()) do used[i] = value - turns.before[i] end
    turns.before = nil
  end
  lines[#lines + 1] = ("done %d %.0f %.0f %.0f %d\n"):format(count, took,
    used[1], used[2], used[3])
  assert(socket:send(lines))
end

return turns
