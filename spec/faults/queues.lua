-- Faults to put back into the admission rules of the ZooKeeper and the file
-- store; spec/sim/queues_spec shows that the histories find each of them.
-- A blank in `find` stands for any blanks and line ends.

local ZOOKEEPER = "csrc/store/session/recipe/queue.c"
local FILE = "csrc/store/file/recipe/queue.c"
local KIT = "csrc/store/kit/admission.c"

local TOO_MANY = { name = "one permit too many", file = KIT,
  find = "used + want.units <= want.cap",
  put = "used + want.units <= want.cap + 1" }
local WITH_WRITER = { name = "a writer comes in with readers", file = KIT,
  find = "if (a.units == 0 || b.units == 0)", put = "if (b.units == 0)" }
local TWO_LIMITS = { name = "permits of two limits are held together",
  file = KIT, find = "a.cap == b.cap ?", put = "true ?" }

return {
  zookeeper = { TOO_MANY, WITH_WRITER, TWO_LIMITS,
    { name = "a semaphore watches only the node ahead", file = ZOOKEEPER,
      find = "i-- > 0 && sum <= spare;", put = "i-- > 0 && sum == 0;" },
    { name = "a semaphore watches one node too few", file = ZOOKEEPER,
      find = "i-- > 0 && sum <= spare;", put = "i-- > 0 && sum < spare;" },
    { name = "more than 16 nodes to watch are cut off", file = ZOOKEEPER,
      find = "out->verdict = DLK_SS_WATCH_LIST; out->watch_count = 0;",
      put = "" },
    { name = "all watch the first", file = ZOOKEEPER,
      find = "out->watch[0] = i;", put = "out->watch[0] = 0;" },
    { name = "the order breaks where the counter wraps",
      file = "csrc/store/session/format/names.c",
      find = "return (int32_t)((uint32_t)a - (uint32_t)b) < 0;",
      put = "return a < b;" },
  },
  file = { TOO_MANY, WITH_WRITER, TWO_LIMITS,
    { name = "a leaving holder lets nobody in", file = FILE,
      find = "dlk_file_table_drop(t, index); d->holders_changed = true;"
        .. " dlk_file_grant(d);",
      put = "dlk_file_table_drop(t, index); d->holders_changed = true;" },
    { name = "the first that waits leaves and lets nobody in", file = FILE,
      find = "if (waits && w.prev == 0 && t->error == 0) dlk_file_grant(d);",
      put = "" },
    { name = "a dead waiter is handed the lock", file = FILE,
      find = "if (!alive || !dlk_file_peer_wake(d, w.instance, w.token)) {",
      put = "dlk_file_peer_wake(d, w.instance, w.token);\nif (0) {" },
    { name = "a minimum hold ends with its process", file = FILE,
      find = "(slot->list == DLK_FILE_HELD && slot->until > now) ||",
      put = "" },
    { name = "another limit than a waiter's is not seen", file = FILE,
      find = "before != 0 ? before : t->head.last[DLK_FILE_HELD]",
      put = "t->head.last[DLK_FILE_HELD]" },
    { name = "who leaves does not wake the next", file = FILE,
      find = "dlk_file_peer_wake(d, behind.instance, behind.token);",
      put = "" },
    { name = "fences stand still", file = FILE,
      find = "slot->fence = ++t->head.fence;",
      put = "slot->fence = t->head.fence;" },
    { name = "a list's count goes astray",
      file = "csrc/store/file/format/table.c",
      find = "if (s->list == DLK_FILE_HELD) account(t, s, false);",
      put = "" },
    { name = "what an older header says is believed",
      file = "csrc/store/file/format/table.c",
      find = "int newer = seq[1] > seq[0];",
      put = "int newer = seq[1] < seq[0];" },
  },
}
