-- Faults to put back into the client's side of the Redis store, and into the
-- engine above it (see spec/sim/network_spec): what a client may believe, what
-- it must clean up, and what it does once. A blank in `find` stands for any
-- blanks and line ends. Some need several edits.

local function of(file)
  return "csrc/store/redis/" .. file
end

local function engine(file)
  return "csrc/engine/" .. file
end

return {
  { name = "a hand-off counts for the whole ttl, unconfirmed",
    file = of "recipe/wait.c",
    find = "dlk_redis_granted(t, fence, now, end);",
    put = "dlk_redis_granted(t, fence, now, 0);" },
  { name = "a hand-off's claim counts from when it is heard",
    file = of "recipe/wait.c",
    find = "int64_t end = dlk_lease_deadline(t->acquire.waited_at, claim);",
    put = "int64_t end = dlk_lease_deadline(dlk_redis_now(t->store), "
      .. "claim);" },
  { name = "the old token joins anew",
    file = of "recipe/candidate.c",
    find = "t->placed = t->unsure = false; dlk_redis_draw_token(t);",
    put = "t->placed = t->unsure = false;" },
  { name = "the deadline counts from the answer",
    file = of "recipe/candidate.c",
    find = "lease->sent = sent;",
    put = "  lease->sent = sent = dlk_redis_now(t->store);" },
  { name = "a renewal counts from its answer", file = of "recipe/hold.c",
    find = "s->host->renewed(s->host, lease, call->req.sent);",
    put = "    s->host->renewed(s->host, lease, dlk_redis_now(s));" },
  { name = "a token of unknown fate is not taken back", file = of "op/orphan.c",
    find = "if (o) send(o);", put = "if (o) drop(o);" },
  { name = "a lost renewal ends in silence as if it had been renewed",
    file = of "recipe/hold.c",
    find = "s->host->renew_failed(s->host, lease);",
    put = "    s->host->renewed(s->host, lease, call->req.sent);" },
  { name = "a hold that was handed on locally does not know its name",
    file = of "op/token.c",
    find = "to->len = from->len;",
    put = "  " },
  { name = "the new connection leaves the old one to itself", lax = "kill" },

  -- counters
  { name = "a counter counts as lifted on whatever connection",
    file = of "op/fence.c",
    find = "dlk_redis_lately_clear(&f->lifted);", put = "" },
  { name = "what is plain is decided when it is submitted", rare = true,
    edits = {
    { file = of "op/call.c",
      find = "if (c->script == DLK_REDIS_TAKE &&",
      put = "if (false &&" },
    { file = of "op/call.c",
      find = "call->script = (int8_t)script;",
      put = "call->script = (int8_t)script;"
        .. " if (script == DLK_REDIS_TAKE && !dlk_redis_fence_is_plain("
        .. "&call->store->fences, call->key, call->key_len, call->holds,"
        .. " dlk_redis_now(call->store))) call->script = DLK_REDIS_TRY;" } } },
  { name = "a script that handed nothing on counts as a lift",
    file = of "op/call.c",
    find = "&& c->lifts && dlk_redis_int(reply, 2, 0) == 1;",
    put = "&& c->lifts;" },

  -- leases that are extended
  { name = "a renewal that crosses an extension puts the old time back",
    edits = {
      { file = engine "hold/renewal.c",
        find = "|| h->extending ||", put = "||" },
      { file = engine "hold/lease.c",
        find = "&& !h->extending && end < h->max_end",
        put = "&& end < h->max_end" } } },
  { name = "an extension for less time counts from its answer",
    file = engine "hold/lease.c", find = "if (h->cut_to < at) at = h->cut_to;",
    put = "" },
  { name = "an extension for less time that came to nothing is forgotten",
    file = engine "hold/lease.c",
    find = "if (done && !h->extending) h->cut_to = DLK_FOREVER;",
    put = "if (!h->extending) { h->cut_to = DLK_FOREVER; set_deadline(h); }" },
  { name = "a renewal of before gives back what an extension cuts",
    file = engine "hold/renewal.c",
    find = "if (!h->extending) h->cut_to = DLK_FOREVER;",
    put = "h->cut_to = DLK_FOREVER;" },
  { name = "an extension whose answer is lost counts as done",
    file = of "op/try.c",
    find = "bool unsure_before = t->unsure;",
    put = "bool unsure_before = t->unsure; if (step->aim == "
      .. "DLK_REDIS_TO_EXTEND && verdict == DLK_REDIS_UNSURE) { "
      .. "t->op->lease->sent = t->call.req.sent; dlk_redis_done(t, "
      .. "NULL); return; }" },
  { name = "a lease is renewed while it is being detached",
    edits = {
      { file = engine "ticket/request.c",
        find = "if (ours && t->op.kind == DLK_OP_DETACH)",
        put = "if (false)" },
      { file = engine "ticket/request.c",
        find = "} else if (held && t->op.kind == DLK_OP_DETACH) {",
        put = "} else if (false) {" } } },
  { name = "a release is tried for no longer than before the extension",
    file = of "recipe/release.c",
    find = "if (until < h->server_max_end)", put = "if (false)" },

  -- leases that are detached, broken, downgraded
  { name = "a detach that nobody takes keeps the lease",
    file = engine "ticket/ticket.c",
    find = "return dlk_ticket_makes_hold(t) || dlk_ticket_detaches(t);",
    put = "return dlk_ticket_makes_hold(t);" },
  { name = "a detach that nobody takes is given back only if it was dropped"
      .. " while it was under way",
    file = engine "ticket/request.c",
    find = "else if (dlk_ticket_gives(t) && !dlk_ticket_error(t)",
    put = "else if (dlk_ticket_makes_hold(t) && !dlk_ticket_error(t)" },
  { name = "a late hand-off message takes back what has been detached",
    file = of "recipe/messages.c", find = "if (h && h->waiting)",
    put = "if (!h) { struct dlk_redis_token old = { .len = (uint8_t)(len -"
      .. " (size_t)(token - p)) }; memcpy(old.text, token, old.len);"
      .. " dlk_redis_orphan(s, \"lock\", 4, &old,"
      .. " dlk_redis_now(s) + DLK_SEC); }"
      .. "if (h && h->waiting)" },
  { name = "a detach does not wait for what is tried again",
    file = engine "ticket/request.c",
    find = "if (t->op.kind == DLK_OP_DETACH && h->ops > 0)",
    put = "if (false)" },
  { name = "a detach counts that is answered when the lease is over",
    file = engine "ticket/request.c", find = "return changes &&",
    put = "return false && changes &&" },
  { name = "a detached lease is listened for",
    file = of "recipe/attach.c",
    find = "if (v) dlk_redis_token_drop(&t->store->tokens, &h->token);",
    put = "" },
  { name = "a lease that a guarded write found lost is listened for",
    file = of "op/try.c",
    find = "|| err->code == DLK_LOST))", put = "))" },
  { name = "a break whose message crosses a renewal is not minded",
    file = of "recipe/hold.c", find = "h->broken = true;", put = "" },
  { name = "a break is told while the renewal is under way",
    file = of "recipe/hold.c",
    find = "if (h->call.busy) { h->lease->handoffs.spare = 0; /* nor is it"
      .. " handed over meanwhile */ return; }",
    put = "" },
  { name = "a downgraded lease is handed on locally",
    file = engine "local/handoff.c", find = "if (kind == DLK_OP_DOWNGRADE)",
    put = "if (false)" },
  { name = "later waiters take part in a local hand-off",
    file = engine "local/local_queue.c",
    find = "return t->op.started < from->lease.handoffs.before;",
    put = "return true;" },
  { name = "who comes before the answer goes along", file = of "recipe/wait.c",
    find = "? call->req.sent : call->req.sent - since * DLK_US;",
    put = "? call->req.sent : dlk_redis_now(call->store);" },

  { name = "a string is attached as often as it is asked for",
    file = of "recipe/attach.c",
    find = "dlk_redis_token_make(&t->store->tokens, t->store->host,"
      .. " &h->token, h->lease->owner);",
    put = "" },
  { name = "each attempt to attach has another token",
    file = of "recipe/attach.c",
    find = "dlk_redis_put(out, old, len); renew_args(t, out);",
    put = "dlk_redis_token_make(&t->store->tokens, t->store->host, "
      .. "&dlk_redis_try_hold(t)->token, t->op->lease->owner); "
      .. "dlk_redis_put(out, old, len); renew_args(t, out);" },
  { name = "an attach that was given up is left as it is", rare = true,
    file = of "op/rules.c",
    find = "RULE(ATTACH) = {AGAIN_BACK, AGAIN_BACK, BACK, BACK,",
    put = "RULE(ATTACH) = {AGAIN, AGAIN, TELL, TELL," },

  -- guarded writes
  { name = "a guarded write whose answer is lost is repeated",
    file = of "op/rules.c",
    find = "RULE(GUARD) = {TELL, WARN,",
    put = "RULE(GUARD) = {TELL, AGAIN," },
  { name = "a lease is handed on with a write under way",
    file = engine "local/handoff.c", find = "&& h->ops == 0 &&", put = "&&" },

  -- what the server refuses
  { name = "a wait that was denied is listened for", file = of "op/try.c",
    find = "(t->op->kind == DLK_OP_ACQUIRE || err->code == DLK_LOST)",
    put = "err->code == DLK_LOST" },
  { name = "a wait that was denied leaves its place to itself",
    rare = true,
    file = of "op/rules.c",
    find = "RULE(SUBSCRIBE) = {WAIT_BACK, WAIT_BACK, BACK,",
    put = "RULE(SUBSCRIBE) = {WAIT_BACK, WAIT_BACK, TELL," },
  { name = "a release is given up when the server refuses for a moment",
    rare = true,
    file = of "op/rules.c",
    find = "RULE(RELEASE) = {AGAIN_BACK, AGAIN_BACK,",
    put = "RULE(RELEASE) = {BACK, AGAIN_BACK," },
  { name = "a release that is given up is left to the ttl",
    file = of "op/rules.c",
    find = "RULE(RELEASE) = {AGAIN_BACK, AGAIN_BACK, BACK, BACK,",
    put = "RULE(RELEASE) = {AGAIN, AGAIN, TELL, TELL," },
  { name = "what a loading server refuses is taken for good",
    file = of "wire/errors.c", find = '"LOADING", DLK_REDIS_RETRY',
    put = '"LOADING", DLK_REDIS_FAIL' },
  { name = "a grant that too few replicas have is left on the server",
    file = of "op/rules.c",
    find = "RULE(TRY) = WAIT_ANEW,", put = "RULE(TRY) = TELL," },
  { name = "a place that too few replicas have is left on the server",
    file = of "op/rules.c",
    find = "RULE(JOIN) = WAIT_ANEW,", put = "RULE(JOIN) = TELL," },
}
