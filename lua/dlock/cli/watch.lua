-- `dlock watch` prints each change of holder until a signal. The store reports
-- changes of one key. All keys are looked at each second; on a terminal they
-- are a table.
local core = require "dlock.core"
local json = require "dlock.json"
local look = require "dlock.cli.look"
local out = require "dlock.cli.out"

local watch = {}

local EVERY = 1 -- seconds
local STDOUT = 1
local EX_IOERR = 74
local HOME, REST_OF_LINE, REST_OF_SCREEN = "\27[H", "\27[K", "\27[J"

local function now()
  return os.date("%Y-%m-%dT%H:%M:%S")
end

local function change(request, key, holder, named)
  if request.options.json then
    out.say(json.encode { time = os.date("!%Y-%m-%dT%H:%M:%SZ"), key = key,
      holder = holder })
  else
    local name = named and out.plain(key) .. " " or ""
    out.say(("%s %s%s"):format(now(), name, holder
      and ("held by %s, fence %s"):format(out.plain(holder.owner),
        out.fence(holder)) or "free"))
  end
  return out.flushed()
end

local function one_key(store, request)
  local key = request.words[1]
  local election, message, code = store:election(key)
  if not election then return nil, message, code end
  while true do
    local leader
    leader, message, code = election:leader()
    if message then return nil, message, code end
    if not change(request, key, leader) then return EX_IOERR end
    local changed
    changed, message, code = election:wait_change()
    if not changed then return nil, message, code end
  end
end

local function draw(store, rows, height)
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  table.insert(rows, 1, { "KEY", "MODE", "HOLDER", "AGE", "ENDS IN",
    "WAITING" })
  local lines = look.columns(rows)
  table.insert(lines, 1, ("%s  %s"):format(now(), out.store(store)))
  local hidden = #lines - (height - 1)
  if hidden > 0 then
    for _ = 1, hidden + 1 do table.remove(lines) end
    lines[#lines + 1] = ("and %d more"):format(hidden + 1)
  end
  out.say(HOME .. table.concat(lines, REST_OF_LINE .. "\n") .. REST_OF_LINE
    .. "\n" .. REST_OF_SCREEN)
  return out.flushed()
end

local function row_of(found)
  local holder, age = look.holder_of(found)
  local first = found.holders[1]
  return { out.plain(found.key), found.mode or "-", holder, age,
    out.seconds(first and first.ttl), tostring(#found.waiters) }
end

local function tell_changes(request, seen, found)
  local good = true
  for key, holder in pairs(found) do
    if not seen[key] or seen[key].fence ~= holder.fence then
      good = good and change(request, key, holder, true)
    end
  end
  for key in pairs(seen) do
    if not found[key] then good = good and change(request, key, nil, true) end
  end
  return good
end

local function all_keys(store, request)
  local seen = {}
  local height = not request.options.json and core.terminal(STDOUT)
  while true do
    local rows, holders = {}, {}
    local done, message, code = look.each(store, "", function(found)
      rows[#rows + 1] = height and row_of(found) or nil
      holders[found.key] = found.holders[1]
    end)
    if not done then return nil, message, code end
    local good
    if height then
      good = draw(store, rows, (core.terminal(STDOUT)) or height)
    else
      good = tell_changes(request, seen, holders)
    end
    if not good then return EX_IOERR end
    seen = holders
    core.pause(EVERY)
  end
end

function watch.watch(store, request)
  return (request.words[1] and one_key or all_keys)(store, request)
end

return watch
