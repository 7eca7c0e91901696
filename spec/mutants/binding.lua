-- Mutants of csrc/lua.

local LEASE = "csrc/lua/lease.c"

return {
  specs = "spec/engine/engine_spec.lua spec/lua/bad_input_spec.lua"
    .. " spec/engine/fork_spec.lua spec/cli/cli_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "a child's collector releases its parent's lease", file = LEASE,
      find = "return is_given_up(box) || in_child(box);",
      put = "return is_given_up(box);" },
    { name = "the first of several handles ends the hold", file = LEASE,
      find = "if (dlk_handle_give_up(&box->handle))"
        .. " dlk_hold_release_later(box->hold);",
      put = "dlk_handle_give_up(&box->handle);"
        .. " dlk_hold_release_later(box->hold);" },
    { name = "a second release releases again", file = LEASE,
      find = "if (!forked && box->release) {",
      put = "if (!forked && box->release && 0) {" },
    { name = "a released lease can be extended", file = LEASE,
      find = "if (is_given_up(box) && !forked) return given_up(L, box);"
        .. " return submit(L, box, r);",
      put = "(void)forked; return submit(L, box, r);" },
  },
}
