-- Mutants of csrc/store/file.

local QUEUE = "csrc/store/file/recipe/queue.c"
local TABLE = "csrc/store/file/format/table.c"
local WAIT = "csrc/store/file/recipe/wait.c"
local HOLD = "csrc/store/file/recipe/hold.c"
local KEY = "csrc/store/file/dir/key.h"
local OPENED = "csrc/store/file/dir/key.c"
local OP = "csrc/store/file/recipe/op.c"
local NAME = "csrc/store/file/format/name.c"

return {
  specs = "spec/engine/core_spec.lua spec/sim/queues_spec.lua"
    .. " spec/file/store_spec.lua spec/engine/fork_spec.lua"
    .. " spec/file/wakes_spec.lua spec/file/foreign_spec.lua"
    .. " spec/contract/exclusion_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "readers come in with a writer", file = QUEUE,
      find = "if (h->exclusive > 0) return false;", put = "" },
    { name = "permits of two limits are held together", file = QUEUE,
      find = "if (holder != 0 && dlk_file_table_at(t, holder)->cap !="
        .. " want.cap) return false;",
      put = "(void)holder;" },
    { name = "one permit too many", file = QUEUE,
      find = "h->used + want.units <= want.cap;",
      put = "h->used + want.units <= want.cap + 1;" },
    { name = "whose a locked key is is not said",
      file = "csrc/store/file/recipe/admin.c",
      find = "if (held) dlk_file_keep_owner(", put = "if (0)"
        .. " dlk_file_keep_owner(" },
    { name = "a slot that is another's by now is ours", file = KEY,
      find = "slot->token == e->token && slot->instance == e->instance",
      put = "slot->instance == e->instance" },
    { name = "another's file with the sticky bit is used", file = OPENED,
      find = "return k->checked || (error == ENODATA &&"
        .. " dlk_file_marked(k->mode));",
      put = "return k->checked || dlk_file_marked(k->mode);" },
    { name = "min_hold of a dead holder is not kept", file = QUEUE,
      find = "if (h->until > now) return false; return !",
      put = "(void)now; return !" },
    { name = "what nobody was given is kept for its min_hold",
      file = "csrc/store/file/recipe/hold.c",
      specs = "spec/contract/contract_spec.lua",
      find = "dlk_file_let_go(d, e->slot, f->op->unused);",
      put = "dlk_file_let_go(d, e->slot, false);" },
    { name = "min_hold counts from the wait", file = QUEUE,
      find = "slot->until = min_hold > 0 ? dlk_time_add(now, min_hold) : 0;",
      put = "slot->until = min_hold > 0 ? dlk_time_add(slot->since,"
        .. " min_hold) : 0;",
      same = "slot->since was set to now in the line before" },
    { name = "a fence is given twice", file = QUEUE,
      find = "slot->fence = ++t->head.fence;",
      put = "slot->fence = t->head.fence;" },
    { name = "who waits for a change is not told", file = QUEUE,
      find = "dlk_file_table_append(t, index, DLK_FILE_HELD);"
        .. " d->holders_changed = true;",
      put = "dlk_file_table_append(t, index, DLK_FILE_HELD);" },
    { name = "a dead waiter is granted the lock", file = QUEUE,
      find = "if (!alive || !dlk_file_peer_wake(d, w.instance, w.token)) {",
      put = "(void)dlk_file_peer_wake(d, w.instance, w.token); if (0) {" },
    { name = "a leaving waiter does not wake the one behind", file = QUEUE,
      find = "dlk_file_peer_wake(d, behind.instance, behind.token);",
      put = "(void)behind;" },
    { name = "the end of min_hold wakes nobody", file = QUEUE,
      find = "dlk_file_table_edit(t, index)->instance = 0; wake_first(d);",
      put = "dlk_file_table_edit(t, index)->instance = 0;" },
    { name = "a release lets nobody in", file = QUEUE,
      find = "dlk_file_table_drop(t, index); d->holders_changed = true;"
        .. " dlk_file_grant(d);",
      put = "dlk_file_table_drop(t, index); d->holders_changed = true;" },
    { name = "a refused waiter is not woken", file = QUEUE,
      find = "if (dlk_file_other_limit(d, want, 0)) wake_first(d);",
      put = "" },
    { name = "a torn header is believed", file = TABLE,
      find = "bool ok = check == block_sum(b);",
      put = "bool ok = check == block_sum(b) || true;" },
    { name = "a torn slot is believed", file = TABLE,
      find = "if (t->error == 0 && slot.check != slot_sum(&slot, index))"
        .. " t->error = EUCLEAN;",
      put = "" },
    { name = "the older header counts", file = TABLE,
      find = "int newer = seq[1] > seq[0];",
      put = "int newer = seq[1] < seq[0];" },
    { name = "both headers are written over the same one", file = TABLE,
      find = "t->copy == 0 ? HEADER : 0);", put = "t->copy == 0 ? 0 :"
        .. " HEADER);" },
    { name = "a slot that was changed again is written below", file = TABLE,
      find = "!item->shadowed || item->dirty) continue;",
      put = "!item->shadowed) continue;" },
    { name = "an interrupted write is an error", file = TABLE,
      find = "if (done < 0 && errno == EINTR) continue; if (done <= 0)"
        .. " return done < 0 ? errno : EIO;",
      put = "if (done <= 0) return done < 0 ? errno : EIO;",
      same = "a write to a file of a local disk is not interrupted" },
    { name = "units are not given back", file = TABLE,
      find = "t->head.used += in ? s->units : -(uint64_t)s->units;",
      put = "t->head.used += in ? s->units : 0;" },
    { name = "a try does not look whether the holder lives", file = WAIT,
      find = "if (!queue || !f->op->wait) dlk_file_settle(d);", put = "" },
    { name = "a grant that crossed a cancel is dropped", file = WAIT,
      find = "if (error == 0 && slot.list == DLK_FILE_HELD) { got(f,"
        .. " slot.fence, now); } else if (error == 0 ||",
      put = "if (error == 0 ||" },
    { name = "a cancelled waiter stays in the queue", file = WAIT,
      find = "name_holder(f); dlk_file_withdraw(d, e->slot);",
      put = "name_holder(f);" },
    { name = "who stands behind watches nobody", file = WAIT,
      find = "*error = dlk_file_peer_watch(&f->store->dir,"
        .. " &f->watcher, instance);",
      put = "(void)instance; *error = 0;" },
    { name = "a release of what is not ours says ok", file = HOLD,
      find = "if (!ours) dlk_file_end_lost(f);",
      put = "if (!ours) dlk_file_end(f, NULL);" },
    { name = "a release in a directory that was moved says ok", file = HOLD,
      find = "else if (dlk_file_moved(d))", put = "else if (0)" },
    { name = "a wait goes on in a directory that was moved", file = WAIT,
      find = "if (!dlk_file_moved(d)) error =", put = "error =" },
    { name = "a renewal does not look", file = HOLD,
      find = "int error = all_lost ? ENOENT : check_hold(d, leases[i],"
        .. " leases[i]->ttl);",
      put = "int error = all_lost ? ENOENT : 0;" },
    { name = "a key with a dot in front is a hidden file", file = NAME,
      find = "(c == '.' && !first);", put = "c == '.';" },
    { name = "long keys that begin alike share a file", file = NAME,
      find = "dlk_file_sha256(sum, key, len);",
      put = "dlk_file_sha256(sum, key, LONGEST);" },
    { name = "a look needs a directory that is writable", file = OP,
      specs = "spec/file/disk_spec.lua",
      find = "(error == EACCES && !needs_pipe(f->op))",
      put = "(error == EACCES && needs_pipe(f->op) && false)" },
    { name = "who has no pipe may hold a lock", file = OP,
      specs = "spec/file/disk_spec.lua",
      find = "(error == EACCES && !needs_pipe(f->op))",
      put = "(error == EACCES && (!needs_pipe(f->op) || true))" },
    { name = "a directory that was moved gets a first pipe", file = OP,
      specs = "spec/file/disk_spec.lua",
      find = "int error = dlk_file_dir_lost(d) ? ENOENT : 0;",
      put = "int error = d->wake >= 0 && dlk_file_dir_lost(d) ? ENOENT : 0;" },
    { name = "a write to a key's file may raise a signal", file = TABLE,
      specs = "spec/file/disk_spec.lua",
      find = "ssize_t done = dlk_quiet_pwrite(fd, p, n, at);",
      put = "ssize_t done = pwrite(fd, p, n, at);" },
    { name = "a write to ~store may raise a signal",
      file = "csrc/store/file/dir/dir.c", specs = "spec/file/disk_spec.lua",
      find = "ssize_t n = dlk_quiet_pwrite(d->meta, m, sizeof *m, 0);",
      put = "ssize_t n = pwrite(d->meta, m, sizeof *m, 0);" },
  },
}
