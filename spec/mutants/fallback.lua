-- Mutants of what dlock.fallback knows of an outage when it has waited.

return {
  specs = "spec/lua/fallback_waits_spec.lua",
  mutants = {
    { name = "a weaker lock that was waited for is given without a look",
      file = "lua/dlock/kinds/outage.lua",
      find = [[if not out or begun - out.looked <= PING_EVERY then]],
      put = [[if true then]] },
    { name = "a sign of life has its whole second",
      file = "lua/dlock/kinds/outage.lua",
      find = [[math.max(math.min(left, PING_EVERY), SHORTEST)]],
      put = [[PING_EVERY, left, SHORTEST]] },
    { name = "a cancel leaves a sign of life",
      file = "lua/dlock/kinds/outage.lua",
      find = [[adapter, member.waits, cancel)]],
      put = [[adapter, nil, nil, cancel)]] },
    { name = "a short grace has the outage of a long one",
      file = "lua/dlock/kinds/outage.lua",
      find = [[if failures[i].gap > grace then]], put = [[if false then]] },
    { name = "who stood still has asked meanwhile",
      file = "lua/dlock/kinds/outage.lua",
      find = [[now > over + PING_EVERY and over or now]], put = [[now]] },
  },
}
