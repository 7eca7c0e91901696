-- Mutants of csrc/store/redis (the C; the scripts have a list of their own).

local ACQUIRE = "csrc/store/redis/recipe/acquire.c"
local CANDIDATE = "csrc/store/redis/recipe/candidate.c"
local RELEASE = "csrc/store/redis/recipe/release.c"
local TRY = "csrc/store/redis/op/try.c"
local RULES = "csrc/store/redis/op/rules.c"
local NAMES = "csrc/store/redis/wire/names.c"
local WAIT = "csrc/store/redis/recipe/wait.c"
local HOLD = "csrc/store/redis/recipe/hold.c"
local CALL = "csrc/store/redis/op/call.c"
local ERRORS = "csrc/store/redis/wire/errors.c"
local CODEC = "csrc/store/redis/wire/codec.c"
local SIM = "spec/sim/redis_spec.lua"

return {
  specs = "spec/sim/network_spec.lua spec/redis/library_spec.lua"
    .. " spec/redis/queue_spec.lua"
    .. " spec/redis/errors_spec.lua"
    .. " spec/redis/connect_spec.lua spec/redis/net_spec.lua"
    .. " spec/redis/names_spec.lua spec/redis/admin_spec.lua"
    .. " spec/redis/foreign_spec.lua spec/redis/faults_spec.lua"
    .. " spec/redis/time_spec.lua"
    .. " " .. SIM
    .. " spec/contract/contract_spec.lua",
  mutants = {
    -- acquire.c
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
    { name = "a refusal is tried again until the time is over",
      file = RULES,
      find = "RULE(TRY) = {WAIT_BACK, ANEW, BACK, LEAVE,",
      put = "RULE(TRY) = {WAIT_BACK, ANEW, AGAIN, LEAVE," },
    { name = "a time-out without any answer is a time-out", file = TRY,
      find = "dlk_redis_done_code(t, t->answered ? code : DLK_UNAVAILABLE);",
      put = "dlk_redis_done_code(t, code);" },
    { name = "a fence is taken although the SET was refused",
      file = ACQUIRE,
      find = "if (pair && set->type == REDIS_REPLY_NIL) {",
      put = "if (pair && set->type == REDIS_REPLY_NIL && t->op->wait) {" },
    { name = "a counter that is missing gives a small fence",
      file = ACQUIRE,
      find = "} else if (seeded) {", put = "} else if (number) {" },
    { name = "who seeds a fence and is cancelled keeps the lock",
      file = RULES,
      find = "RULE(SEED) = {WAIT_BACK, ANEW, BACK, BACK, BACK,",
      put = "RULE(SEED) = {WAIT_BACK, ANEW, BACK, BACK, TELL," },
    { name = "a newcomer passes who is known to wait",
      file = ACQUIRE,
      find = "t->acquire.order[0] || op->parked || "
        .. "dlk_redis_is_crowded(t->store, op->key, op->key_len)))",
      put = "t->acquire.order[0] || op->parked))",
      same = "SET NX of an occupied key fails, and of a free one with a queue"
        .. " the order is promised only but for an expiry: a short cut that"
        .. " the mark saves, one request earlier" },
    -- wait.c
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
    { name = "news that cross a refresh are forgotten",
      file = WAIT,
      find = "if (t->call.busy) t->acquire.news = true;",
      put = "if (t->call.busy) ;" },
    { name = "the first waiter does not watch the holder's end",
      file = WAIT,
      find = "if (t->acquire.rank == 0 && pttl >= 0 && ends < at) at = ends;",
      put = "(void)ends;" },
    { name = "a server that dropped dead waiters is not asked again",
      file = WAIT,
      find = "if (t->acquire.news || dlk_redis_int(reply, 6, 0) == 1) {",
      put = "if (t->acquire.news) {" },
    { name = "who is not known any more keeps its token",
      file = WAIT,
      find = [[strcmp(word, "gone") == 0) { dlk_redis_new_token(t);]],
      put = [[strcmp(word, "gone") == 0) {]] },
    { name = "a cancel does not leave the queue",
      file = RULES,
      find = "RULE(JOIN) = {WAIT_BACK, ANEW, BACK, BACK, LEAVE,",
      put = "RULE(JOIN) = {WAIT_BACK, ANEW, BACK, BACK, TELL," },
    { name = "who was cancelled while it joined stays",
      file = WAIT,
      find = "if (t->op->ending != DLK_OK) { dlk_redis_queue_leave(t); "
        .. "return; } if (t->acquire.news",
      put = "if (t->acquire.news" },
    { name = "the place is lost when a waiter joins anew",
      file = WAIT,
      find = "memcpy(t->acquire.order, order->str, order->len + 1);",
      put = "(void)order;" },
    -- hold.c
    { name = "a release whose answer was lost is told as lost",
      file = RELEASE,
      find = "if (t->release.ours || first_did_it)",
      put = "if (t->release.ours)" },
    { name = "a release of unknown outcome past the deadline is told as done",
      file = RELEASE,
      find = "bool first_did_it = t->unsure && t->op->started <"
        .. " dlk_redis_try_hold(t)->until;",
      put = "bool first_did_it = t->unsure;",
      same = "the engine lets no release begin past its own deadline but those"
        .. " that nobody waits for" },
    { name = "a release that failed leaves the token",
      file = RULES,
      find = "RULE(RELEASE) = {AGAIN_BACK, AGAIN_BACK, BACK, BACK, BACK,",
      put = "RULE(RELEASE) = {AGAIN, AGAIN, TELL, TELL, TELL," },
    { name = "min_hold counts from the release", file = RELEASE,
      find = "return min <= 0 ? 0 : h->granted + min -"
        .. " dlk_redis_now(t->store);",
      put = "(void)h; return min <= 0 ? 0 : min;" },
    { name = "somebody queues and is not told of the release",
      file = RELEASE,
      find = "if (t->op->lease->want.units != 0 || crowded || rest_of(t) > "
        .. "0) leave(t);",
      put = "if (t->op->lease->want.units != 0 || rest_of(t) > 0) leave(t);",
      same = "the small script answers -2 when somebody queues, and the full"
        .. " one follows: one round trip more, and nothing else" },
    { name = "an extend after the release says ok",
      file = TRY,
      find = "return !dlk_redis_try_hold(t)->token.node.queued;",
      put = "(void)t; return false;" },
    { name = "a request to give up is not heard by a renewal", file = HOLD,
      find = "if (r->verdict == DLK_REDIS_GOOD && dlk_redis_int(r->reply, 1,"
        .. " 0) == 1) s->host->revoked(s->host, lease);",
      put = "" },
    -- call.c, errors.c
    { name = "a script that the server forgot is an error", file = CALL,
      find = "return dlk_redis_fault_find(refusal)->action =="
        .. " DLK_REDIS_SEND_TEXT;",
      put = "return false;" },
    { name = "what was not sent counts as refused", file = CALL,
      find = "a->err->code == DLK_UNAVAILABLE ? DLK_REDIS_NOT_DONE :"
        .. " DLK_REDIS_REFUSED;",
      put = "DLK_REDIS_REFUSED;" },
    { name = "who was refused for now asks the same connection", file = CALL,
      find = "c->store->link->retreat(c->store->link, err);", put = "" },
    { name = "the name of the last key is the name of all", file = NAMES,
      find = "len == n->last_len && memcmp(key, n->last_key, len) == 0)",
      put = "len == n->last_len)" },
    { name = "a word is found in the middle of another", file = ERRORS,
      find = [[&& (text[n] == ' ' || text[n] == '\0');]], put = ";" },
    { name = "an error of a script is not looked into", file = ERRORS,
      find = "found = by_word(at + 3); if (found) return found;",
      put = "(void)at;" },
    { name = "a loading server is out of order", file = ERRORS,
      find = [[{"LOADING", DLK_REDIS_RETRY,]],
      put = [[{"LOADING", DLK_REDIS_FAIL,]] },
    { name = "a replica is asked again on the same connection",
      file = ERRORS,
      find = [[{"READONLY", DLK_REDIS_RECONNECT,]],
      put = [[{"READONLY", DLK_REDIS_FAIL,]] },
    { name = "control bytes of a server reach a message", file = ERRORS,
      find = "text[n] >= ' ' && text[n] < 127 ? text[n] : '?';",
      put = "text[n];" },
    -- codec.c
    { name = "arrays of any size are taken", file = CODEC,
      find = "if (s->number > DLK_REDIS_ELEMENTS_MAX - s->elements) return"
        .. " false;",
      put = "" },
    { name = "arrays of any depth are taken", file = CODEC,
      find = "if (s->depth == DLK_REDIS_DEPTH) return false;", put = "" },
    { name = "a reply of any size is taken", file = CODEC,
      find = "if (s->number > DLK_REDIS_REPLY_MAX) return false;", put = "" },
    { name = "a line without a number is a number", file = CODEC,
      find = "if (!s->digits) return false;", put = "",
      same = "hiredis is fed the same bytes, and refuses the line as well" },
    { name = "negative numbers are sent without a sign", file = CODEC,
      find = "if (n < 0) *--begin = '-'; dlk_redis_put",
      put = "dlk_redis_put" },
    { name = "a server that was restarted is not noticed",
      file = "csrc/store/redis/conn/net.c", specs = "spec/redis/moved_spec.lua",
      find = "if (moved) n->events->moved(n->arg);", put = "(void)moved;" },
    { name = "of two answers one is read without the loop",
      file = "csrc/store/redis/conn/conn.c",
      find = "flying->next != flying->prev ||", put = "" },
    { name = "an answer is awaited before its request was written",
      file = "csrc/store/redis/conn/conn.c",
      find = "|| !dlk_list_empty(&c->pipe.waiting)) return false; ssize_t n",
      put = ") return false; ssize_t n" },
    { name = "the end of a connection is not heard by who awaits an answer",
      file = "csrc/store/redis/conn/conn.c",
      find = "if (n <= 0) lost_reading(c, n, errno); else if (feed",
      put = "if (n > 0 && feed" },
    { name = "a connection is written to however long it was quiet",
      file = "csrc/store/redis/conn/due.c",
      find = "#define QUIET DLK_SEC", put = "#define QUIET (100 * DLK_SEC)" },
    { name = "a guarded write is sent on whatever connection",
      file = "csrc/store/redis/op/try.c",
      find = "t->call.req.only_once = dlk_redis_rule(step->aim,"
        .. " DLK_REDIS_UNSURE).then == DLK_REDIS_MAY_BE_DONE;",
      put = "t->call.req.only_once = false;",
      specs = "spec/redis/fences_spec.lua" },
    { name = "what is not sent again is sent without a look",
      file = "csrc/store/redis/conn/due.c",
      find = "return quiet >= (only_once ? QUIET_ONCE : QUIET);",
      put = "(void)only_once; return quiet >= QUIET;" },
    { name = "a number that hiredis refuses is read without it",
      file = "csrc/store/redis/wire/brief.c",
      find = "(*first != '0' || (c->at - first == 1 && !minus));",
      put = "(*first == '0' || *first != '0' || minus);" },
    { name = "a text is read although its line's end is missing",
      file = "csrc/store/redis/wire/brief.c",
      find = "c->at += len; if (!ends_line(c)) return false;",
      put = "c->at += len; if (c->at < c->end && !ends_line(c))"
        .. " return false;" },
    { name = "a reply is read as brief from its middle on",
      file = "csrc/store/redis/conn/pipe.c",
      find = "if (p->in_len > 0 && is_between(p))",
      put = "if (p->in_len > 0)" },
    { name = "who holds a lock waits for the next request to connect",
      file = "csrc/store/redis/conn/net.c", specs = "spec/redis/moved_spec.lua",
      find = "want_back(n, !n->stopping && n->events->needed(n->arg)); if"
        .. " (!asked",
      put = "if (!asked" },
    { name = "each connection counts as one to another server",
      file = "csrc/store/redis/conn/net.c", specs = "spec/redis/moved_spec.lua",
      find = "n->moved = n->link.served; }",
      put = "} n->moved = n->link.served;" },
  },
}
