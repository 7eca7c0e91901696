local dlock = require "dlock"
local server = require "spec.support.server"

describe("a canceller", function()
  it("is ready, then cancelled for good", function()
    local canceller = dlock.canceller()
    assert.is_false(canceller:cancelled())
    assert.are.equal("dlock.canceller: ready", tostring(canceller))
    assert.is_true(canceller:cancel())
    assert.is_true(canceller:cancel())
    assert.is_true(canceller:cancelled())
    assert.are.equal("dlock.canceller: cancelled", tostring(canceller))
  end)

  it("that was used starts no wait", function()
    local dir = server.new_dir()
    local store = assert(dlock.open("file://" .. dir))
    local canceller = dlock.canceller()
    canceller:cancel()
    local lease, _, code = store:lock("k", { cancel = canceller })
    assert.is_nil(lease)
    assert.are.equal("cancelled", code)
    assert.is_false(store:mutex("k"):locked())
    -- nor lets its owner enter again
    local mutex = assert(store:mutex("k", { reentrant = true }))
    local outer = assert(mutex:acquire())
    lease, _, code = mutex:acquire { cancel = canceller }
    assert.is_nil(lease)
    assert.are.equal("cancelled", code)
    assert(outer:release())
    assert.is_false(mutex:locked())
    store:close()
    server.remove_dir(dir)
  end)

  it("says how to call it", function()
    local canceller = dlock.canceller()
    for _, wrong in ipairs { 5, {}, "x" } do
      local ok, problem = pcall(canceller.cancel, wrong)
      assert.is_false(ok)
      assert.is_truthy(problem:find("canceller:cancel()", 1, true))
    end
    assert.has_error(function() canceller.field = 1 end)
  end)

  it("cannot be made by hand", function()
    local fake = setmetatable({}, { __index = dlock.canceller() })
    local store = assert(dlock.open("file:///unused"))
    assert.has_error(function() store:lock("k", { cancel = fake }) end)
  end)
end)
