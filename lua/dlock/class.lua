-- A class hides the state of its objects under a key of its own.
local misuse = require "dlock.misuse"

--- Makes a class:
---   new(state)            an object
---   state(value)          its state, nil of anything else
---   state_of(self, call)  the same; raises when a method has no object
---   meta                  the metatable, to which a module may add
---@param name string behind "dlock.", and in messages
---@param hint? string for a program that sets a field
---@param key? table where several classes share one
return function(name, methods, hint, key)
  key = key or {}
  local class = {}

  function class.state(value)
    return type(value) == "table" and rawget(value, key) or nil
  end

  function class.state_of(self, call)
    return class.state(self) or misuse.no_self(name, call)
  end

  class.meta = {
    __index = methods,
    __metatable = "dlock." .. name,
    __name = "dlock." .. name,
    __newindex = function()
      misuse.raise("a %s has no fields to set%s", name, hint or "")
    end,
    __tostring = function(self)
      return ("dlock.%s: %s"):format(name, rawget(self, key).shown)
    end,
  }

  function class.new(state)
    return setmetatable({ [key] = state }, class.meta)
  end

  return class
end
