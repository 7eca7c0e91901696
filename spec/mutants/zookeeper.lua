-- Mutants of csrc/store/zookeeper.

local ACQUIRE = "csrc/store/zookeeper/recipe/acquire.c"
local PLACE = "csrc/store/zookeeper/recipe/place.c"
local SESSIONS = "csrc/store/zookeeper/session/sessions.c"
local CHAIN = "csrc/store/zookeeper/session/chain.c"
local HOLD = "csrc/store/zookeeper/recipe/hold.c"
local LEAVE = "csrc/store/zookeeper/recipe/leave.c"
local WATCH = "csrc/store/zookeeper/session/watch.c"
local MEANING = "csrc/store/zookeeper/recipe/meaning.c"
local COMPLETIONS = "csrc/store/zookeeper/client/completions.c"
local NAMES = "csrc/store/zookeeper/format/names.c"
local INSPECT = "csrc/store/zookeeper/query/inspect.c"
local HANDLE = "csrc/store/zookeeper/client/handle.c"

return {
  specs = "spec/zookeeper/units_spec.lua spec/sim/zookeeper_spec.lua"
    .. " spec/sim/queues_spec.lua spec/zookeeper/lock_spec.lua"
    .. " spec/zookeeper/kinds_spec.lua spec/zookeeper/faults_spec.lua"
    .. " spec/zookeeper/lag_spec.lua spec/zookeeper/reconnect_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "a key with a dot alone is not escaped", file = NAMES,
      find = "if (plain(c) && !dots)", put = "(void)dots; if (plain(c))" },
    { name = "lower case hex digits are an escape", file = NAMES,
      find = "return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;",
      put = "return c >= 'A' && c <= 'F' ? c - 'A' + 10"
        .. " : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;" },
    { name = "a sequence number of 8 digits is one", file = NAMES,
      find = "digits < 9 || digits > 10", put = "digits < 1 || digits > 10" },
    { name = "what follows a sequence number is not looked at", file = NAMES,
      find = "*end != '\\0' || n < INT32_MIN", put = "n < INT32_MIN" },
    { name = "a list goes on with the name it ended with",
      file = "csrc/store/zookeeper/query/list.c",
      find = "strcmp(name, op->text) > 0",
      put = "strcmp(name, op->text) >= 0" },
    { name = "a page of a list has one name too many",
      file = "csrc/store/zookeeper/query/list.c",
      find = "if (to == limit) {", put = "if (to > limit) {" },
    { name = "an empty container is listed as a lock",
      file = "csrc/store/zookeeper/query/list.c",
      find = "bool used = r->rc == DLK_ZK_OK && r->stat.children > 0;",
      put = "bool used = r->rc == DLK_ZK_OK;" },
    { name = "an owner's escapes are shown", file =
      "csrc/store/zookeeper/format/data.c",
      find = "dlk_zk_escape(out, lease->value, lease->value_len);",
      put = "dlk_buf_add(out, lease->value, lease->value_len);" },
    { name = "any node of our client is a ghost", file = PLACE,
      find = "|| dlk_map_get(&st->by_guid, e->guid, DLK_ZK_GUID)) continue;",
      put = "|| e->seq % 7 == 3) continue;" },
    { name = "ghosts are left", file = PLACE,
      find = "delete_ghosts(n, &q); act(n, &q, &j);",
      put = "(void)delete_ghosts; act(n, &q, &j);" },
    { name = "who shares does not look past a downgraded hold", file = PLACE,
      find = "if (!behind_exclusive(n, q, j)) return; const char *path",
      put = "if (1) return; const char *path" },
    { name = "a list of before is believed", file = PLACE,
      find = "if (n->step != DLK_ZK_LISTING || tag != n->tag) return;",
      put = "(void)tag; if (n->step != DLK_ZK_LISTING) return;",
      same = "a session's answers come in the order of its requests, so a list"
        .. " from before our present node is answered while that is being"
        .. " created; any later one shows that node and all ahead of it: by it"
        .. " we hold, as by the newest, or watch who may be gone by then,"
        .. " which makes a new list" },
    { name = "a grant outside of what the session proved", file = HOLD,
      find = "if (now >= s->confirm.horizon) { dlk_zk_contender_step",
      put = "if (0) { dlk_zk_contender_step" },
    { name = "a hold without proof is renewed", file = HOLD,
      find = "if (dlk_zk_now(st) < n->member.session->confirm.horizon)"
        .. " return true;",
      put = "return true;" },
    { name = "a request to give up is told twice", file = HOLD,
      find = "bool tell = revoked && !n->revoked;",
      put = "bool tell = revoked;",
      same = "the engine tells a lease's first request only" },
    { name = "min_hold is not kept", file = HOLD,
      find = "if (dlk_zk_now(st) < n->rest_until) {", put = "if (0) {" },
    { name = "an own node that was deleted is not noticed", file = HOLD,
      find = "if (meaning == DLK_ZK_MISSING) { dlk_zk_lose(n, \"its node was"
        .. " deleted\", true); return; }",
      put = "" },
    { name = "a renewal that is asked for is not answered", file = HOLD,
      find = "if (renewing && ok) host->renewed(host, n->lease,"
        .. " dlk_zk_now(n->store)); else if (renewing)",
      put = "if (renewing && ok) (void)host; else if (renewing)" },
    { name = "a waiter does not list again after an event", file = PLACE,
      find = "} else if (rc == DLK_ZK_OK) { dlk_zk_place_relist(n);",
      put = "} else if (rc == DLK_ZK_OK) { return;" },
    { name = "who is second has to list to be first", file = PLACE,
      find = "if (is_first(n, rc, now)) {",
      put = "(void)is_first; if (0) {" },
    { name = "who is third in the queue counts as second", file = PLACE,
      find = "n->second = j->me == 1;", put = "n->second = j->me <= 2;" },
    { name = "who waits for one of several readers counts as second",
      file = PLACE,
      find = "n->second = j->me == 1;",
      put = "n->second = j->watch_count == 1;" },
    { name = "a mark on the node ahead counts as its end", file = PLACE,
      find = "return rc == DLK_ZK_NONODE && n->second",
      put = "return rc != DLK_ZK_CUT && n->second" },
    { name = "an old list says who is first", file = PLACE,
      find = "&& now - n->sent <= SURE_FOR;", put = "&& (void *)&now;" },
    { name = "a hold's ttl counts from when it began to wait", file = PLACE,
      find = "n->sent = now; dlk_zk_grant(n);", put = "dlk_zk_grant(n);" },
    { name = "who waits hears before the holder that its node is gone",
      file = WATCH,
      find = "dlk_list_append(own ? w->refs.next : &w->refs, &r->by_watch);",
      put = "dlk_list_append(&w->refs, &r->by_watch);" },
    { name = "a break whose answer was lost is done again", file = MEANING,
      find = "CROSS, END, UNSURE, UNSURE, OK}",
      put = "CROSS, END, AGAIN, AGAIN, OK}" },
    { name = "a downgrade whose answer was lost ends", file = MEANING,
      find = "CROSS, END, SETTLE, SETTLE, END}",
      put = "CROSS, END, UNSURE, UNSURE, END}" },
    { name = "a delete whose answer was lost is not sent again",
      file = MEANING, find = "{NONE, END, END, INSIST, INSIST, END}",
      put = "{NONE, END, END, END, END, END}" },
    { name = "a list without an answer ends the waiting", file = MEANING,
      find = "{NONE, AGAIN, END, AGAIN, AGAIN, AGAIN}",
      put = "{NONE, AGAIN, END, END, AGAIN, AGAIN}" },
    { name = "one that leads another wakes as well", file = COMPLETIONS,
      find = "if (!f->leads || dlk_list_empty(&link->flying))", put = "" },
    { name = "one that leads never wakes", file = COMPLETIONS,
      find = "if (!f->leads || dlk_list_empty(&link->flying))",
      put = "if (!f->leads)" },
    { name = "the bytes of watches are never given back", file = WATCH,
      find = "s->watch_bytes -= w->node.len;", put = "" },
    { name = "an adopted node may be of the session before", file = ACQUIRE,
      find = "r->rc == DLK_ZK_OK && r->stat.owner"
        .. " == n->member.session->id &&",
      put = "r->rc == DLK_ZK_OK &&" },
    { name = "a create of unknown outcome is sent anew", file = ACQUIRE,
      find = "case DLK_ZK_UNSETTLED: settle(n); break;",
      put = "case DLK_ZK_UNSETTLED: start(n); break;" },
    { name = "a list without a sync before it is believed", file = ACQUIRE,
      find = "struct dlk_zk_request sync = {.verb = DLK_ZK_SYNC};",
      put = "struct dlk_zk_request sync = {.verb = DLK_ZK_CHILDREN};" },
    { name = "an admin's list is not behind a sync",
      file = "csrc/store/zookeeper/query/query.c",
      find = "sync = {.verb = DLK_ZK_SYNC, .path = path};",
      put = "sync = {.verb = DLK_ZK_EXISTS_VERB, .path = path};" },
    { name = "one who left while creating stays", file = ACQUIRE,
      find = "if (n->leaving) dlk_zk_leave(n, n->outcome);"
        .. " else if (!n->first_list)",
      put = "if (!n->first_list)" },
    { name = "only the lock's own container is made", file = ACQUIRE,
      find = "if (n->tries > 1) for", put = "if (0) for" },
    { name = "the lock's parent is no container", file = ACQUIRE,
      find = "return make_parent(n, n->lock_len, DLK_ZK_CONTAINER);",
      put = "return make_parent(n, n->lock_len, DLK_ZK_PERSISTENT);" },
    { name = "an orphaned waiter does not join again", file = ACQUIRE,
      find = "st->host->timer_clear(st->host, &n->timer); join(n); }",
      put = "st->host->timer_clear(st->host, &n->timer);"
        .. " dlk_zk_fail(n, DLK_UNAVAILABLE); }" },
    { name = "a node that could not be deleted is forgotten", file = LEAVE,
      find = "dlk_zk_session_retire(n->member.session);"
        .. " dlk_zk_finish(n, n->outcome);",
      put = "dlk_zk_finish(n, n->outcome);" },
    { name = "who stood in the way is not asked for", file = LEAVE,
      find = "if (outcome == DLK_BUSY || outcome == DLK_TIMEOUT)"
        .. " ask_head(n);",
      put = "(void)ask_head;" },
    { name = "a session that is not proved for long is taken",
      file = SESSIONS,
      find = "return s->state == DLK_ZK_CONNECTED &&"
        .. " dlk_zk_confirm_sustains(&s->confirm, dlk_zk_session_now(s));",
      put = "return s->state == DLK_ZK_CONNECTED;" },
    { name = "watches of any size go to one session", file = SESSIONS,
      find = "if (s->watch_bytes > WATCH_BYTES_MAX) return false;",
      put = "" },
    { name = "the engine is not told when the session's proof ends",
      file = CHAIN,
      find = "if (until != DLK_FOREVER) ss->host->horizon(ss->host, until);",
      put = "" },
    { name = "a broken link is opened again at once, for ever",
      file = SESSIONS,
      find = "dlk_zk_session_now(s) + ss->backoff);",
      put = "dlk_zk_session_now(s));" },
    { name = "only the first node is used to confirm", file = CHAIN,
      find = "struct dlk_zk_member *m = turn(s); if (m->use >=",
      put = "struct dlk_zk_member *m = DLK_CONTAINER(s->nodes.next,"
        .. " struct dlk_zk_member, link); if (m->use >=" },
    { name = "a break takes waiters too", file = INSPECT,
      find = "} else if (holds(q, i)) { ok = act(q, i);",
      put = "} else { ok = act(q, i);" },
    { name = "a mark that crossed another write is dropped", file = INSPECT,
      find = "else if (r->rc == DLK_ZK_VERSION) q->crossed = true;",
      put = "else if (r->rc == DLK_ZK_VERSION) q->any = true;" },
    { name = "the library gets an even number of servers", file = HANDLE,
      find = "if (count % 2 != 0) return strdup(hosts);",
      put = "if (count > 0) return strdup(hosts);" },
  },
}
