-- Mutants of csrc/store/redis (the C; the scripts have a list of their own).

local CANDIDATE = "csrc/store/redis/recipe/candidate.c"
local RELEASE = "csrc/store/redis/recipe/release.c"
local RULES = "csrc/store/redis/op/rules.c"
local WAIT = "csrc/store/redis/recipe/wait.c"
local CODEC = "csrc/store/redis/wire/codec.c"
local SIM = "spec/sim/redis_spec.lua"

local CUT = "spec/redis/sentinel/cut_spec.lua"
local FIND = "spec/redis/sentinel/find_spec.lua"
local REPLICAS = "spec/redis/sentinel/replicas_spec.lua"
local CONNECT = "spec/redis/connect_spec.lua"

return {
  specs = "spec/sim/network_spec.lua spec/redis/library_spec.lua"
    .. " spec/redis/queue_spec.lua spec/redis/waiting_spec.lua"
    .. " spec/redis/errors_spec.lua"
    .. " spec/redis/connect_spec.lua spec/redis/net_spec.lua"
    .. " spec/redis/names_spec.lua spec/redis/admin_spec.lua"
    .. " spec/redis/foreign_spec.lua spec/redis/faults_spec.lua"
    .. " spec/redis/time_spec.lua"
    .. " " .. SIM
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "a grant counts from its answer", file = CANDIDATE,
      find = "lease->sent = sent; lease->claim = claim;",
      put = "(void)sent; lease->sent = dlk_redis_now(t->store);"
        .. " lease->claim = claim;" },
    { name = "a token of unknown outcome is asked for again",
      file = CANDIDATE,
      find = "dlk_redis_new_token(t); if (first) first(t);",
      put = "t->placed = t->unsure = false; if (first) first(t);" },
    { name = "a token of unknown outcome is not taken back",
      file = CANDIDATE,
      find = "first(t); dlk_redis_orphan(",
      put = "first(t); if (first) dlk_redis_orphan(" },
    { name = "a hand-off is believed to the end of its claim from its"
        .. " arrival",
      file = WAIT,
      find = "int64_t end = dlk_lease_deadline(t->acquire.waited_at, claim);",
      put = "int64_t end = dlk_lease_deadline(dlk_redis_now(t->store), "
        .. "claim);" },
    { name = "an old hand-off is taken",
      file = WAIT,
      find = "|| fence <= t->acquire.waited_fence ||",
      put = "||" },
    { name = "a hand-off is taken while a request is under way",
      file = WAIT,
      find = "if (!is_waiting(t) ||",
      put = "if (t->step == &leaving ||" },
    { name = "a hand-off with little of its claim left is taken", file = WAIT,
      find = "end - now <= claim / 2", put = "end - now <= 0" },
    { name = "a cancel does not leave the queue",
      file = RULES,
      find = "RULE(JOIN) = {WAIT_BACK, ANEW, BACK, LEAVE,",
      put = "RULE(JOIN) = {WAIT_BACK, ANEW, BACK, TELL," },
    { name = "who was cancelled while it joined stays",
      file = WAIT,
      find = "if (t->op->ending != DLK_OK) { queue_leave(t); "
        .. "return; } if (t->acquire.news",
      put = "if (t->acquire.news" },
    { name = "a release whose answer was lost is told as lost",
      file = RELEASE,
      find = "if (t->release.ours || first_did_it)",
      put = "if (t->release.ours)" },
    { name = "min_hold counts from the release",
      file = "csrc/store/redis/recipe/hold.c",
      find = "return min <= 0 ? 0 : h->granted + min - dlk_redis_now(s);",
      put = "(void)s; return min <= 0 ? 0 : min;" },
    { name = "what a server says of a password is quoted", specs = CONNECT,
      file = "csrc/store/redis/conn/handshake.c",
      find = "else if (step == AUTH)", put = "else if (false)" },
    { name = "a reply of any size is taken", file = CODEC,
      find = "if (s->number > DLK_REDIS_REPLY_MAX) return false;", put = "" },
    { name = "a server that was restarted is not noticed",
      file = "csrc/store/redis/conn/net.c", specs = "spec/redis/moved_spec.lua",
      find = "if (moved) n->events->moved(n->arg);", put = "(void)moved;" },
    { name = "a replica is taken for the primary",
      file = "csrc/store/redis/conn/handshake.c",
      specs = FIND,
      find = 'if (g->changes && strcmp(role, "slave") == 0)',
      put = 'if (strcmp(role, "replica") == 0)' },
    { name = "the answer to WAIT is not read",
      file = "csrc/store/redis/conn/pipe.c", specs = REPLICAS,
      find = ".scarce = have < wanted,", put = ".scarce = wanted == 0," },
    { name = "a renewal counts without its replicas",
      file = "csrc/store/redis/recipe/hold.c", specs = REPLICAS,
      find = "(left >= 0 && call->scarce))",
      put = "(left < 0 && call->scarce))" },
    { name = "a grant that too few replicas have is left there",
      file = "csrc/store/redis/op/rules.c", specs = REPLICAS,
      find = "RULE(TRY) = WAIT_ANEW,", put = "RULE(TRY) = TELL," },
    { name = "a message begins a hold that no replica may have",
      file = "csrc/store/redis/recipe/wait.c", specs = CUT,
      find = "t->op->lease->handoffs.most > 0 || t->store->replicas > 0 ||",
      put = "t->op->lease->handoffs.most > 0 ||" },
  },
}
