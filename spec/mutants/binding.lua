-- Mutants of csrc/lua.

local LEASE = "csrc/lua/lease.c"
local ENGINE = "csrc/lua/engine.c"
local PREPARED = "csrc/lua/prepared.c"
local CHILD = "csrc/lua/child.c"

return {
  specs = "spec/engine/engine_spec.lua spec/lua/bad_input_spec.lua"
    .. " spec/engine/fork_spec.lua spec/cli/cli_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {
    { name = "the event of a lease does not say its key",
      file = "csrc/lua/engine.c", specs = "spec/engine/engine_spec.lua",
      find = [[lua_pushlstring(L, n->key, n->key_len);]],
      put = [[lua_pushnil(L);]] },
    { name = "a detached lease is released by its collector", file = LEASE,
      find = "return box->released || box->detached || !box->hold ||"
        .. " dlk_handle_given_up(&box->handle);",
      put = "return box->released || !box->hold;" },
    { name = "a child's collector releases its parent's lease", file = LEASE,
      find = "return is_given_up(box) || in_child(box);",
      put = "return is_given_up(box);" },
    { name = "a child says that it releases its parent's lease", file = LEASE,
      find = "if (box->hold && !dlk_engine_is_ours(dlk_hold_engine(box->hold),"
        .. " &forked)) return dlk_lua_failure(L, &forked); let_go(box);",
      put = "(void)forked; let_go(box);" },
    { name = "the first of several handles ends the hold", file = LEASE,
      find = "if (dlk_handle_give_up(&box->handle))"
        .. " dlk_hold_release_later(box->hold);",
      put = "dlk_handle_give_up(&box->handle);"
        .. " dlk_hold_release_later(box->hold);" },
    { name = "a released lease can be shared", file = LEASE,
      find = [[luaL_argcheck(L, !over(from), 1, "the lease is not held");]],
      put = "" },
    { name = "a second release releases again", file = LEASE,
      find = "if (!forked && box->release) {",
      put = "if (!forked && box->release && 0) {" },
    { name = "a released lease can be extended", file = LEASE,
      find = "if (is_given_up(box) && !forked) return given_up(L, box);"
        .. " return submit(L, box, r);",
      put = "(void)forked; return submit(L, box, r);" },
    { name = "a lease with other handles can be detached", file = LEASE,
      find = "if (!over(box) && dlk_hold_handles(box->hold) > 1) {",
      put = "if (0) {" },
    { name = "an extend without a ttl is for a second", file = LEASE,
      find = "r.ttl = ttl < 0 ? dlk_hold_ttl(box->hold) : ttl;",
      put = "r.ttl = ttl < 0 ? DLK_SEC : ttl;" },
    { name = "a semaphore's mode is shared", file = "csrc/core/mode.c",
      find = [[return cap == 0 ? "shared" : "semaphore";]],
      put = [[return "shared";]] },
    { name = "tostring shows a lost lease as held", file = LEASE,
      find = "int64_t left = over(box) ? 0 : dlk_hold_remaining(box->hold);"
        .. " bool failed",
      put = "int64_t left = over(box) ? 0 : dlk_hold_ttl(box->hold);"
        .. " bool failed" },
    { name = "a wait takes the io_timeout for its own", file = PREPARED,
      find = "if (!r->wait) r->timeout = -1;",
      put = "r->timeout = -1;" },
    { name = "a time of 0 waits", file = PREPARED,
      find = "r->wait = wait && r->timeout > 0;", put = "r->wait = wait;" },
    { name = "the option renew = false of a call is not heard",
      file = PREPARED,
      find = "if (!lua_isnoneornil(L, 3)) read(L, p, 3);",
      put = "bool renew = p->request.renew; if (!lua_isnoneornil(L, 3))"
        .. " read(L, p, 3); p->request.renew = renew;" },
    { name = "options of one call are those of the next", file = PREPARED,
      find = "copy = *prepared; r = changed(L, &copy);",
      put = "(void)copy; r = changed(L, (struct prepared *)(uintptr_t)"
        .. "prepared);" },
    { name = "min_hold of a detached lease is over",
      file = ENGINE,
      find = "r->min_hold = fine ? least : 0;",
      put = "r->min_hold = 0;" },
    { name = "a detached lease is renewed whatever was asked",
      file = ENGINE,
      find = "r->renew = *p == 'r';", put = "r->renew = true;" },
    { name = "the store of another version is used", file = ENGINE,
      find = "luaL_argcheck(L, store->type->abi == DLK_STORE_ABI, 1,"
        .. [[ "the store was built for another version of dlock");]],
      put = "" },
    { name = "a collected engine leaves its leases", file = ENGINE,
      find = "dlk_lua_end_engine(e); dlk_engine_forget",
      put = "dlk_engine_forget" },
    { name = "a command that a signal ended exits 0", file = CHILD,
      specs = "spec/cli/run_spec.lua",
      find = "128 + WTERMSIG(status)", put = "WEXITSTATUS(status)" },
    { name = "a command is started with our signals blocked", file = CHILD,
      specs = "spec/cli/run_spec.lua",
      find = "sigemptyset(&none);", put = "sigfillset(&none);" },
    { name = "a signal that our own write raised is passed on", file = CHILD,
      specs = "spec/cli/run_spec.lua",
      find = "if (info->si_code != SI_USER || info->si_pid != getpid())"
        .. " caught[signal] = 1;",
      put = "(void)info; caught[signal] = 1;" },
    { name = "a signal that was ignored is passed on", file = CHILD,
      specs = "spec/cli/run_spec.lua",
      find = "if (!ignores(signal)) set_note(signal);",
      put = "set_note(signal);" },
    { name = "a real-time signal ends the command run", file = CHILD,
      specs = "spec/cli/run_spec.lua",
      find = "return signal < 32 || (signal >= SIGRTMIN && signal <="
        .. " SIGRTMAX);",
      put = "return signal < 32;" },
    { name = "a broken pipe is no end for who prints", file = CHILD,
      specs = "spec/cli/cli_spec.lua",
      find = "if (ends(signal) && (all || !of_writing(signal)))",
      put = "if (ends(signal) && (all || of_writing(signal) || true))" },
    { name = "what a closing state opens is left to itself",
      file = "csrc/lua/closing.c", specs = "spec/engine/unload_spec.lua",
      find = "if (!dlk_engine_forked(box->engine))"
        .. " dlk_lua_end_engine(box->engine);",
      put = "" },
    { name = "a state that is closed opens a store",
      file = "csrc/lua/closing.c", specs = "spec/engine/unload_spec.lua",
      find = "return last_of(L)->over;",
      put = "return last_of(L)->over && false;" },
    { name = "a lease shows its seconds as the locale writes them",
      file = "csrc/lua/lease.c",
      specs = "spec/lua/texts_spec.lua",
      find = [["held %lld.%llds", tenths / 10, tenths % 10);]],
      put = [["held %.1fs", tenths < 0 ? 0 : (double)left / 1e9);]] },
  },
}
