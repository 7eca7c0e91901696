-- Mutants of csrc/store/redis/scripts, and of what their refusals mean.

local DIR = "csrc/store/redis/scripts/"

local REFUSALS = "spec/redis/refusals_spec.lua"

return {
  specs = "spec/sim/redis_spec.lua spec/redis/admin_spec.lua"
    .. " spec/redis/foreign_spec.lua spec/redis/crowd_spec.lua"
    .. " spec/redis/faults_spec.lua spec/contract/contract_spec.lua",
  mutants = {
    { name = "a hand-off that nobody heard is heard at replicas",
      file = DIR .. "include/publish.lua",
      specs = "spec/redis/elsewhere_spec.lua",
      find = "redis.set_repl and pcall(redis.set_repl, redis.REPL_NONE)",
      put = "true" },
    { name = "an acquire takes what is held", file = DIR .. "take.lua",
      find = "ARGV[1], 'NX', 'PX', ARGV[2]", put = "ARGV[1], 'PX', ARGV[2]" },
    { name = "a counter that is missing gives a small fence",
      file = DIR .. "take.lua",
      find = "f >= FIRST and f < END then return f",
      put = "f < END then return f" },
    { name = "a hold without a fence stays", file = DIR .. "take.lua",
      find = "redis.call('DEL', KEYS[1])", put = "" },
    { name = "a release deletes whatever is there", file = DIR
        .. "release.lua",
      find = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end",
      put = "" },
    { name = "a release does not see the queue", file = DIR .. "release.lua",
      find = "if redis.call('EXISTS', KEYS[2]) == 1 then return -2 end",
      put = "" },
    { name = "a renewal makes a lock that is gone",
      file = DIR .. "include/renewal.lua",
      find = "if not value or not mine and",
      put = "mine = mine or not value\n"
        .. "if not value then call('SET', L, token) end\n"
        .. "if value and not mine and" },
    { name = "a shared hold is renewed although its time is over",
      file = DIR .. "include/renewal.lua",
      find = "if not ends then return -1 end",
      put = "if not ends then ends = now end" },
    { name = "a hold that is refused half-way stays in part",
      file = DIR .. "include/grant.lua", specs = REFUSALS,
      find = "call('DEL', L, H, P, I)\n  error(err, 0)",
      put = "error(err, 0)" },
    { name = "a marker of before is believed", file = DIR
        .. "include/permits.lua",
      find = "if p[1] and value == '~s' .. p[1] and used and cap then",
      put = "if p[1] and used and cap then" },
    { name = "who begins to share has the holders of before", file = DIR
        .. "include/grant.lua",
      find = "call('DEL', H, P, I)\n", put = "" },
    { name = "the last reader leaves the key", file = DIR
        .. "include/state.lua",
      find = "call('DEL', L, H, P, I)\n    s.mode, s",
      put = "call('DEL', H, P, I)\n    s.mode, s" },
    { name = "the usual hand-off goes to a dead one", file = DIR
        .. "leave.lua",
      find = "if heard and heard ~= 0 then", put = "if heard then" },
    { name = "the usual hand-off of what is not held", file = DIR
        .. "leave.lua",
      find = "usual = value == token and", put = "usual = value and" },
    { name = "a queue that begins as usual stays for ever", file = DIR
        .. "join.lua",
      find = "call('PEXPIRE', Q, KEPT)", put = "" },
    { name = "a cancelled waiter lets nobody in", file = DIR .. "leave.lua",
      find = "local more = let_in(s, held and rest <= 0)",
      put = "local more = held and let_in(s, rest <= 0) or 0" },
    { name = "min_hold makes a hold longer", file = DIR .. "leave.lua",
      find = "call('PEXPIRE', L, rest)", put = "call('PEXPIRE', L, 60000)" },
    { name = "a break tells nobody", file = DIR .. "break.lua",
      find = "redis.pcall('PUBLISH', channel(token), 'b ' .. token)",
      put = "local _ = token" },
    { name = "who is refused for its limit stays in the queue",
      file = DIR .. "include/stand.lua",
      find = "leave_queue(token) return { 'limit' }",
      put = "return { 'limit' }" },
    { name = "a counter of an old snapshot is believed",
      file = DIR .. "include/fence.lua",
      find = "(lift or f < FIRST)", put = "(f < FIRST)" },
    { name = "a renewal that comes late takes time away",
      file = DIR .. "include/renewal.lua",
      find = "or math.max(left, ttl)", put = "or ttl" },
  },
}
