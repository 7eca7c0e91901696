-- Mutants of csrc/store/zookeeper.

local ACQUIRE = "csrc/store/session/recipe/acquire.c"
local LISTS = "csrc/store/session/recipe/lists.c"
local PLACE = "csrc/store/session/recipe/place.c"
local SESSIONS = "csrc/store/session/life/sessions.c"
local HOLD = "csrc/store/session/recipe/hold.c"
local DRIVER = "csrc/store/zookeeper/driver.c"
local INSPECT = "csrc/store/session/query/inspect.c"

return {
  specs = "spec/session/floor_spec.lua spec/zookeeper/units_spec.lua"
    .. " spec/sim/zookeeper_spec.lua"
    .. " spec/sim/queues_spec.lua spec/zookeeper/lock_spec.lua"
    .. " spec/zookeeper/rights_spec.lua"
    .. " spec/zookeeper/kinds_spec.lua spec/zookeeper/faults_spec.lua"
    .. " spec/zookeeper/lag_spec.lua spec/zookeeper/reconnect_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "any node of our client is a ghost", file = LISTS,
      find = "|| dlk_map_get(&st->by_guid, e->guid, DLK_SS_GUID)) continue;",
      put = "|| e->seq % 7 == 3) continue;" },
    { name = "ghosts are left", file = LISTS,
      find = "delete_ghosts(l, &q);", put = "(void)delete_ghosts;" },
    { name = "a grant outside of what the session proved", file = HOLD,
      find = "if (now >= s->proof.horizon) { dlk_ss_contender_step",
      put = "if (0) { dlk_ss_contender_step" },
    { name = "a hold without proof is renewed", file = HOLD,
      find = "if (dlk_ss_now(st) < n->member.session->proof.horizon)"
        .. " return true;",
      put = "return true;" },
    { name = "an own node that was deleted is not noticed", file = HOLD,
      find = "if (meaning == DLK_SS_MISSING) { dlk_ss_lose(n, \"its entry"
        .. " was deleted, or taken from its session\", true); return; }",
      put = "" },
    { name = "a waiter does not list again after an event", file = PLACE,
      find = "} else if (rc == DLK_SS_OK) { dlk_ss_place_relist(n);",
      put = "} else if (rc == DLK_SS_OK) { return;" },
    { name = "an old list says who is first", file = PLACE,
      find = "&& now - n->sent <= SURE_FOR) {",
      put = "&& (void *)&now) {" },
    { name = "the last number of a counter is believed", file = DRIVER,
      find = "number > INT32_MAX - WORN ||", put = "number > INT32_MAX ||" },
    { name = "an adopted node may be of the session before", file = ACQUIRE,
      find = "r->rc == DLK_SS_OK && r->stat.owner"
        .. " == n->member.session->id &&",
      put = "r->rc == DLK_SS_OK &&" },
    { name = "a create of unknown outcome is sent anew", file = ACQUIRE,
      find = "case DLK_SS_UNSETTLED: settle(n); break;",
      put = "case DLK_SS_UNSETTLED: start(n); break;" },
    { name = "a list without a sync before it is believed", file = DRIVER,
      find = "struct dlk_zk_request sync = {.verb = DLK_ZK_SYNC,",
      put = "struct dlk_zk_request sync = {.verb = DLK_ZK_CHILDREN," },
    { name = "one who left while creating stays", file = ACQUIRE,
      find = "if (n->leaving) dlk_ss_leave(n, n->outcome);"
        .. " else if (!n->first_list)",
      put = "if (!n->first_list)" },
    { name = "a session that is not proved for long is taken",
      file = SESSIONS,
      find = "return s->state == DLK_SS_CONNECTED &&"
        .. " dlk_ss_proof_sustains(&s->proof, dlk_ss_session_now(s));",
      put = "return s->state == DLK_SS_CONNECTED;" },
    { name = "a break takes waiters too", file = INSPECT,
      find = "if (!holds(q, i)) continue;", put = "" },
    { name = "a waiter whose node was deleted goes on waiting",
      file = PLACE,
      find = "else if (sight->list && n->listed != n->member.session->lists)",
      put = "else if (0)" },
  },
}
