-- Two processes that must not work at the same time. Each wants to change one
-- file several times: read a number, think, write it back one higher. Without
-- the lock they would overwrite each other's changes.
--
-- Run it twice at once with the same store, or let `make demo` do that:
--   lua examples/demo.lua NAME LEDGER-FILE [URL]
-- Without URL: $DLOCK_URL, else the files of this host, for which no server is
-- needed.

local dlock = require "dlock"

local name, ledger, url = arg[1], arg[2], arg[3]
assert(name and ledger, "usage: demo.lua NAME LEDGER-FILE [URL]")

local TURNS = 4

local function read()
  local file = io.open(ledger)
  local number = file and file:read("*n") or 0
  if file then
    file:close()
  end
  return number
end

local function write(number)
  local file = assert(io.open(ledger, "w"))
  file:write(("%d\n"):format(number))
  file:close()
end

local function turn(lease)
  local before = read()
  -- Work that takes a while. Should the lock be lost, this wakes up at once.
  lease:wait_lost(0.15)
  if not lease:held() then
    return
  end
  write(before + 1)
  print(("  %-5s holds the lock, fence %s: %d -> %d"):format(
    name, tostring(lease.fence), before, before + 1))
end

io.stdout:setvbuf("line")
local store = assert(url and dlock.open(url) or dlock.open())
for _ = 1, TURNS do
  -- Waits at most 10 s; `with` releases, whatever happens inside.
  assert(store:with("demo:ledger", { timeout = 10 }, turn))
end
store:close()
