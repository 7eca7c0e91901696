-- Faults to put back into the etcd store's driver; spec/sim/etcd_spec shows
-- that the histories find each of them. A blank in `find` stands for any blanks
-- and line ends.

local ROOM = "csrc/store/session/etcd/"

return {
  { name = "a create of a lost connection is done later",
    file = ROOM .. "asks.c", find = "if_epoch(l, out); dlk_etcd_do_put(",
    put = "dlk_etcd_do_put(" },
  { name = "what is asked behind a write may pass it",
    file = "csrc/store/session/asks/asks.c", find =
      "if (b->phase != DLK_SS_ASK_DONE && same && (a->writes || b->writes))",
    put = "(void)same; if (b->phase != DLK_SS_ASK_DONE && a->rides)" },
  { name = "a watch begins behind what it may have missed",
    file = ROOM .. "watch.c", find = "w->from = revision + 1;",
    put = "w->from = revision + 2;" },
  { name = "watches end with their connection",
    file = ROOM .. "driver.c", find = "dlk_etcd_watches_renew(l);",
    put = "" },
  { name = "a watch that was compacted is forgotten",
    file = ROOM .. "watch.c", find = "if (!w || (!event && !got.canceled))",
    put = "if (!w || !event)" },
}
