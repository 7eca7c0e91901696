-- Keys that nobody else uses, and stores that are closed behind a case, for the
-- specs of one store.
--
--   local common = opened("etcd", { url = …, session_timeout = 4 })

local dlock = require "dlock"
local process = require "spec.support.process"
local uv = require "luv"

--- A table with key, open, close_stores and clean_up.
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

  return opened
end
