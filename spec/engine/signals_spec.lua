-- What the host's signals do, and that dlock's threads stay away from them.

local context = require "spec.contract.context"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"
local uv = require "luv"

local WAIT = [[
  local dlock = require "dlock"
  local store = assert(dlock.open { url = arg[1], session_timeout = 2 })
  assert(store:ping())
  print "waiting"
  local _, problem = pcall(store.lock, store, arg[2], { timeout = math.huge })
  print "raised"
  error(problem, 0)
]]

local HOLD = [[
  local dlock = require "dlock"
  local store = assert(dlock.open(arg[1]))
  local lease = assert(store:lock(arg[2]))
  print "held"
  io.read()
  lease:release()
]]

-- Ignored and caught signals, but for 33, which belongs to the C library.
local function dispositions(status)
  local caught = status:match("SigCgt:%s*(%x+)")
  return status:match("SigIgn:%s*(%x+)") .. " "
    .. caught:sub(1, 7) .. "." .. caught:sub(9)
end

local function threads_of(pid)
  local found = {}
  local scan = uv.fs_scandir(("/proc/%d/task"):format(pid))
  for tid in uv.fs_scandir_next, scan do
    if tonumber(tid) ~= pid then found[#found + 1] = tid end
  end
  return found
end

for _, subject in ipairs(lot.stores(subjects)) do
  describe("on " .. subject.name .. ", signals:", function()
    local t = context.new(subject)

    after_each(function()
      process.close_all()
      t:clean_up()
    end)

    it("Ctrl-C ends a wait and leaves nothing behind", function()
      local store, key = t:open(), t:key()
      local lease = assert(store:lock(key))
      local p = process.spawn {
        script = WAIT, args = { subject.url(), key }, stderr = "pipe",
      }
      p:expect("^waiting")
      t:queued(key, 1)
      p:kill("sigint")
      p:expect("^raised") -- the wait has no timeout of its own
      assert.are.equal(1, (p:wait(10)))
      assert.is_truthy(p.err:find("interrupted!", 1, true), p.err)
      t:eventually("no waiter", function()
        return subject.waiters(key) == 0
      end)
      lease:release()
      assert(store:try_lock(key)):release()
      t:expect_nothing_left()
    end)

    it("threads of dlock block every signal", function()
      local p = process.spawn { script = HOLD, args = { subject.url(),
        t:key() } }
      p:expect("^held")
      local threads, seen = threads_of(p.pid), 0
      for _, tid in ipairs(threads) do
        local status = server.read_file(
          ("/proc/%d/task/%s/status"):format(p.pid, tid))
        local mask = status:match("SigBlk:%s*(%x+)")
        -- All of 1 to 64 but KILL, STOP and the two that the C library keeps
        -- for itself (and blocks only while a thread starts).
        if mask then -- else it has just ended
          seen = seen + 1
          assert.is_truthy(mask:find("^fffffff[ef][7f]ffbfeff$"), mask)
        end
      end
      assert.is_true(seen > 0)
      p:write("\n")
      assert.are.equal(0, (p:wait()))
    end)

    it("the host's signal handlers are left alone", function()
      local p = process.spawn { script = "print 'up' io.read() " .. HOLD,
        args = { subject.url(), t:key() } }
      local path = ("/proc/%d/status"):format(p.pid)
      p:expect("^up")
      local before = dispositions(server.read_file(path))
      p:write("\n")
      p:expect("^held")
      assert.are.equal(before, dispositions(server.read_file(path)))
      p:write("\n")
      assert.are.equal(0, (p:wait()))
    end)
  end)
end
