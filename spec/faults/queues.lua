-- Faults to put back into the admission rules of the ZooKeeper and the file
-- store; spec/sim_queues_spec shows that the histories find each of them.
-- A blank in `find` stands for any blanks and line ends.

local ZOOKEEPER = "csrc/store/zookeeper/queue.c"
local FILE = "csrc/store/file/queue.c"

return {
  zookeeper = {
    { name = "a semaphore watches only the node ahead", file = ZOOKEEPER,
      find = "i-- > 0 && sum <= spare;", put = "i-- > 0 && sum == 0;" },
    { name = "a semaphore watches one node too few", file = ZOOKEEPER,
      find = "i-- > 0 && sum <= spare;", put = "i-- > 0 && sum < spare;" },
    { name = "more than 16 nodes to watch are cut off", file = ZOOKEEPER,
      find = "out->verdict = DLK_ZK_WATCH_LIST; out->watch_count = 0;",
      put = "" },
    { name = "one permit too many", file = ZOOKEEPER,
      find = "me->cap != 0 && sum > me->cap",
      put = "me->cap != 0 && sum > me->cap + 1" },
    { name = "a writer comes in with readers", file = ZOOKEEPER,
      find = "if (me->units == 0 || other->units == 0) {",
      put = "if (other->units == 0) {" },
    { name = "all watch the first", file = ZOOKEEPER,
      find = "watch_one(out, i);", put = "watch_one(out, 0);" },
    { name = "the order breaks where the counter wraps",
      file = "csrc/store/zookeeper/names.c",
      find = "return (int32_t)((uint32_t)a - (uint32_t)b) < 0;",
      put = "return a < b;" },
  },
  file = {
    { name = "a leaving holder lets nobody in", file = FILE,
      find = "dlk_file_table_drop(t, index); s->holders_changed = true;"
        .. " dlk_file_grant(s);",
      put = "dlk_file_table_drop(t, index); s->holders_changed = true;" },
    { name = "the first that waits leaves and lets nobody in", file = FILE,
      find = "if (waits && w.prev == 0 && t->error == 0) dlk_file_grant(s);",
      put = "" },
    { name = "a dead waiter is handed the lock", file = FILE,
      find = "if (!alive || !dlk_file_peer_wake(s, w.instance, w.token)) {",
      put = "dlk_file_peer_wake(s, w.instance, w.token);\nif (0) {" },
    { name = "a minimum hold ends with its process", file = FILE,
      find = "if (h->until > now) return false;", put = "" },
    { name = "a writer comes in with readers", file = FILE,
      find = "if (want.units == 0) return h->count[DLK_FILE_HELD] == 0;",
      put = "" },
    { name = "one permit too many", file = FILE,
      find = "h->used + want.units <= want.cap",
      put = "h->used + want.units <= want.cap + 1" },
    { name = "fences stand still", file = FILE,
      find = "slot->fence = ++t->head.fence;",
      put = "slot->fence = t->head.fence;" },
    { name = "a list's count goes astray",
      file = "csrc/store/file/table.c",
      find = "if (s->list == DLK_FILE_HELD) account(t, s, false);",
      put = "" },
    { name = "what an older header says is believed",
      file = "csrc/store/file/table.c",
      find = "int newer = seq[1] > seq[0];",
      put = "int newer = seq[1] < seq[0];" },
  },
}
