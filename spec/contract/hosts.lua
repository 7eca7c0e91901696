-- The hosts that the contract is run in. Each runs a case to its end in its own
-- way, and has what a case needs and a host does differently:
--   run(fn)              runs the case; its error is raised
--   sleep(seconds)       while which the host does other things
--   later(seconds, fn)   calls fn after that time, and again and again, so that
--                        it does not come too early, until the function that it
--                        returns is called
--   wrap(fn)             coroutine.wrap for a function that waits, and yields
--                        nothing else unless `nests`
--   option               dlock.open's host
--   blocks               nothing else runs while one waits; debug hooks do
--   nests                coroutines in coroutines, as many as one likes
-- There is no cqueues for Lua 5.5.
local has_cqueues = _VERSION ~= "Lua 5.5"
local cqueues = has_cqueues and require "cqueues" or {}
local auxlib = has_cqueues and require "cqueues.auxlib" or {}
local condition = has_cqueues and require "cqueues.condition" or {}
local loop = require "spec.support.loop"
local protect = require "dlock.protect"
local uv = require "luv"

local LONGEST = 60 -- seconds for a case

local function pack(...)
  return { n = select("#", ...), ... }
end

local unpack = table.unpack or unpack

-- ---- plain Lua ----

local blocking = {
  name = "blocking", option = "auto", blocks = true, nests = true,
  wrap = coroutine.wrap,
}

function blocking.run(fn)
  fn()
end

function blocking.sleep(seconds)
  uv.sleep(math.ceil(seconds * 1000))
end

--- From a debug hook, as a signal handler would, at the first Lua code after
--- that time.
function blocking.later(seconds, fn)
  local at = uv.hrtime() + seconds * 1e9
  debug.sethook(function()
    if uv.hrtime() >= at then
      at = at + seconds * 1e9
      fn()
    end
  end, "", 1)
  return debug.sethook
end

-- ---- cqueues ----

local on_cqueues = {
  name = "cqueues", option = "auto", nests = true,
  wrap = auxlib.wrap, sleep = cqueues.sleep,
}

function on_cqueues.run(fn)
  local queue = cqueues.new()
  queue:wrap(fn)
  local ok, problem, _, co = queue:loop(LONGEST)
  if not ok then
    error(co and debug.traceback(co, tostring(problem)) or problem, 0)
  end
  assert(queue:empty(), "the case does not end")
end

function on_cqueues.later(seconds, fn)
  local stop, stopped = condition.new(), false
  cqueues.running():wrap(function()
    while not stopped and not stop:wait(seconds) do fn() end
  end)
  return function()
    stopped = true
    stop:signal()
  end
end

-- ---- luv ----

local on_luv = { name = "luv", option = "luv" }

-- By coroutine: it waits for a turn of the loop ("once" or "nowait"), and not
-- for the host of dlock to resume it.
local turning = setmetatable({}, { __mode = "k" })

local function turn(mode)
  local co = protect.owner()
  turning[co] = mode
  coroutine.yield()
  turning[co] = nil
end

-- Only the code that knows that the coroutine may go on resumes it, so that a
-- missing wakeup is noticed. results[1]: whether it went well.
local function start(fn, ...)
  local results = {}
  local co = coroutine.create(function(...)
    local got = pack(protect.call(fn, ...))
    for i = 1, got.n do results[i] = got[i] end
    results.n = got.n
  end)
  assert(coroutine.resume(co, ...))
  return co, results
end

local function step(co)
  if turning[co] then
    assert(coroutine.resume(co))
  end
end

local function finish(results)
  if not results[1] then
    error(results[2], 0)
  end
  return unpack(results, 2, results.n)
end

function on_luv.run(fn)
  local late, timer = false, uv.new_timer()
  uv.update_time() -- the loop may not have run for long
  timer:start(LONGEST * 1000, 0, function() late = true end)
  loop.turn = turn
  local co, results = start(fn)
  while not results.n and not late do
    loop.run_once(turning[co] or "once")
    step(co)
  end
  loop.turn = loop.run_once
  loop.close(timer)
  assert(not late, "the case does not end")
  finish(results)
end

function on_luv.sleep(seconds)
  loop.wait(seconds, function() return false end)
end

-- libuv's clock has whole milliseconds: a timer may be due one too early.
function on_luv.later(seconds, fn)
  local timer, ms = uv.new_timer(), math.ceil(seconds * 1000) + 1
  uv.update_time()
  timer:start(ms, ms, function() coroutine.wrap(fn)() end)
  return function() timer:close() end
end

function on_luv.wrap(fn)
  return function(...)
    local co, results = start(fn, ...)
    while not results.n do
      turn(turning[co] or "once")
      step(co)
    end
    return finish(results)
  end
end

return has_cqueues and { blocking, on_cqueues, on_luv } or { blocking, on_luv }
