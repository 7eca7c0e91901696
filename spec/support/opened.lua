-- Keys that nobody else uses, stores that are closed behind a case, and waits,
-- for the specs of one store.
--
--   local common = opened("etcd", { url = …, session_timeout = 4 })

local assert = require "luassert"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local uv = require "luv"

--- A table with the functions below.
---@param name string which its keys begin with
---@param defaults table options of its stores
return function(name, defaults)
  local count, stores, opened = 0, {}, { url = defaults.url }

  function opened.key()
    count = count + 1
    return ("%s%d-%d"):format(name, uv.os_getpid(), count)
  end

  function opened.open(opts)
    local all = {}
    for _, from in ipairs { defaults, opts or {} } do
      for option, value in pairs(from) do all[option] = value end
    end
    local store = assert(dlock.open(all))
    stores[#stores + 1] = store
    return store
  end

  function opened.close_stores()
    for _, store in ipairs(stores) do store:close() end
    stores = {}
  end

  function opened.clean_up()
    opened.close_stores()
    process.close_all()
  end

  function opened.now()
    return uv.hrtime() / 1e9
  end

  --- Waits until fn() says so, while the store's engine works (nil: none).
  function opened.eventually(store, what, fn, timeout)
    local deadline = opened.now() + (timeout or 60 * loop.patience)
    repeat
      if store then store:mutex("nobody"):locked() end
      local result = fn()
      if result then return result end
      uv.sleep(10)
    until opened.now() > deadline
    error("never came true: " .. what, 2)
  end

  --- A lock is refused with this code and a message that matches the pattern
  --- and has no secret.
  function opened.refused(code, pattern, opts)
    local got, message, was = opened.open(opts):lock(opened.key(),
      { timeout = 2 })
    assert.is_nil(got)
    assert.are.equal(code, was, message)
    assert.matches(pattern, message)
    for _, secret in ipairs { "secret", "sesame" } do
      assert.is_nil(message:find(secret, 1, true), message)
    end
  end

  return opened
end
