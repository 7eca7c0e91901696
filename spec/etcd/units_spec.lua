-- The etcd store in C, without a server: messages and names of keys, and how
-- long a session counts.

local run = require "spec.support.units"

describe("the etcd store's C tests pass:", function()
  for name, tests in pairs { wire = 11, proof = 5 } do
    it(name, function()
      assert.are.equal(tests, run("etcd_" .. name))
    end)
  end
end)
