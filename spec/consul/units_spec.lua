-- The Consul store in C, without a server: transactions, answers, and names of
-- keys.

local run = require "spec.support.units"

describe("the Consul store's C tests pass:", function()
  it("wire", function()
    assert.are.equal(9, run("consul_wire"))
  end)
end)
