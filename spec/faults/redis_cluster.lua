-- Faults to put back into the router of a Redis Cluster (see
-- spec/sim/cluster_spec): where requests go, how often, and what is believed of
-- nodes that lost a slot. As in redis_client.lua.

local ROUTER = "csrc/store/redis/conn/cluster.c"
local MAP = "csrc/store/redis/conn/cluster_map.c"

return {
  { name = "a redirect is followed and forgotten", file = ROUTER,
    find = "if (to) own(c, slot, to);", put = "" },
  { name = "redirects are followed without a pause", file = ROUTER,
    find = "if (to && ++r->route.hops <= HOPS)", put = "if (to)" },
  { name = "what ASK sends on counts as moved", file = ROUTER,
    find = "if (kind == DLK_REDIS_MOVED) {",
    put = "if (moves) {" },
  { name = "what ASK sends on goes without ASKING", rare = true,
    edits = {
      { file = ROUTER,
        find = 'if (r->route.asks) dlk_redis_put_words(out, "ASKING", NULL);',
        put = "" },
      { file = ROUTER, find = "r->replies += r->route.asks;", put = "" } } },
  { name = "an answer that was lost is asked for elsewhere", file = ROUTER,
    find = "c->link.refused = n->link->refused;",
    put = "if (a->outcome == DLK_REDIS_UNKNOWN && c->state == RUNNING) "
      .. "{ dispatch(c, r); return; } "
      .. "c->link.refused = n->link->refused;" },
  { name = "counters are not lifted at a slot's new owner", rare = true,
    edits = {
    { file = ROUTER, find = "c->link.connections++;", put = "" },
    { file = ROUTER, find = "c->link.connections += news->changed;",
      put = "" },
    { file = ROUTER, find = "all->connections += n->link->connections"
      .. " - n->connections;", put = "" },
    { file = ROUTER, find = "of_node(n)->link.connections += now(of_node(n))"
      .. " - n->heard_at > SILENT;", put = "" } } },
  { name = "a node that is gone is waited for", rare = true, edits = {
    { file = MAP, find = "m->trouble = true; m->doubted = n;",
      put = "(void)n; return;" },
    { file = MAP, find = "bool due = m->ask_at && m->ask_at <= at;",
      put = "bool due = m->ask_at && m->ask_at <= at && !m->nodes.known;" } } },
  { name = "a request that pauses cannot be taken back", rare = true,
    file = ROUTER,
    find = "if (l == &r->entry) { dlk_list_remove(l); return true; }",
    put = "if (l == &r->entry) return true;" },
  { name = "what a node may have of a lost connection is forgotten",
    rare = true, file = ROUTER, find = "set_lost(n, true);", put = ";" },
  { name = "a share is looked for by the lock's name alone", rare = true,
    file = "csrc/store/redis/conn/cluster.c",
    find = "r->narrow = false; if (at - r->route.since",
    put = "if (at - r->route.since" },
  { name = "what waits for a node that lost its slots stays there",
    rare = true, file = ROUTER,
    find = "send_on(c, c->map.nodes.all[i]);", put = "{}" },
}
