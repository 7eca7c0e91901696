-- The pure parts of the ZooKeeper store, in C: names, the admission and watch
-- rule (also by chance, against the rule in its plainest form), the chain of
-- confirms. No server.

local process = require "spec.support.process"
local server = require "spec.support.server"

local NAMES = {
  "names_of_keys", "names_of_contenders", "order_across_the_wrap",
  "semaphore_watches", "rule_and_watches_by_chance", "chain_of_confirms",
  "answers_that_do_not_count", "sustains_until_the_chain_arrives",
}

describe("the ZooKeeper store's pure part", function()
  local dir, out

  setup(function()
    dir = server.new_dir()
    local status, _, err = process.run {
      command = { "sh", "-c", "cc -std=c11 -D_GNU_SOURCE -O1 -g -Icsrc -o "
        .. dir .. "/units spec/c/zookeeper_units.c csrc/core/*.c"
        .. " csrc/store/zookeeper/names.c csrc/store/zookeeper/queue.c"
        .. " csrc/store/zookeeper/confirm.c" },
      env = { LD_PRELOAD = false }, timeout = 60,
    }
    assert(status == 0, err)
    status, out = process.run { command = { dir .. "/units" } }
    assert(status, "it did not end")
  end)

  teardown(function()
    server.remove_dir(dir)
  end)

  for _, name in ipairs(NAMES) do
    it((name:gsub("_", " ")), function()
      local found = out:match("[^\n]*" .. name .. "[^\n]*")
      assert.are.equal("ok " .. name, found)
    end)
  end
end)
