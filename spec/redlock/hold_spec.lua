-- The whole store on made-up servers and in made-up time:
-- spec/c/redlock_hold_test.c.

local run = require "spec.support.units"

describe("Redlock on made-up servers", function()
  it("has one holder, fences that rise, and votes that split not for ever",
  function()
    assert.are.equal(3, run "redlock_hold_test")
  end)
end)
