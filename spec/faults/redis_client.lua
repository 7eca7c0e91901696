-- Faults to put back into the client's side of the Redis store (see
-- spec/sim_network_spec): what a client may believe, and what it must clean up.
-- A blank in `find` stands for any blanks and line ends.

local function of(file)
  return "csrc/store/redis/" .. file
end

return {
  { name = "a hand-off counts for the whole ttl, unconfirmed",
    file = of "wait.c",
    find = "dlk_redis_granted(t, fence, now, end);",
    put = "dlk_redis_granted(t, fence, now, 0);" },
  { name = "a hand-off's claim counts from when it is heard",
    file = of "wait.c",
    find = "int64_t end = dlk_lease_deadline(t->waited_at, claim);",
    put = "int64_t end = dlk_lease_deadline(dlk_redis_now(t->store), claim);" },
  { name = "the old token joins anew", file = of "acquire.c",
    find = "t->joined = false; dlk_redis_token_new(s, h);",
    put = "  t->joined = false;" },
  { name = "the deadline counts from the answer", file = of "acquire.c",
    find = "lease->sent = sent;",
    put = "  lease->sent = sent = dlk_redis_now(t->store);" },
  { name = "a renewal counts from its answer", file = of "hold.c",
    find = "s->host->renewed(s->host, lease, call->req.sent);",
    put = "    s->host->renewed(s->host, lease, dlk_redis_now(s));" },
  { name = "a token of unknown fate is not taken back", file = of "orphan.c",
    find = "dlk_list_append(&s->orphans, &o->entry); s->orphan_count++;"
      .. " send(o);",
    put = "  free(o);" },
  { name = "a lost renewal ends in silence as if it had been renewed",
    file = of "hold.c",
    find = "s->host->renew_failed(s->host, lease);",
    put = "    s->host->renewed(s->host, lease, call->req.sent);" },
  { name = "a hold from hand to hand does not know its name",
    file = of "hold.c",
    find = "b->token_len = a->token_len;",
    put = "  " },
  { name = "the new connection leaves the old one to itself", lax = "kill" },
}
