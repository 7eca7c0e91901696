-- How much `make bench` measures, as the environment says.
--   QUICK=1         shows that everything works: figures mean little
--   ROUNDS          how many rounds of each measurement (5; quick: 3)
--   SECONDS_EACH    how long one worker runs in a round (0.5; quick: 0.2)
--   RENEW_SECONDS   how long renewal is watched (21; 0: not at all, nor memory)
local quick = (os.getenv("QUICK") or "0") ~= "0"

local settings = { quick = quick, luas = { "lua5.4", "luajit" } }

--- One of these, or what it is when it is not said.
function settings.number(name, usually, quickly)
  return tonumber(os.getenv(name)) or quick and quickly or usually
end

settings.rounds = settings.number("ROUNDS", 5, 3)
settings.seconds = settings.number("SECONDS_EACH", 0.5, 0.2)
settings.renew_seconds = settings.number("RENEW_SECONDS", 21, 0)

return settings
