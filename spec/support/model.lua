-- The store of spec/c/model_store.c as model:///file, in this Lua and in those
-- that it starts here. (Later specs start some in other directories.)
local memory = require "spec.support.memory"
local url = require "dlock.url"
local uv = require "luv"

local parse = url.parse

function url.parse(s)
  local path = type(s) == "string" and s:match("^model://(/.+)$")
  if not path then
    return parse(s)
  end
  local out = assert(parse("file://" .. path))
  out.scheme, out.module, out.shown = "model", "model", s
  return out
end

package.preload["dlock.store.model"] = function()
  return memory.load("model")
end

uv.os_setenv("LUA_INIT", "pcall(require, 'spec.support.model')")
