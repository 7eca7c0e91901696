-- What every call of a store says where its server cannot be used: the same
-- code, with the reason, in bounded time.

local assert = require "luassert"
local uv = require "luv"

--- Asks the store in each way there is to come to its server, and closes it.
--- Returns the messages.
---@param store table
---@param seconds number for all calls
---@param code string
---@param pattern string
return function(store, seconds, code, pattern)
  local messages, start = {}, uv.hrtime()
  for i, call in ipairs {
    function() return store:ping() end,
    function() return store:try_lock("k") end,
    function() return store:lock("k", { timeout = 1 }) end,
  } do
    local got, message, found = call()
    assert.is_nil(got)
    assert.are.equal(code, found, message)
    assert.matches(pattern, message)
    messages[i] = message
  end
  assert.is_true((uv.hrtime() - start) / 1e9 < seconds)
  store:close()
  return messages
end
