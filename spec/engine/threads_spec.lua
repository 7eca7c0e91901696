-- Several Lua states in several threads of one process, each with a store of
-- its own: what the stores share then is only what the process has once (the
-- list of descriptors, the client libraries, forks).

local context = require "spec.contract.context"
local leaks = require "spec.support.leaks"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local subjects = require "spec.contract.subjects"
local thread = require "spec.contract.thread"

local TURNS = 12

for _, subject in ipairs(lot.stores(subjects)) do
  describe("threads with a store each, on " .. subject.name, function()
    local t = context.new(subject)
    local dir, key

    before_each(function()
      dir, key = server.new_dir(), t:key()
      -- What is made once for a process is there now. A store that sweeps files
      -- may have its peers' pipes until its next call, so this one is closed.
      local first = t:open()
      assert(first:ping())
      assert(first:close())
      server.write_file(dir .. "/number", ("%012d %016d\n"):format(0, 0))
    end)

    after_each(function()
      server.remove_dir(dir)
      t:clean_up()
    end)

    -- Plays the parts side by side; `meanwhile` runs in this thread.
    local function play(parts, turns, meanwhile)
      local running = {}
      for i, part in ipairs(parts) do
        running[i] = thread.start(part, ("%s/out%d"):format(dir, i),
          subject.url(), key, dir .. "/number", turns, i)
      end
      if meanwhile then meanwhile() end
      local results, expected = {}, {}
      for i, one in ipairs(running) do
        results[i], expected[i] = one.finish(), "ok"
      end
      assert.same(expected, results)
    end

    for _, count in ipairs { 2, 4 } do
      it(count .. " of them fight for one key", function()
        local before, parts = leaks.snapshot(), {}
        for i = 1, count do parts[i] = "rival" end
        play(parts, TURNS)
        local number = server.read_file(dir .. "/number"):match("^%d+")
        assert.equal(count * TURNS, tonumber(number))
        -- Whether it was closed or its state ended: nothing is held any more.
        local store = t:open()
        for i = 1, count do
          assert(store:lock(key .. "-" .. i, { timeout = 5 })):release()
        end
        store:close()
        assert.same({}, leaks.since(before, 5))
      end)
    end

    it("open and end them at the same time, among forks", function()
      local function fork()
        assert.equal(0, (process.run { command = { "true" } }))
      end
      fork()
      local before = leaks.snapshot()
      play({ "opener", "opener", "opener", "rival" }, TURNS, function()
        for _ = 1, 10 do fork() end
      end)
      assert.same({}, leaks.since(before, 5))
    end)
  end)
end
