-- The ZooKeeper store in C, without a server: its pure parts (names, the
-- admission and watch rule, also by chance against the rule in its plainest
-- form, the chain of confirms), and the recipe on a link that loses, doubles
-- and crosses what a test wants it to; and which answers wake the loop.

local run = require "spec.support.units"

describe("the ZooKeeper store's C tests pass:", function()
  for name, tests in pairs { units = 11, recipe = 22, lists = 9, counter = 1,
      rest = 12, sessions = 20, ends = 10, client = 5 } do
    it(name, function()
      assert.are.equal(tests, run("zookeeper_" .. name))
    end)
  end
end)
