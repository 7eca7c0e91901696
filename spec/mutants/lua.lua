-- Mutants of lua/dlock.

local CONTRACT = "spec/contract/contract_spec.lua"

return {
  specs = "spec/lua/options_spec.lua spec/lua/url_spec.lua"
    .. " spec/lua/with_spec.lua spec/lua/once_spec.lua"
    .. " spec/lua/reentrancy_spec.lua spec/lua/all_spec.lua"
    .. " spec/lua/canceller_spec.lua"
    .. " spec/engine/engine_spec.lua spec/lua/bad_input_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "what was taken stays when the next cannot be acquired",
      file = "lua/dlock/kinds/all.lua", lua = "luajit", specs = CONTRACT,
      find = "elseif fine then"
        .. " all_lease.end_each(plan.taken, single.close)",
      put = "elseif fine then" },
    { name = "what was taken stays after an error",
      file = "lua/dlock/kinds/all.lua",
      find = "all_lease.give_back(plan.taken)", put = "local _ = plan" },
    { name = "members are taken in the order of the list",
      file = "lua/dlock/kinds/members.lua",
      find = "table.sort(sorted, before)", put = "" },
    { name = "a with whose lease was lost says that all is well",
      file = "lua/dlock/with.lua",
      find = [[if released or ours and code ~= "lost"]],
      put = "if released or ours" },
    { name = "an error leaves the lock taken", file = "lua/dlock/with.lua",
      lua = "luajit", find = "release(self) error((...), 0)",
      put = "error((...), 0)" },
    { name = "an error value becomes a text", file = "lua/dlock/with.lua",
      lua = "luajit", find = "release(self) error((...), 0)",
      put = "release(self) error(tostring((...)), 0)" },
    { name = "a lost hold is entered again", file = "lua/dlock/reentrant.lua",
      find = [[if core.held(lease) then return lease end]],
      put = "do return lease end" },
    { name = "a lock that is denied is passed over",
      file = "lua/dlock/kinds/fallback.lua",
      specs = "spec/lua/fallback_spec.lua",
      find = [[elseif code ~= "unavailable" then -- I3
        return lease, message, code]],
      put = [[elseif lease then return lease, message, code]] },
    { name = "a degraded lease shows its fence",
      file = "lua/dlock/kinds/fallback_lease.lua",
      specs = "spec/lua/fallback_spec.lua",
      find = [[local SHOWN = { key = true,]],
      put = [[local SHOWN = { fence = true, key = true,]] },
    { name = "a lock that came with a cancel is handed out",
      file = "lua/dlock/kinds/fallback.lua",
      specs = "spec/lua/fallback_spec.lua",
      find = [[if state.cancels ~= plan.cancels then
        if lease then single.close(lease) end]],
      put = [[if false then]] },
  },
}
