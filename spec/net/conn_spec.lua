-- The floor that stores with connections stand on (csrc/net), in C, with a
-- protocol of two words: no Lua, no store.

local run = require "spec.support.units"

describe("a connection", function()
  it("lives as its states say, whatever the protocol", function()
    assert.are.equal(12, run "net_conn_test")
  end)
end)
