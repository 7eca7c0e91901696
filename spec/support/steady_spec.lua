-- A case fails at once on a machine that goes on, and is tried again on one
-- that stood still.

local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

-- This process stands still for so long.
local function stand_still(seconds)
  local status = process.run { command = { "sh", "-c",
    ("kill -STOP %d; sleep %g; kill -CONT %d"):format(uv.os_getpid(), seconds,
      uv.os_getpid()) } }
  assert.are.equal(0, status)
end

describe("a steady case", function()
  local calls = { before = 0, after = 0, case = 0 }

  local function count(name)
    return function() calls[name] = calls[name] + 1 end
  end

  local timed = steady(count "before", count "after")

  timed("is tried again when all stood still", function()
    calls.case = calls.case + 1
    assert.are.equal(calls.case, calls.before)
    assert.are.equal(calls.case, calls.after + 1)
    if calls.case < 3 then
      stand_still(0.3)
      error "it stood still"
    end
  end)

  it("is so often", function()
    assert.are.same({ before = 4, after = 3, case = 3 }, calls)
  end)

  it("that fails, fails at once", function()
    local dir = server.new_dir()
    server.write_file(dir .. "/a_spec.lua", [[
      local timed = require("spec.support.steady")()
      timed("fails", function()
        print "an attempt"
        error "nothing stood still"
      end)
    ]])
    local status, out = process.run { file = "spec/support/busted.lua",
      args = { "-o", "TAP", dir .. "/a_spec.lua" } }
    server.remove_dir(dir)
    assert.are.equal(1, status, out)
    -- This machine may have stood still by itself.
    local again = select(2, out:gsub("again, since the machine stood", ""))
    assert.are.equal(again + 1, select(2, out:gsub("an attempt", "")), out)
    assert.matches("nothing stood still", out)
  end)
end)
