-- Mutants of csrc/store/redis/scripts, and of what their refusals mean.

local DIR = "csrc/store/redis/scripts/"

local REFUSALS = "spec/redis/refusals_spec.lua"

return {
  specs = "spec/sim/redis_spec.lua spec/redis/admin_spec.lua"
    .. " spec/redis/foreign_spec.lua spec/redis/crowd_spec.lua"
    .. " spec/redis/faults_spec.lua spec/contract/contract_spec.lua",
  mutants = {
    { name = "a release does not say that it was revoked",
      file = DIR .. "leave.lua", find = "revoked and 1 or nil }",
      put = "nil }" },
    { name = "a hand-off that nobody heard is heard at replicas",
      file = DIR .. "include/publish.lua",
      specs = "spec/redis/elsewhere_spec.lua",
      find = "redis.set_repl and pcall(redis.set_repl, redis.REPL_NONE)",
      put = "true" },
    { name = "a hand-off needs what only Redis has",
      file = DIR .. "include/publish.lua",
      find = "redis.set_repl and pcall(redis.set_repl, redis.REPL_NONE)",
      put = "true redis.set_repl(redis.REPL_NONE)" },
    { name = "what nobody would hear is said where replicas pass it on",
      file = DIR .. "include/publish.lua",
      find = "if (counts[2] or 0) == 0 then return 0 end",
      put = "if counts[2] == '' then return 0 end" },
    { name = "what follows a hand-off is kept from replicas",
      file = DIR .. "include/publish.lua",
      find = "if apart then redis.set_repl(redis.REPL_ALL) end", put = "" },
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
    { name = "what Lua takes for a number is one of ours",
      file = DIR .. "include/number.lua", specs = "spec/redis/hashes_spec.lua",
      find = "text:find('^%d+$') and tonumber(text) or nil",
      put = "tonumber(text) or nil" },
    { name = "a holder frees more units than are in use",
      file = DIR .. "include/state.lua", specs = "spec/redis/hashes_spec.lua",
      find = "if units and units <= s.used then", put = "if units then" },
    { name = "a spoilt request number is the first one",
      file = DIR .. "include/renewal.lua",
      specs = "spec/redis/hashes_spec.lua",
      find = "if not seen then return -1 end", put = "seen = seen or 0" },
    { name = "a lock without a limit is shared all the same",
      file = DIR .. "include/permits.lua",
      specs = "spec/redis/hashes_spec.lua",
      find = "and used and cap then return used, cap end",
      put = "and used then return used, cap or 0 end" },
    { name = "the script asks for the type of what is no counter",
      file = DIR .. "include/counter.lua",
      specs = "spec/redis/connect_spec.lua",
      find = "if said:find('WRONGTYPE', 1, true) then",
      put = "if said:find('WRONGTYPE', 1, true) and call('TYPE', F) then" },
    { name = "a hold that is refused half-way stays in part",
      file = DIR .. "include/grant.lua", specs = REFUSALS,
      find = "call('DEL', L, H, P, I)\n  error(err, 0)",
      put = "error(err, 0)" },
    { name = "who is refused half-way uses up a permit",
      file = DIR .. "include/grant.lua", specs = REFUSALS,
      find = "    call('ZADD', H, unpack(ends))\n    call('HSET', P, 'u',"
        .. " s.used, 'cap', s.cap, unpack(permits))\n",
      put = "    call('HSET', P, 'u',"
        .. " s.used, 'cap', s.cap, unpack(permits))\n"
        .. "    call('ZADD', H, unpack(ends))\n" },
    { name = "a place that is left half-way is nobody's",
      file = DIR .. "include/queue.lua", specs = REFUSALS,
      find = "if not score or is_noted(score) then call('HDEL', W, token) end"
        .. "\n  call('ZREM', Q, token)",
      put = "call('ZREM', Q, token)\n  "
        .. "if not score or is_noted(score) then call('HDEL', W, token) end" },
    { name = "a script that was refused has written nothing",
      file = "csrc/store/redis/op/try.c", specs = REFUSALS,
      find = "t->placed || t->half || r->begun;",
      put = "t->placed || t->half;" },
    { name = "a server that is full refuses half of a script",
      file = "csrc/store/redis/wire/errors.c", specs = REFUSALS,
      find = "return fault->action == DLK_REDIS_FAIL;",
      put = "return fault->action == DLK_REDIS_FAIL"
        .. " || fault->action == DLK_REDIS_LATER;" },
    { name = "a cancel leaves the waiter's mark", file = DIR
        .. "include/queue.lua",
      find = "if not score or is_noted(score) then call('HDEL', W, token) end",
      put = "if score and is_noted(score) then call('HDEL', W, token) end" },
    { name = "a hand-off leaves the waiter's mark", file = DIR
        .. "include/grant.lua",
      find = "if is_noted(score) then call('HDEL', W, token) end", put = "" },
    { name = "a hold's note is another one's", file = DIR
        .. "include/grant.lua",
      find = "if not s.clean then call('DEL', I) end", put = "" },
    { name = "nobody hears that the holder is another one", file = DIR
        .. "include/grant.lua",
      find = "local f, aside = fence(1, spare)\n  tell()",
      put = "local f, aside = fence(1, spare)" },
    { name = "a grant takes the ttl of who asks", file = DIR
        .. "include/grant.lua",
      find = "local f = give_any(s, token, w, w.claim)",
      put = "local f = give_any(s, token, w, my_ttl or w.claim)" },
    { name = "readers are let in for the ttl of who asks", file = DIR
        .. "include/grant.lua",
      find = "tonumber(token == mine and my_ttl or w.claim)",
      put = "tonumber(my_ttl or w.claim)" },
    { name = "readers wait for each other", file = DIR .. "include/grant.lua",
      find = "left, most = left - 4 * most, math.min(8 * most, 128)",
      put = "left, more = 1000, false" },
    { name = "many readers are let in without a word", file = DIR
        .. "include/grant.lua",
      find = "      publish(call, w.token, first + i - 1)", put = "" },
    { name = "who waits is not told that there is no counter", file = DIR
        .. "acquire.lua", specs = "spec/redis/foreign_spec.lua",
      find = "if n or not f then return n or 0 end",
      put = "do return n or 0 end" },
    { name = "who waits is refused a counter below 1", file = DIR
        .. "acquire.lua", specs = "spec/redis/foreign_spec.lua",
      find = "if fine then return above end", put = "" },
    { name = "what Lua takes for a number is a counter", file = DIR
        .. "include/counter.lua", specs = "spec/redis/foreign_spec.lua",
      find = "#f < 15 and f:find('^[1-9]%d*$') and tonumber(f)",
      put = "#f < 15 and tonumber(f)" },
    { name = "who waits is given what no fence can follow", file = DIR
        .. "include/counter.lua", specs = "spec/redis/foreign_spec.lua",
      find = "if n and n + 1 < END then return n end",
      put = "if n then return n end" },
    { name = "a number of more than 64 bits is called no integer", file = DIR
        .. "include/counter.lua", specs = "spec/redis/foreign_spec.lua",
      find = "if text and not text:find('^[1-9]%d*$') then",
      put = "if text then" },
    { name = "what is no counter is shown as a fence", file = DIR
        .. "inspect.lua", specs = "spec/redis/foreign_spec.lua",
      find = "digits(counter() or 0)",
      put = "(redis.pcall('GET', F) or '0')" },
    { name = "the dead before a waiter stay", file = DIR .. "acquire.lua",
      find = "if more == 0 then more, ahead = clear() end",
      put = "" },
    { name = "who hangs keeps its place while others ask", file = DIR
        .. "include/queue.lua",
      find = "still = not lately(was())", put = "still = true" },
    { name = "a crowd that hangs keeps its place while one asks", file = DIR
        .. "include/queue.lua",
      find = "was() <= w.believed and stood_still()", put = "stood_still()" },
    { name = "who was let in just now was not heard of", file = DIR
        .. "include/queue.lua",
      find = "if still == nil and lately(w.seen) then still = false end",
      put = "" },
    { name = "more than the clock allows is set aside", file = DIR
        .. "include/fence.lua",
      find = "spare = math.min(spare or 0, clock - 1 - f)",
      put = "spare = spare or 0" },
    { name = "a seeded counter has no end", file = DIR .. "include/fence.lua",
      find = "remember()\n  spare", put = "spare" },
    { name = "the next readers have the fences of the last", file = DIR
        .. "include/fence.lua",
      find = "local f = count(n) - n + 1",
      put = "local f = count(1)" },
    { name = "fences of any size are given", file = DIR
        .. "include/counter.lua",
      find = "if type(f) == 'number' and f < END then return f end",
      put = "if type(f) == 'number' then return f end",
      specs = "spec/redis/foreign_spec.lua" },
    { name = "the readers that lift a counter are not counted", file = DIR
        .. "include/fence.lua",
      find = "call('SET', F, digits(clock + n - 1), 'KEEPTTL')",
      put = "call('SET', F, digits(clock), 'KEEPTTL')" },
    { name = "a counter that is lifted has another time to live", file = DIR
        .. "include/fence.lua",
      find = "call('SET', F, digits(clock + n - 1), 'KEEPTTL')",
      put = "call('SET', F, digits(clock + n - 1))",
      specs = "spec/redis/fences_spec.lua" },
    { name = "shared holders end with the first of them", file = DIR
        .. "include/state.lua",
      find = "if left < ttl then", put = "if true then" },
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
    { name = "who holds joins the queue as well", file = DIR .. "acquire.lua",
      find = "if holds(s, token) then", put = "if false then" },
    { name = "a refresh joins again", file = DIR .. "acquire.lua",
      find = "local gone = how == 'refresh' and not score",
      put = "local gone = false" },
    { name = "a place that was kept counts from now", file = DIR
        .. "acquire.lua",
      find = "if order == '' then", put = "if true then" },
    { name = "a newcomer stands before the last", file = DIR
        .. "acquire.lua",
      find = "order = digits(math.max(next, at))", put = "order = digits(at)",
      same = "it shows only when the server's clock steps back by more than"
        .. " the queue is old, which the guarantees exclude" },
    { name = "a queue ends while somebody waits", file = DIR
        .. "include/place.lua",
      find = "call('PEXPIRE', Q, KEPT)", put = "call('PEXPIRE', Q, 600)" },
    { name = "a queue is given its time by the first one only", file = DIR
        .. "acquire.lua",
      find = "if keeps and (plain or score and is_noted(score)) then",
      put = "if not last and not score then" },
    { name = "what is known of waiters ends before they do", file = DIR
        .. "include/place.lua",
      find = "call('ZADD', Q, order .. '.5', token) keep_queue()",
      put = "call('ZADD', Q, order .. '.5', token)" },
    { name = "who asks often lets the queue end", file = DIR .. "acquire.lua",
      find = "if tonumber(ARGV[7]) <= OFTEN and is_aging() then keep_queue()"
        .. " end",
      put = "" },
    { name = "who asks seldom lets the queue end behind the dead", file = DIR
        .. "acquire.lua",
      find = "local keeps = score and is_aging()",
      put = "local keeps = score and tonumber(ARGV[7]) <= OFTEN"
        .. " and is_aging()" },
    { name = "a crowd at rest stands behind the dead", file = DIR
        .. "acquire.lua",
      find = "w.seen > 0 and listens(before)", put = "w.seen > 0" },
    { name = "a crowd at rest stands behind another limit", file = DIR
        .. "acquire.lua",
      find = "and not other_limit(nil, w) then", put = "then" },
    { name = "a crowd at rest is not told that there is no counter", file = DIR
        .. "acquire.lua", find = "local f, odd = counter() if not odd then",
      put = "local f = counter() if true then" },
    { name = "a lease that nobody heard of stays", file = DIR
        .. "include/grant.lua",
      find = "if publish(call, token, f) == 0 then",
      put = "if publish(call, token, f) < 0 then" },
    { name = "the usual hand-off goes to a dead one", file = DIR
        .. "leave.lua",
      find = "if heard and heard ~= 0 then", put = "if heard then" },
    { name = "the usual hand-off of what is not held", file = DIR
        .. "leave.lua",
      find = "usual = value == token and", put = "usual = value and" },
    { name = "the usual hand-off leaves a hold's note", file = DIR
        .. "leave.lua",
      find = "if beside == 1 then redis.pcall('DEL', I) end", put = "" },
    { name = "the usual hand-off tells nobody who watches", file = DIR
        .. "leave.lua",
      find = "beside == 1 and redis.pcall('EXISTS', N) == 0 then",
      put = "beside == 1 then" },
    { name = "the usual hand-off ends a hold before min_hold", file = DIR
        .. "leave.lua",
      find = "ARGV[2] == '0' and ARGV[4] == '0'", put = "ARGV[4] == '0'" },
    { name = "the usual hand-off believes any counter", file = DIR
        .. "leave.lua",
      find = "ARGV[2] == '0' and ARGV[4] == '0'", put = "ARGV[2] == '0'" },
    { name = "the usual hand-off goes to one that hangs", file = DIR
        .. "include/hand.lua",
      find = "if now - seen >= 1000 then return nil end", put = "" },
    { name = "a reader is handed the lock as a writer", file = DIR
        .. "include/hand.lua",
      find = "(%d+) 0 0 ([1-9]", put = "(%d+) %d+ %d+ ([1-9]" },
    { name = "who publishes is handed the lock without a note", file = DIR
        .. "include/hand.lua",
      find = "%d?%d?)$", put = "%d?%d?)" },
    { name = "the usual hand-off is for as long as W says",
      file = DIR .. "include/hand.lua", specs = "spec/redis/hashes_spec.lua",
      find = "([1-9]%d?%d?%d?)$", put = "(%d+)$" },
    { name = "a waiter may hold for as long as W says",
      file = DIR .. "include/standing.lua",
      specs = "spec/redis/hashes_spec.lua",
      find = "([1-9]%d?%d?%d?)%f[%D]()", put = "(%d+)()" },
    { name = "the usual hand-off gives more than was asked for", file = DIR
        .. "include/hand.lua",
      find = "SET', L, token, 'PX', claim)",
      put = "SET', L, token, 'PX', CLAIM)" },
    { name = "the usual hand-off leaves the waiter's mark", file = DIR
        .. "include/hand.lua",
      find = "redis.pcall('HDEL', W, token)", put = "" },
    { name = "the counter ends before who waited long holds", file = DIR
        .. "include/hand.lua",
      find = "pcall(remember)", put = "" },
    { name = "the usual hand-off begins at 1", file = DIR
        .. "include/hand.lua",
      find = "or f < FIRST or f >= END then", put = "or f >= END then" },
    { name = "the usual hand-off gives fences of any size", file = DIR
        .. "include/hand.lua",
      find = "or f < FIRST or f >= END then", put = "or f < FIRST then" },
    { name = "what is refused in passing is the release's", file = DIR
        .. "include/hand.lua",
      find = "redis.pcall('INCRBY', F, '1')", put = "call('INCRBY', F, '1')" },
    { name = "who joins does not see to the counter's time", file = DIR
        .. "acquire.lua",
      find = "if plain then remember(CLAIM) end", put = "" },
    { name = "who joins as usual does not see to the counter's time",
      file = DIR .. "include/join.lua",
      find = "if f then remember(CLAIM) end", put = "" },
    { name = "who joins as usual stands behind the dead", file = DIR
        .. "include/join.lua",
      find = "call('PUBSUB', 'NUMSUB', channel(last[1]))[2] > 0",
      put = "true" },
    { name = "who joins as usual does not see who hangs", file = DIR
        .. "include/join.lua",
      find = "and before < at and at - before < 999000",
      put = "and before < at" },
    { name = "who joins as usual never gives the queue its time", file = DIR
        .. "include/join.lua",
      find = "and same_span(before, at)", put = "" },
    { name = "a queue that begins as usual stays for ever", file = DIR
        .. "include/join.lua",
      find = "call('PEXPIRE', Q, KEPT)", put = "" },
    { name = "who joins twice loses its place", file = DIR
        .. "include/join.lua",
      find = "call('ZADD', Q, 'NX', order, token) == 1",
      put = "call('ZADD', Q, order, token)" },
    { name = "a reader joins as a writer", file = DIR .. "include/join.lua",
      find = "occupied and ARGV[3] == '0'", put = "occupied" },
    { name = "who joins with its old order loses it", file = DIR
        .. "include/join.lua",
      find = "ARGV[7] == CLAIM and ARGV[8] == ''",
      put = "ARGV[7] == CLAIM" },
    { name = "what a candidate publishes is not kept", file = DIR
        .. "include/join.lua",
      find = "and not ARGV[12] then", put = "then" },
    { name = "who joins as usual holds for a claim that is too long",
      file = DIR .. "include/join.lua",
      find = "and ARGV[6] == CLAIM", put = "" },
    { name = "who listens by a pattern makes all the dead live", file = DIR
        .. "include/grant.lua",
      find = "w.believed > now and now - w.seen < 1000",
      put = "w.believed > now" },
    { name = "a cancelled waiter lets nobody in", file = DIR .. "leave.lua",
      find = "local more = let_in(s, held and rest <= 0)",
      put = "local more = held and let_in(s, rest <= 0) or 0" },
    { name = "what is refused behind a release is the release's", file = DIR
        .. "include/grant.lua", specs = "spec/redis/foreign_spec.lua",
      find = "local ok, _, more = pcall(grant, s)",
      put = "local ok, _, more = true, grant(s)" },
    { name = "nobody hears of a lock that is free", file = DIR
        .. "include/grant.lua",
      find = "if changed then pcall(tell) end", put = "changed = nil" },
    { name = "min_hold makes a hold longer", file = DIR .. "leave.lua",
      find = "call('PEXPIRE', L, rest)", put = "call('PEXPIRE', L, 60000)" },
    { name = "min_hold of a reader is not kept", file = DIR .. "leave.lua",
      find = "call('ZADD', H, now + rest, token)",
      put = "call('ZADD', H, now, token)" },
    { name = "a break leaves the units in use", file = DIR .. "break.lua",
      find = "s.mode, s.value, s.used, s.cap, s.clean ="
        .. " nil, false, 0, 0, true",
      put = "s.value = false" },
    { name = "a break tells nobody", file = DIR .. "break.lua",
      find = "redis.pcall('PUBLISH', channel(token), 'b ' .. token)",
      put = "local _ = token" },
    { name = "a break is refused when its message is", file = DIR
        .. "break.lua", specs = "spec/redis/connect_spec.lua",
      find = "redis.pcall('PUBLISH', channel(token), 'b ' .. token)",
      put = "call('PUBLISH', channel(token), 'b ' .. token)" },
    { name = "a break of what nobody holds writes nothing", file = DIR
        .. "break.lua", specs = "spec/redis/connect_spec.lua",
      find = "call('DEL', L, H, P, I)",
      put = "if held then call('DEL', L, H, P, I) end" },
    { name = "a downgrade begins a ttl of its own", file = DIR
        .. "downgrade.lua",
      find = "local left = math.max(call('PTTL', L), 1)",
      put = "local left = 60000" },
    { name = "a downgrade is not repeatable", file = DIR .. "downgrade.lua",
      find = "if not holds(s, token) then return { 0, 0 } end",
      put = "if not holds(s, token) or s.mode ~= 'x' then return { 0, 0 }"
        .. " end" },
    { name = "who watches the holder is not told twice", file = DIR
        .. "change.lua",
      find = "call('ZADD', N, now, ARGV[2])", put = "" },
    { name = "a revoke is refused when its message is",
      file = DIR .. "revoke.lua", specs = REFUSALS,
      find = "redis.pcall('PUBLISH', channel(token), 'r ' .. token)",
      put = "call('PUBLISH', channel(token), 'r ' .. token)" },
    { name = "what is attached has units", file = DIR .. "attach.lua",
      specs = "spec/redis/hashes_spec.lua",
      find = "if units then call('HSET', P, token, units) end",
      put = "call('HSET', P, token, units)" },
    { name = "the names of dead watchers stay", file = DIR .. "change.lua",
      specs = "spec/redis/watchers_spec.lua",
      find = "if dead[1] then call('ZREM', N, unpack(dead)) end", put = "" },
    { name = "the names of living watchers go", file = DIR .. "change.lua",
      specs = "spec/redis/watchers_spec.lua",
      find = "digits(now - ARGV[3]), 'LIMIT',", put = "'+inf', 'LIMIT'," },
    { name = "the first renewal is a change of the leader", file = DIR
        .. "change.lua", specs = "spec/redis/notes_spec.lua",
      find = "if ARGV[1] ~= fence and ARGV[1] ~= id then",
      put = "if ARGV[1] ~= fence then" },
    { name = "a hold without a note is a foreign client's", file = DIR
        .. "change.lua", specs = "spec/redis/notes_spec.lua",
      find = "id = ours(value) and string.sub(value, 1, 12) .. ':'",
      put = "id = nil" },
    { name = "a late acquire takes time from what was extended",
      file = DIR .. "acquire.lua", find = "ttl = math.max(ttl, left)",
      put = "" },
    { name = "who is refused for its limit stays in the queue",
      file = DIR .. "acquire.lua",
      find = "leave_queue(token) return { 'limit' }",
      put = "return { 'limit' }" },
    { name = "a counter of an old snapshot is believed",
      file = DIR .. "include/fence.lua",
      find = "(lift or f < FIRST)", put = "(f < FIRST)" },
    { name = "a renewal that comes late takes time away",
      file = DIR .. "include/renewal.lua",
      find = "return math.max(left, ttl)", put = "return ttl" },
    { name = "an old request for a time is obeyed",
      file = DIR .. "include/renewal.lua",
      find = "local old = number < seen or number == seen and ending > 0",
      put = "local old = number < seen and ending == 0" },
    { name = "a renewal of before lengthens what was cut since",
      file = DIR .. "include/renewal.lua",
      find = "local old = number < seen or number == seen and ending > 0",
      put = "local old = number <= seen and ending > 0",
      specs = "spec/redis/late_spec.lua" },
    { name = "what is to end at the latest ends exactly then",
      file = DIR .. "include/renewal.lua",
      find = "return ending == 1 and ttl or math.min(left, ttl)",
      put = "return ttl" },
  },
}
