-- Faults to put back into the ZooKeeper store's recipe; spec/sim_zookeeper_spec
-- shows that the histories find each of them. A blank in `find` stands for any
-- blanks and line ends.

local ROOM = "csrc/store/zookeeper/"

return {
  { name = "a renewal is not answered where another watches the node already",
    file = ROOM .. "watch.c",
    find = "if (own && w->armed) dlk_zk_own_armed(n, w->revoked);",
    put = "if (own && w->armed) n->watched = true;" },
  { name = "a waiter does not hear that the node ahead is gone",
    file = ROOM .. "watch.c",
    find = "if (n->step != DLK_ZK_WAITING) return;",
    put = "if (n->step != DLK_ZK_WAITING || rc == DLK_ZK_NONODE) return;" },
  { name = "nobody goes on after a reconnect", file = ROOM .. "house.c",
    find = "resume_nodes(s); dlk_zk_asks_resume(s);",
    put = "if (first) resume_nodes(s); dlk_zk_asks_resume(s);" },
  { name = "a writer comes in with readers", file = ROOM .. "queue.c",
    find = "if (me->units == 0 || other->units == 0) {",
    put = "if (other->units == 0) {" },
}
