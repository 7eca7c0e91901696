-- What C gives to LuaJIT's FFI (csrc/lua/direct.c), with its types. Userdata
-- are taken as the addresses of their boxes: whoever calls answers for what
-- they are.
local core = require "dlock.core"
local ffi = require "ffi"

local direct = {
  -- As csrc/lua/direct.h has them.
  Watched = ffi.typeof[[struct {
    double number;
    bool others, leaves;
  }]],
  Told = ffi.typeof[[struct {
    double numbers[256];
    int count;
    bool more, news, closed;
  }]],
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
