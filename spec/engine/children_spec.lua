-- C unit tests that fork: apart from the others, since ThreadSanitizer does not
-- follow the fork of a process that has threads.

local run = require "spec.support.units"

describe("C unit tests of children", function()
  it("leave the leases that moved alone", function()
    assert.are.equal(2, run("transfer_test", "children"))
  end)
end)
