-- Counts what this process holds: threads and descriptors, so that a spec can
-- say that nothing was left behind.
--
--   local before = leaks.snapshot()
--   …
--   assert.same({}, leaks.since(before))

local uv = require "luv"
local loop = require "spec.support.loop"
local server = require "spec.support.server"

local leaks = {}

local function names(dir)
  local list, scan = {}, uv.fs_scandir(dir)
  while scan do
    local name = uv.fs_scandir_next(scan)
    if not name then
      break
    end
    list[#list + 1] = name
  end
  return list
end

--- Open descriptors: { [number] = what it is }, but for those that keep ports
--- for specs.
function leaks.fds()
  local fds = {}
  for _, name in ipairs(names("/proc/self/fd")) do
    -- The scan's own descriptor is gone by now and has no link to read.
    fds[tonumber(name)] = not server.port_fds[tonumber(name)]
      and uv.fs_readlink("/proc/self/fd/" .. name) or nil
  end
  return fds
end

local CLOSED_ON_EXEC = 524288 -- O_CLOEXEC, octal 2000000

--- Of the descriptors that are not in `before` (a snapshot) those that a
--- program started now would inherit, as descriptions.
function leaks.inherited(before)
  local list = {}
  for fd, what in pairs(leaks.fds()) do
    local file = before.fds[fd] ~= what
      and io.open("/proc/self/fdinfo/" .. fd)
    if file then
      local flags = tonumber(file:read("*a"):match("flags:%s*(%d+)"), 8)
      file:close()
      if math.floor(flags / CLOSED_ON_EXEC) % 2 == 0 then
        list[#list + 1] = what
      end
    end
  end
  return list
end

--- Threads: { [id] = name }.
function leaks.threads()
  local threads = {}
  for _, id in ipairs(names("/proc/self/task")) do
    local file = io.open("/proc/self/task/" .. id .. "/comm")
    if file then
      threads[tonumber(id)] = file:read("*l")
      file:close()
    end
  end
  return threads
end

--- What there is now, for leaks.since.
function leaks.snapshot()
  return { fds = leaks.fds(), threads = leaks.threads() }
end

local function new_ones(before)
  local list = {}
  for fd, what in pairs(leaks.fds()) do
    -- A number may have been closed and given to something else.
    if before.fds[fd] ~= what then
      list[#list + 1] = ("fd %d: %s"):format(fd, what)
    end
  end
  for id, name in pairs(leaks.threads()) do
    if not before.threads[id] then
      list[#list + 1] = ("thread %d: %s"):format(id, name)
    end
  end
  table.sort(list)
  return list
end

--- What there is now and was not in `before`, as an array of descriptions;
--- empty is good. A thread that was joined is still listed for an instant, so
--- what is there is given `timeout` (1) seconds to go.
function leaks.since(before, timeout)
  local list = new_ones(before)
  if #list > 0 then
    local again = uv.new_timer()
    again:start(5, 5, function() end)
    loop.wait(timeout or 1, function()
      list = new_ones(before)
      return #list == 0
    end)
    loop.close(again)
    list = new_ones(before)
  end
  return list
end

return leaks
