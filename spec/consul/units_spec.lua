-- The Consul store in C, without a server: transactions, answers, and names of
-- keys; what watches make of answers that come late; and of libcurl's handles,
-- one whose request went wrong.

local run = require "spec.support.units"

describe("the Consul store's C tests pass:", function()
  for name, tests in pairs { wire = 9, http = 3, late = 2 } do
    it(name, function()
      assert.are.equal(tests, run("consul_" .. name))
    end)
  end
end)
