-- One code base for Lua 5.1 to 5.4 and LuaJIT: only what all of them have.
std = "min"
max_line_length = 80
max_cyclomatic_complexity = 15
-- A method may ignore its object.
self = false

-- Present in some of them; code asks before it uses them.
read_globals = {
  "unpack", "loadstring", "setfenv", "getfenv", "newproxy", "jit", "ngx",
  table = { fields = { "unpack", "pack", "move" } },
  math = { fields = { "type", "tointeger", "mininteger", "maxinteger" } },
  coroutine = { fields = { "close", "isyieldable" } },
  debug = { fields = { "upvalueid" } },
  package = { fields = { "searchpath", "searchers" } },
  string = { fields = { "pack", "unpack", "packsize" } },
  "warn", "bit", "bit32",
  os = { fields = { "execute" } },
}

files["bin/dlock"] = { globals = { "_" } } -- a shell's part of it
files["examples/openresty"] = { globals = { "ngx" } }
files["spec"] = { std = "+busted" }
files["spec/support"] = { std = "min" }
for _, name in ipairs { "support", "support_ends", "support_runs",
  "steady" } do
  files["spec/support/" .. name .. "_spec.lua"] = { std = "+busted" }
end
files["csrc/store/redis/scripts"] = {
  read_globals = { "redis", "KEYS", "ARGV", "cjson", "cmsgpack" },
  -- Included into other scripts, which use what is defined there.
  ignore = { "11.", "211", "231" },
  max_cyclomatic_complexity = 30,
}
exclude_files = { "build", "lua_modules", "spec/support/data" }
