-- Many who wait die together: what stands in a table is only the dead, and the
-- next one to come meets nobody.

local process = require "spec.support.process"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"

-- More than are let in with one hold of the mutex.
local CROWD = 100

describe("a queue whose holder and waiters died together", function()
  local base, dir

  before_each(function()
    base = server.new_dir()
    dir = base .. "/locks"
    local dead = tool.start(dir)
    dead:hold("a", "key")
    for i = 1, CROWD do
      dead:acquire("r" .. i, "key", { units = 1, timeout = 60 })
    end
    dead:wait_queue("key", CROWD)
    dead:kill()
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(base)
  end)

  it("lets in the first who tries", function()
    tool.start(dir):hold("b", "key")
  end)

  it("lets in the first reader who tries", function()
    tool.start(dir):hold("b", "key", { units = 1 })
  end)

  it("is shown as free", function()
    local b = tool.start(dir)
    assert.are.equal("inspect ok nil", b:ask("inspect", tool.hex("key")))
    b:hold("b", "key")
  end)
end)
