-- The C unit tests: programs that test csrc/core, the loop, the engine's
-- requests and leases and the file store's table, without Lua. Each line they
-- print is a test.

local run = require "spec.support.units"

describe("C unit tests", function()
  it("of the core pass", function()
    assert.are.equal(16, run "core_test")
  end)

  it("of options and passwords pass", function()
    assert.are.equal(3, run "options_test")
  end)

  it("of quiet writes pass", function()
    assert.are.equal(4, run "quiet_test")
  end)

  it("of the loop pass, without an engine", function()
    assert.are.equal(8, run "loop_test")
  end)

  it("of the engine pass, with answers at a bad moment", function()
    assert.are.equal(17, run "engine_test")
  end)

  it("of the end of a store pass", function()
    assert.are.equal(6, run "close_test")
  end)

  it("of the file store's table pass, killed at any byte", function()
    assert.are.equal(8, run "table_test")
  end)

  it("of the file store's queue agree with a plain model", function()
    assert.are.equal(1, run "queue_test")
    assert.are.equal(6, run "queue_cut_test")
  end)
end)
