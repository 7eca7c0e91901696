-- Mutants of csrc/store/redis/conn: names, and how connections are made and
-- made again.

local RESOLVE = "csrc/store/redis/conn/resolve.c"
local LOOKUPS = "spec/redis/resolve_spec.lua"
local LIFETIME = "csrc/store/redis/conn/lifetime.c"
local STORM = "spec/redis/storm_spec.lua"

return {
  specs = "spec/redis/resolve_spec.lua spec/redis/connect_spec.lua"
    .. " spec/redis/net_spec.lua",
  mutants = {
    { name = "a node of a cluster is used until it refuses a name",
      file = "csrc/store/redis/conn/handshake.c",
      specs = "spec/redis/connect_spec.lua",
      find = "judge_cluster(g);", put = "(void)judge_cluster;" },
    { name = "a connection that is needed is closed for being idle",
      file = "csrc/store/redis/conn/due.c", specs = "spec/redis/time_spec.lua",
      find = "if (m->wanted || m->needed)", put = "if (m->wanted)" },
    { name = "a connection that was ready for a moment has stood",
      file = LIFETIME, specs = STORM,
      find = "- c->state_since >= STANDS;", put = "- c->state_since >= 0;" },
    { name = "a connection that did not stand is made anew at once",
      file = LIFETIME, specs = STORM,
      find = "c->failures = !lasting;", put = "c->failures = 0;" },
    { name = "an answer that comes too late for its attempt is thrown away",
      file = RESOLVE, specs = LOOKUPS,
      find = "if (heard) answer_unref(a); else keep(q, a);",
      put = "answer_unref(a); (void)heard; (void)keep;" },
    { name = "each attempt to connect asks for the name anew", file = RESOLVE,
      specs = LOOKUPS, find = "bool asked = q->threads > 0;",
      put = "bool asked = false;" },
    { name = "a fork's child counts its parent's look-ups", file = RESOLVE,
      specs = LOOKUPS, find = "under_way = 0; sweep();", put = "sweep();" },
    { name = "a fork's child listens to its parent's threads", file = RESOLVE,
      specs = LOOKUPS, find = "q->refs -= q->threads; q->threads = 0;",
      put = "(void)q;" },
  },
}
