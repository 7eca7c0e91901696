-- Processes with the file store in them (spec/c/file_tool.c), for specs that
-- need what Lua does not offer: shared holders and permits by their numbers,
-- several processes in one queue, a stopped process inside the store's mutex.
--
--   local tool = require "spec.support.file_tool"
--   local p = tool.start(dir)
--   p:acquire("a", "some key", { timeout = 5 }); p:expect("^a held (%d+)$")

local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

-- s that a busy machine may take for anything.
local PATIENCE = 60

local tool = {}

local built = {}

local function flags()
  local sanitizer = os.getenv("DLOCK_TEST_SANITIZER")
  if sanitizer == "asan" then
    return "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined"
  elseif sanitizer == "tsan" then
    return "-O1 -g -fsanitize=thread"
  end
end

--- The path of a C test program, built if need be; those who run the specs side
--- by side ($DLOCK_TEST_PROGRAMS) build it once.
function tool.program(name)
  if not built[name] then
    local dir = os.getenv("DLOCK_TEST_PROGRAMS")
      or (os.getenv("DLOCK_TEST_DIR") or server.new_dir()) .. "/c"
    local status, out, err = process.run {
      command = { "spec/c/build.sh", dir, name },
      env = { CFLAGS = flags() or false },
      timeout = 120,
    }
    assert(status == 0, (out or "") .. (err or ""))
    built[name] = dir .. "/" .. name
  end
  return built[name]
end

--- Bytes in hex, as the tool takes keys.
function tool.hex(s)
  return (s:gsub(".", function(c)
    return ("%02x"):format(c:byte())
  end))
end

local methods = {}

--- opts: units, cap (0, 0: exclusive), timeout (0: try), min_hold; seconds.
function methods:acquire(id, key, opts)
  opts = opts or {}
  self:send("acquire", id, tool.hex(key), opts.units or 0, opts.cap or 0,
    math.floor((opts.timeout or 0) * 1000),
    math.floor((opts.min_hold or 0) * 1000))
end

--- Acquires at once, and returns the fence.
function methods:hold(id, key, opts)
  self:acquire(id, key, opts)
  local line = self.process:read_line()
  local fence = line and line:match("^" .. id .. " held (%d+)$")
  assert(fence, tostring(line))
  return tonumber(fence)
end

function methods:send(...)
  local words = {}
  for i = 1, select("#", ...) do
    words[i] = tostring((select(i, ...)))
  end
  self.process:write(table.concat(words, " ") .. "\n")
end

--- Sends, and returns the next line.
function methods:ask(...)
  self:send(...)
  return assert(self.process:read_line())
end

function methods:locked(key)
  return self:ask("locked", tool.hex(key)) == "locked ok true"
end

--- Waits until the queue of the key is that long, as this process sees it.
function methods:wait_queue(key, length)
  local give_up = uv.hrtime() + PATIENCE * 1e9
  while uv.hrtime() < give_up do
    local line = self:ask("inspect", tool.hex(key))
    local waiters = line:match("waiters={(.*)}}$") or ""
    local n = select(2, waiters:gsub("owner=", ""))
    if n == length then
      return
    end
    uv.sleep(1)
  end
  error("the queue of " .. key .. " did not get " .. length .. " long")
end

function methods:read_line(timeout)
  return self.process:read_line(timeout)
end

function methods:expect(pattern, timeout)
  return self.process:expect(pattern, timeout)
end

--- Stops it where it has no mutex. A signal would do so anywhere: the sweep of
--- the directory takes them when nobody asked for anything.
function methods:stop()
  self:send("stop")
  self:expect("^stop now")
end

function methods:kill()
  self.process:kill()
  self.process:wait()
end

methods.__index = methods

--- Starts one on a directory; before: words in front of the command that runs
--- it. It has said "- ready".
function tool.start(dir, env, before)
  local command = {}
  for i, word in ipairs(before or {}) do
    command[i] = word
  end
  command[#command + 1] = tool.program "file_tool"
  command[#command + 1] = dir
  local p = process.spawn { command = command, env = env or {} }
  local self = setmetatable({ process = p, pid = p.pid }, methods)
  assert(p:read_line(60) == "- ready")
  return self
end

return tool
