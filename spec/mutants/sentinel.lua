-- Mutants of how the Redis store finds its primary: whom of the Sentinels it
-- asks, what it believes, and what it says of them; that messages come from
-- there, and what a hold is that a new one did not know.

local SENTINEL = "csrc/store/redis/conn/sentinel.c"
local CUT = "spec/redis/sentinel/cut_spec.lua"
local EVENTS = "spec/redis/sentinel/events_spec.lua"
local FIND = "spec/redis/sentinel/find_spec.lua"
local USERS = "spec/redis/sentinel/users_spec.lua"

return {
  specs = FIND .. " " .. CUT .. " " .. EVENTS .. " " .. USERS
    .. " spec/redis/sentinel/switch_spec.lua",
  mutants = {
    { name = "the first Sentinel that answers is believed", file = SENTINEL,
      specs = FIND,
      find = "agreed.epoch = more(agreed.epoch, w->epoch);",
      put = "agreed.epoch = agreed.epoch < 0 ? w->epoch : agreed.epoch;" },
    { name = "a stale Sentinel is believed when it is alone", file = SENTINEL,
      specs = FIND,
      find = "if (named == 0 || agreed.stale) return agreed;",
      put = "agreed.stale = false; if (named == 0) return agreed;" },
    { name = "Sentinels that were reset are never believed again",
      file = SENTINEL, specs = FIND,
      find = "agreed.epoch < s->epoch && !agreed.most;",
      put = "agreed.epoch < s->epoch;" },
  },
}
