-- The etcd store in random histories (spec/sim/driven.lua).

local driven = require "spec.sim.driven"
local faults = require "spec.faults.etcd"

describe("the simulation of the etcd store", function()
  local histories

  setup(function()
    histories = driven.new("etcd", "consul", "libuv")
  end)
  teardown(function() histories:close() end)

  it("has no two holders and no lost wait, whatever is lost", function()
    histories:holds()
  end)

  for _, fault in ipairs(driven.faults(faults)) do
    it("would notice that " .. fault.name, function()
      histories:would_notice(fault)
    end)
  end
end)
