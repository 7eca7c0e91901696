-- Mutants of csrc/store/file.

local QUEUE = "csrc/store/file/recipe/queue.c"
local KIT = "csrc/store/kit/admission.c"
local TABLE = "csrc/store/file/format/table.c"
local WAIT = "csrc/store/file/recipe/wait.c"
local HOLD = "csrc/store/file/recipe/hold.c"

return {
  specs = "spec/engine/core_spec.lua spec/sim/queues_spec.lua"
    .. " spec/file/store_spec.lua spec/engine/fork_spec.lua"
    .. " spec/file/wakes_spec.lua spec/file/foreign_spec.lua"
    .. " spec/file/disk_spec.lua spec/file/damage_spec.lua"
    .. " spec/file/moved_spec.lua spec/file/given_up_spec.lua"
    .. " spec/file/boot_spec.lua spec/file/fence_spec.lua"
    .. " spec/contract/exclusion_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "readers come in with a writer", file = KIT,
      find = "if (a.units == 0 || b.units == 0)", put = "if (a.units == 0)" },
    { name = "permits of two limits are held together", file = KIT,
      find = "a.cap == b.cap ?", put = "true ?" },
    { name = "one permit too many", file = KIT,
      find = "used + want.units <= want.cap;",
      put = "used + want.units <= want.cap + 1;" },
    { name = "min_hold of a dead holder is not kept", file = QUEUE,
      find = "(slot->list == DLK_FILE_HELD && slot->until > now) ||",
      put = "now == 0 ||" },
    { name = "a fence is given twice", file = QUEUE,
      find = "slot->fence = ++t->head.fence;",
      put = "slot->fence = t->head.fence;" },
    { name = "a dead waiter is granted the lock", file = QUEUE,
      specs = "spec/file/crowd_spec.lua",
      find = "if (!alive || !dlk_file_peer_wake(d, w.instance, w.token)) {",
      put = "(void)dlk_file_peer_wake(d, w.instance, w.token); if (0) {" },
    { name = "a leaving waiter does not wake the one behind", file = QUEUE,
      find = "dlk_file_peer_wake(d, behind.instance, behind.token);",
      put = "(void)behind;" },
    { name = "a release lets nobody in", file = QUEUE,
      find = "dlk_file_table_drop(t, index); d->holders_changed = true;"
        .. " dlk_file_grant(d);",
      put = "dlk_file_table_drop(t, index); d->holders_changed = true;" },
    { name = "a torn header is believed", file = TABLE,
      find = "bool ok = check == block_sum(b);",
      put = "bool ok = check == block_sum(b) || true;" },
    { name = "a try does not look whether the holder lives", file = WAIT,
      find = "if (!queue || !f->op->wait) dlk_file_settle(d);", put = "" },
    { name = "a release of what is not ours says ok", file = HOLD,
      find = "return; } dlk_file_end_held(f, ours); }",
      put = "return; } dlk_file_end_held(f, true); }" },
  },
}
