-- The etcd store in C, without a server: messages and names of keys, how
-- long a session counts, and what of a lost connection is done late.

local run = require "spec.support.units"

describe("the etcd store's C tests pass:", function()
  for name, tests in pairs { wire = 11, proof = 5, late = 4 } do
    it(name, function()
      assert.are.equal(tests, run("etcd_" .. name))
    end)
  end
end)
