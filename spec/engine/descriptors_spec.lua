-- A process that may open no more descriptors, or only some: whatever is
-- called says so, and all goes on once there are enough again.

local context = require "spec.contract.context"
local dlock = require "dlock"
local library = require "spec.support.library"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"
local uv = require "luv"

local MOST = 20
-- Of a request. Under ThreadSanitizer all programs at once make a database so
-- slow that nobody gets a connection within less.
local TIME = os.getenv("DLOCK_TEST_SANITIZER") == "tsan" and 1 or 0.3

-- leave() leaves as many to be opened as $LEAVE says; all() the usual number.
-- The limit counts numbers, not open files, so gaps are counted.
local SOURCE = [[
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

static struct rlimit usual;

int leave(void *lua) {
  struct rlimit limit;
  int left = atoi(getenv("LEAVE")), fd = 0;
  (void)lua;
  getrlimit(RLIMIT_NOFILE, &usual);
  for (limit = usual; left >= 0; fd++)
    if (fcntl(fd, F_GETFD) < 0 && left-- == 0)
      limit.rlim_cur = fd;
  return setrlimit(RLIMIT_NOFILE, &limit), 0;
}

int all(void *lua) {
  (void)lua;
  return setrlimit(RLIMIT_NOFILE, &usual), 0;
}
]]

local SCRIPT = [[
  local url, key, library, plain = arg[1], arg[2], arg[3], arg[4] == "plain"
  local dlock = require "dlock"
  local calls = require "spec.support.calls"
  local leave = assert(package.loadlib(library, "leave"))
  local all = assert(package.loadlib(library, "all"))

  -- A session outlives all calls that are made in vain, one after the other.
  local time = tonumber(os.getenv("TIME"))
  local function open()
    return assert(dlock.open { url = url, session_timeout = 6, ttl = 5,
      timeout = time, io_timeout = time, connect_timeout = time })
  end

  local CALLS = calls.new(dlock, key, plain)

  -- What an earlier call left to the background may still hold the key.
  local function held(expected, code)
    return expected and (code == "timeout" or code == "busy")
  end

  local function check(name, expected, fn, ...)
    local value, message, code = fn(...)
    if not value and code ~= expected and not held(expected, code) then
      print(name, tostring(value), tostring(message))
    end
    return value
  end

  -- What was asked in vain may go on for a while; a busy server is slow.
  local function works(name, fn, ...)
    local limit = os.time() + 10
    local value, message
    repeat
      value, message = fn(...)
    until value or os.time() > limit
    if not value then print(name .. " afterwards", tostring(message)) end
  end

  -- Under the limit it works or is unavailable; without it, it works.
  local function try(one, ...)
    leave()
    check(one.name, "unavailable", one.run, ...)
    all()
    works(one.name, one.run, ...)
  end

  leave()
  check("open", "unavailable", dlock.open, { url = url })
  all()

  -- The first request of a process first, and then the first one of a store.
  local few = tonumber(os.getenv("LEAVE"))
  for i = 0, 1 do
    local store = open()
    if few == 0 then
      leave()
      local _, message = store:ping()
      all()
      assert(message:find("too many open files; this process may open %d+"))
    end
    try(CALLS[(2 * few + i) % #CALLS + 1], store)
    assert(store:close(5))
  end

  local store, other = open(), open()
  works("ping", store.ping, store)
  for _, one in ipairs(CALLS) do try(one, store) end
  local lease = assert(store:lock(key .. "held", { timeout = 10 }))
  for _, one in ipairs(calls.of_lease(all, plain)) do
    leave()
    lease = check(one.name, "unavailable", one.run, store, lease) or lease
    all()
  end
  check("release", nil, lease.release, lease, 5)

  lease = assert(other:lock(key, { timeout = 10 }))
  leave()
  local got, message, code = store:lock(key)
  if got or code ~= "timeout" and code ~= "unavailable" then
    print("wait", tostring(message))
  end
  local election = store:election(key)
  if election:leader() then
    check("wait_change", "timeout", election.wait_change, election, 0.2)
  end
  check("release", "unavailable", lease.release, lease)
  all()
  works("lock", CALLS[2].run, store)
  leave()
  assert(other:close(5) and store:close(5))
  all()
  print "done"
]]

for _, subject in ipairs(lot.stores(subjects)) do
  describe("descriptors that are all in use, on " .. subject.name, function()
    local t = context.new(subject)
    local dir

    local function set_up()
      dir = server.new_dir()
    end

    local function tear_down()
      process.close_all()
      server.remove_dir(dir)
      t:clean_up()
    end

    local timed = steady(set_up, tear_down)

    timed("are said to be, and do no harm", function()
      local left = library.build(dir, "left", SOURCE)
      local url = subject.name == "file" and "file://" .. dir .. "/locks"
        or subject.url()
      local running, seen = {}, {}
      for n = 0, MOST do
        running[n] = process.spawn { script = SCRIPT,
          env = { LEAVE = n, TIME = TIME },
          args = { url, t:key(), left, subject.plain and "plain" },
          stderr = "pipe" }
      end
      for n = 0, MOST do
        local status, signal = running[n]:wait(100)
        seen[n] = running[n].out .. running[n].err
          .. ("%s %s"):format(status, signal)
      end
      for n = 0, MOST do
        assert.are.equal("done\n0 0", seen[n], "with " .. n)
      end
      t:expect_nothing_left()
      if subject.name == "file" then
        -- Two that delete at one time may get in each other's way; what stays
        -- then goes with the next sweep.
        assert(uv.fs_unlink(dir .. "/locks/~store"))
        local store = assert(dlock.open(url))
        assert(store:ping())
        assert(store:close())
        local scan = uv.fs_scandir(dir .. "/locks")
        assert.are.equal("~store", (uv.fs_scandir_next(scan)))
        assert.is_nil((uv.fs_scandir_next(scan)))
      end
    end)
  end)
end
