-- The file store: who waits is woken by what lets it in, or shuts it out, and
-- not by the timer that it has for what gets lost.

local process = require "spec.support.process"
local promptly = require "spec.support.promptly"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"
local uv = require "luv"

-- A waiter's own timer looks after a quarter of a second at the earliest.
local TOLD = 0.24

describe("file store, waking waiters:", function()
  local dir, a, b

  before_each(function()
    dir = server.new_dir()
    a, b = tool.start(dir .. "/locks"), tool.start(dir .. "/locks")
  end)

  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function since(start)
    return (uv.hrtime() - start) / 1e9
  end

  it("a waiter is refused when a downgrade leaves another limit", function()
    promptly(TOLD, function(i)
      local key, id = "key" .. i, "a" .. i
      a:hold(id, key)
      b:acquire("b", key, { units = 1, cap = 3, timeout = 20 })
      a:wait_queue(key, 1)
      local began = uv.hrtime()
      assert.matches("^a%d ok", a:ask("downgrade", id))
      b:expect("^b invalid: ")
      return since(began)
    end)
  end)

  it("a watcher of a free key is woken by its first holder", function()
    promptly(TOLD, function(i)
      local key = "leader" .. i
      b:send("change", "b", tool.hex(key), 0)
      b:ask("ping") -- it watches
      local began = uv.hrtime()
      a:hold("a" .. i, key)
      b:expect("^b ok")
      return since(began)
    end)
  end)
end)
