-- The counting of Redlock, without a server: spec/c/redlock_count_test.c.

local run = require "spec.support.units"

describe("Redlock", function()
  it("counts votes, ends and fences by its rules", function()
    assert.are.equal(10, run "redlock_count_test")
  end)
end)
