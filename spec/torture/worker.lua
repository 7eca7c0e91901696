-- One process of the torture: takes locks of all kinds on a few keys, and
-- writes down when it believed in them (spec/torture/records.lua). It may be
-- stopped or killed at any moment. It ends by itself at a given time.
-- usage: worker.lua NAME=VALUE…
--   dir        where the records, the register and detached leases are
--   name       of the records; seed: of what it does
--   url, host  of the store; ttl, session_timeout, io_timeout
--   ends       when to end, as core.now() counts
--   portable   1: a lease may be attached by another process
--   plain      1: the store has neither readers nor permits
--   twice      how often (0 to 1) a detached string is given to two others
--   believe    how many seconds to go on believing in a lease that is lost: a
--              mistake to show that the checker sees one

local core = require "dlock.core"
local dlock = require "dlock"
local random = require "spec.sim.random"
local records = require "spec.torture.records"
local turns = require "spec.torture.turns"
local uv = require "luv"

local COROUTINES = 3 -- in an event loop

local args = {}
for _, word in ipairs(arg) do
  local name, value = word:match("^([%w_]+)=(.*)$")
  args[name] = tonumber(value) or value
end

-- Some leases are left to the collector (turns.lua): that is no problem.
local function on_event(event)
  if event.kind == "callback" then
    io.stderr:write(args.name, ": ", event.message, "\n")
  end
end

local function open()
  return assert(dlock.open { url = args.url, ttl = args.ttl,
    host = args.host, io_timeout = args.io_timeout, connect_timeout = 1,
    session_timeout = args.session_timeout, name = args.name,
    on_event = on_event })
end

-- Lets at least that many ms pass; in an event loop others run meanwhile.
local function pause(ms)
  if args.host == "blocking" then
    uv.sleep(ms)
    return
  end
  local me, timer = coroutine.running(), uv.new_timer()
  timer:start(ms, 0, function()
    timer:close()
    assert(coroutine.resume(me))
  end)
  coroutine.yield()
end

-- Calls fn after so many ms, in an event loop; nothing elsewhere.
local function later(ms, fn)
  if args.host == "blocking" then
    return
  end
  local timer = uv.new_timer()
  timer:start(ms, 0, function()
    timer:close()
    fn()
  end)
end

local function new_context()
  local written = records.create(args.dir, args.name)
  local register = assert(io.open(args.dir .. "/register", "ab"))
  register:setvbuf("no")
  return { args = args, now = core.now, pause = pause, later = later,
    random = random.new(args.seed), store = open(),
    holds = written.holds, calls = written.calls, register = register,
    mail = args.dir .. "/mail", counter = 0 }
end

-- Errors of a coroutine would vanish in the loop.
local function guarded(fn, ...)
  local ok, err = xpcall(fn, debug.traceback, ...)
  if not ok then
    io.stderr:write(args.name, ": ", tostring(err), "\n")
    os.exit(70)
  end
end

local function work(context)
  local doing = turns.new(context)
  while core.now() < args.ends do
    doing:turn()
  end
end

local context = new_context()
local function every()
  guarded(work, context)
end

if args.host == "blocking" then
  every()
else
  for _ = 1, COROUTINES do
    coroutine.wrap(every)()
  end
  while uv.loop_alive() do
    uv.run("once")
  end
end
context.store:close(3)
print("done")
