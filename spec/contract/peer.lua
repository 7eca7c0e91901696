-- Another process that uses the same store: runs each line it reads as Lua,
-- with `store`, `dlock` and `arg` at hand, and answers "ok" or "error" and what
-- it returned, separated by tabs.
-- usage: peer.lua URL SESSION_TIMEOUT [SENTINEL_USERNAME SENTINEL_PASSWORD]

local dlock = require "dlock"

io.stdout:setvbuf("line")
local env = setmetatable({
  dlock = dlock,
  store = assert(dlock.open { url = arg[1], session_timeout = tonumber(arg[2]),
    sentinel_username = arg[3], sentinel_password = arg[4] }),
}, { __index = _G })

local function compile(line)
  if rawget(_G, "setfenv") then
    local chunk = assert(loadstring(line))
    return setfenv(chunk, env)
  end
  return assert(load(line, "=peer", "t", env))
end

local function answer(ok, ...)
  local parts = { ok and "ok" or "error" }
  for i = 1, select("#", ...) do
    parts[i + 1] = tostring((select(i, ...))):gsub("[\t\n]", " ")
  end
  print(table.concat(parts, "\t"))
end

for line in io.lines() do
  answer(pcall(compile(line)))
end
env.store:close()
