-- Faults to put back into the ZooKeeper store's recipe; spec/sim/zookeeper_spec
-- shows that the histories find each of them. A blank in `find` stands for any
-- blanks and line ends.

local ROOM = "csrc/store/session/"
local faults = {}

faults.recipe = {
  { name = "a renewal is not answered where another watches the node already",
    file = ROOM .. "life/watch.c",
    find = "if (own && w->armed) tell_armed(w, r);",
    put = "" },
  { name = "a waiter does not hear that the node ahead is gone",
    file = ROOM .. "recipe/place.c",
    find = "if (n->step != DLK_SS_WAITING) return; if (rc == DLK_SS_NONODE",
    put = "if (n->step != DLK_SS_WAITING || rc == DLK_SS_NONODE) return;"
      .. " if (rc == DLK_SS_NONODE" },
  { name = "who is third in the queue counts as second",
    file = ROOM .. "recipe/place.c",
    find = "n->second = j->me == 1 &&", put = "n->second = j->me <= 2 &&" },
  { name = "who waits for one of several readers counts as second",
    file = ROOM .. "recipe/place.c",
    find = "n->second = j->me == 1 &&",
    put = "n->second = j->watch_count == 1 &&" },
  { name = "a mark on the node ahead counts as its end",
    file = ROOM .. "recipe/place.c",
    find = "if (rc == DLK_SS_NONODE && n->second",
    put = "if (rc != DLK_SS_CUT && n->second" },
  { name = "who asks while a list is under way is forgotten",
    file = ROOM .. "recipe/lists.c",
    find = "if (!dlk_list_empty(&l->next)) {",
    put = "if (false) {" },
  { name = "who asks while a list is under way is told by it",
    file = ROOM .. "recipe/lists.c",
    find = "n->due = first; dlk_list_append(first ? &l->due : &l->next,",
    put = "n->due = true; dlk_list_append(&l->due," },
  { name = "nobody goes on after a reconnect",
    file = ROOM .. "life/sessions.c",
    find = "tell_all(&s->nodes, tell_resumed);",
    put = "if (first) tell_all(&s->nodes, tell_resumed);" },
  { name = "who waits on the list of children is forgotten",
    file = ROOM .. "life/watch.c",
    find = "w->armed = false; if (!read_path(w)) return false;",
    put = "w->armed = false;" },
  { name = "who stands behind a min_hold counts as second",
    file = ROOM .. "recipe/place.c",
    find = "(!q->at[0].keeps || q->at[0].until_ms > 0)", put = "true" },
  { name = "a grant is told before its stand-in is there",
    file = ROOM .. "recipe/hold.c",
    find = "if (n->lease->min_hold > 0 && !n->kept) {",
    put = "n->kept = n->lease->min_hold > 0;"
      .. " if (n->kept && !n->standin)"
      .. " (void)dlk_ss_standin_make(n, on_kept); if (false) {" },
  { name = "a stand-in ends at once",
    file = ROOM .. "recipe/standin.c",
    find = "if (end == 0 || end > st->clock.ms) continue;",
    put = "if (end == 0) continue;" },
  { name = "a writer comes in with readers",
    file = "csrc/store/kit/admission.c",
    find = "if (a.units == 0 || b.units == 0)", put = "if (b.units == 0)" },
}

-- What is believed of a session, and for how long.
faults.session = {
  { name = "a confirm that was not answered before the cut counts",
    file = ROOM .. "life/proof.c",
    find = "p->sent[0] = p->sent[1]; p->flying = 0;",
    put = "if (p->flying) p->sent[1] = p->sent[2];"
      .. " p->sent[0] = p->sent[1]; p->flying = 0;" },
  { name = "an answer proves the time when it was asked for",
    file = ROOM .. "life/proof.c",
    find = "int64_t proven = p->sent[2 - p->rule->lag];",
    put = "int64_t proven = p->sent[2];" },
  { name = "a connection counts from when we hear of it",
    file = ROOM .. "life/sessions.c",
    find = "dlk_ss_proof_restart(&s->proof); s->confirm_not_before = 0;",
    put = "s->proof.sent[1] = dlk_ss_session_now(s);"
      .. " dlk_ss_proof_restart(&s->proof); s->confirm_not_before = 0;" },
  { name = "a connection is closed before its holds are told",
    file = ROOM .. "life/sessions.c",
    find = "dlk_ss_session_tell(s, DLK_SS_USE_HELD, tell_over);",
    put = "(void)tell_over;" },
  { name = "a connection begins with nothing proven",
    file = ROOM .. "life/proof.c",
    find = "p->sent[0] = p->sent[1]; p->flying = 0;",
    put = "p->sent[0] = p->sent[1] = 0; p->flying = 0;" },
}

return faults
