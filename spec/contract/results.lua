-- How many results a call gives: spec/support/results.lua has every call.

local assert = require "luassert"
local results = require "spec.support.results"

return function(t, it)
  it("one value alone when it worked, and three when not", function()
    local down = t:open { url = "redis://127.0.0.1:1", connect_timeout = 0.2,
      io_timeout = 0.2 }
    assert.are.same({}, results.find(function()
      return t:open()
    end, down, t:key()))
  end)
end
