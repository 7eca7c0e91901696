-- C for LuaJIT's FFI (csrc/lua/direct.c), which also declares the structs.
-- Userdata pass unchecked, as the addresses of their boxes.
local core = require "dlock.core"
local ffi = require "ffi"

local function struct(fields)
  return ffi.typeof("struct {" .. fields .. "}")
end

local direct = {
  Watched = struct(core.direct.watched_fields),
  Completed = struct(core.direct.completed_fields),
}

local TYPES = {
  watch = "void (*)(void *, void *)",
  done = "int (*)(void *)",
  completed = "void (*)(void *, void *)",
  find = "void *(*)(void *, void *)",
  begin = "void *(*)(void *, void *, void *)",
  number = "double (*)(void *)",
  own = "void (*)(void *, void *)",
  own_lease = "void (*)(void *, void *)",
}

for name, type in pairs(TYPES) do
  direct[name] = ffi.cast(type, core.direct[name])
end

return direct
