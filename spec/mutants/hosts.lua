-- Mutants of lua/dlock/host.

local CONTRACT = "spec/contract/contract_spec.lua"

return {
  specs = "spec/lua/loops_spec.lua spec/lua/loops_close_spec.lua"
    .. " spec/lua/luv_resumes_spec.lua spec/lua/shared_waits_spec.lua"
    .. " spec/engine/closed_waits_spec.lua " .. CONTRACT,
  mutants = {
    { name = "a wait in nginx begins below a C function",
      file = "lua/dlock/host/resty.lua", lua = "luajit",
      specs = "spec/resty/phases_spec.lua",
      find = "if not can_yield() then", put = "if false then" },
  },
}
