-- The recipe of stores with sessions (csrc/store/session) on a driver in
-- memory: what it does is the same on each driver, and needs no server.

local run = require "spec.support.units"

describe("the recipe of stores with sessions", function()
  it("passes its C tests", function()
    assert.are.equal(9, run "session_floor")
  end)
end)
