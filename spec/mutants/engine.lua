-- Mutants of csrc/loop and csrc/engine.


return {
  specs = "spec/engine/core_spec.lua"
    .. " spec/engine/engine_spec.lua spec/engine/handoff_spec.lua"
    .. " spec/sim/network_spec.lua spec/engine/detach_spec.lua"
    .. " spec/engine/close_spec.lua"
    .. " spec/engine/resident_spec.lua spec/engine/scopes_spec.lua"
    .. " spec/engine/stats_spec.lua spec/engine/threads_spec.lua"
    .. " spec/lua/loops_spec.lua spec/contract/contract_spec.lua"
    .. " spec/sim/redis_spec.lua spec/redis/time_spec.lua",
  mutants = {
    { name = "a lease that was seen to have ended is held again",
      file = "csrc/engine/hold/lease.c",
      find = "if (left > 0) return left; atomic_store(&h->expired, true);",
      put = "if (left > 0) return left;" },
    { name = "held() does not look at the session's end",
      file = "csrc/engine/hold/lease.c",
      find = "return own < all ? own : all;", put = "(void)all; return own;" },
    { name = "max_hold does not end a lease", file = "csrc/engine/hold/lease.c",
      find = "if (h->max_end < at) at = h->max_end;", put = "" },
    { name = "a claim counts as long as the ttl",
      file = "csrc/engine/hold/lease.c",
      find = "if (h->lease.claim && h->lease.claim < at) at = h->lease.claim;",
      put = "" },
    { name = "an extension under way does not cut the deadline",
      file = "csrc/engine/hold/lease.c",
      find = "if (h->cut_to < at) at = h->cut_to;", put = "" },
    { name = "a grant that came too late is handed out",
      file = "csrc/engine/hold/lease.c",
      find = "return h->lease.claim ? h->lease.claim > now : given - now >="
        .. " least;",
      put = "(void)given; (void)least; return h->lease.claim == 0 ||"
        .. " h->lease.claim > now;" },
    { name = "nobody hears of a loss", file = "csrc/engine/hold/lease.c",
      find = [[dlk_hold_tell(h, "lost", err.text);]], put = "" },
    { name = "a lost lease is left on the server",
      file = "csrc/engine/hold/lease.c",
      find = "passed_why(h, now)); dlk_hold_give_back(h);",
      put = "passed_why(h, now));" },
    { name = "a renewal that comes after the deadline counts",
      file = "csrc/engine/hold/renewal.c",
      find = "if (dlk_hold_check(h, dlk_clock_now())) { h->lease.sent = sent;",
      put = "if (dlk_hold_is_held(h)) {"
        .. " h->lease.sent = sent;" },
    { name = "a renewal that failed is not tried again",
      file = "csrc/engine/hold/renewal.c",
      find = "int64_t at = now + pause;", put = "int64_t at = end;" },
    { name = "a renewal counts from its answer",
      file = "csrc/engine/hold/renewal.c",
      find = "h->lease.sent = sent; h->lease.claim = 0;",
      put = "(void)sent; h->lease.sent = dlk_clock_now();"
        .. " h->lease.claim = 0;" },
    { name = "a grant that crossed a cancel is handed out",
      file = "csrc/engine/ticket/request.c",
      find = "t->op.ending == DLK_CANCELLED || t->op.ending == DLK_CLOSED ||",
      put = "" },
    { name = "what is extended after its end says ok",
      file = "csrc/engine/ticket/request.c",
      find = "return changes && !dlk_hold_check(t->hold, dlk_clock_now());",
      put = "return changes && false;" },
    { name = "a locally queued wait has no end",
      file = "csrc/engine/local/local_queue.c",
      find = "dlk_timers_set_end(&e->loop.timers, &t->timer, t->op.deadline);"
        .. " dlk_local_look(g);",
      put = "dlk_local_look(g);" },
    { name = "a hand-off to one of another ttl",
      file = "csrc/engine/local/local_queue.c",
      find = "from->lease.ttl != to->lease.ttl ||", put = "" },
    { name = "a lease is handed over while a request for it is under way",
      file = "csrc/engine/local/handoff.c",
      find = "dlk_hold_is_renewed(h) && h->ops == 0 &&",
      put = "dlk_hold_is_renewed(h) &&" },
    { name = "a lease whose end was asked for is handed over",
      file = "csrc/engine/local/handoff.c",
      find = "h->ops == 0 && !atomic_load(&h->revoked);",
      put = "h->ops == 0;" },
    { name = "the fence stays when a lease is handed over",
      file = "csrc/engine/local/handoff.c",
      find = "to->fence = from->fence + 1;", put = "to->fence = from->fence;" },
    { name = "a hold of unknown outcome is handed over",
      file = "csrc/engine/local/handoff.c",
      find = "if (code != DLK_OK) h->lease.handoffs.spare = 0;", put = "" },
    { name = "an abandoned wait goes on", file = "csrc/engine/ticket/ticket.c",
      find = "if (dlk_ticket_decide(t, DLK_FATE_OPEN, DLK_FATE_ABANDONED))"
        .. " post_cancel(t);",
      put = ";" },
    { name = "a scope ends a hold that others share",
      file = "csrc/engine/nginx/scope.c",
      find = "if (dlk_handle_give_up(&handle))"
        .. " dlk_hold_release_later(handle.hold); }",
      put = "dlk_handle_give_up(&handle);"
        .. " dlk_hold_release_later(handle.hold); }" },
    { name = "a password stays in memory that was freed",
      file = "csrc/engine/open.c",
      find = "if (e->conf_memory)"
        .. " explicit_bzero(e->conf_memory, e->conf_size);",
      put = "" },
    { name = "what was posted while the loop was owned is nobody's",
      file = "csrc/loop/owner.c",
      find = "if (!dlk_inbox_empty(&l->inbox)) { /* it came since",
      put = "if (0) { /* it came since",
      specs = "spec/engine/core_spec.lua" },
  },
}
