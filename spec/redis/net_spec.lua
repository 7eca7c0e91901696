-- The Redis store's connections in C, against servers that say what a test
-- says; no Lua, no Redis.

local run = require "spec.support.units"

describe("the link to redis", function()
  it("stands what a real server leaves too fast", function()
    assert.are.equal(8, run "redis_net_test")
  end)

  it("reads a cluster's map and redirects", function()
    assert.are.equal(2, run "redis_slots_test")
  end)

  it("reads one answer without the loop, and nothing else", function()
    assert.are.equal(7, run "redis_conn_test")
  end)

  it("wakes its host by one descriptor for both sockets", function()
    assert.are.equal(3, run "redis_wake_test")
  end)
end)
