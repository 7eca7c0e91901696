-- Verbs that look at keys, or mend them. Each returns its exit status, or nil,
-- message, code.
local json = require "dlock.json"
local out = require "dlock.cli.out"
local stats = require "dlock.stats"

local look = {}

local plain, say, seconds = out.plain, out.say, out.seconds

local function holder_line(holder)
  local parts = { ("held by %s, fence %s, ends in %s"):format(
    plain(holder.owner), out.fence(holder), seconds(holder.ttl)) }
  if holder.since then
    parts[#parts + 1] = "for " .. seconds(holder.since)
  end
  if holder.permits then
    parts[#parts + 1] = ("%.0f permit%s"):format(holder.permits,
      holder.permits == 1 and "" or "s")
  end
  if (holder.value or "") ~= "" then
    parts[#parts + 1] = "value " .. plain(holder.value)
  end
  return table.concat(parts, ", ")
end

local function print_found(found)
  say(("%s%s"):format(found.mode or "free",
    found.permits and (", %.0f permits"):format(found.permits) or ""))
  for _, holder in ipairs(found.holders) do say(holder_line(holder)) end
  for i, waiter in ipairs(found.waiters) do
    say(("waiting %d: %s, %s, for %s"):format(i, plain(waiter.owner),
      waiter.mode or "?", seconds(waiter.waited)))
  end
end

function look.show(store, request)
  local key = request.words[1]
  local found, message, code = store:inspect(key)
  if message then
    return nil, message, code
  elseif request.options.json then
    say(json.encode(found or { key = key, holders = {}, waiters = {} }))
  elseif found then
    print_found(found)
  else
    say("free")
  end
  return 0
end

function look.held(store, request)
  local key = request.words[1]
  local mutex, message, code = store:mutex(key)
  if not mutex then return nil, message, code end
  local held
  held, message, code = mutex:locked()
  if held == nil then return nil, message, code end
  if request.options.json then
    say(json.encode { key = key, held = held })
  end
  return held and 0 or 1
end

function look.each(store, prefix, visit)
  local cursor, keys, message, code
  repeat
    keys, message, code = store:list(prefix or "", { cursor = cursor })
    if not keys then return nil, message, code end
    cursor = message
    for _, key in ipairs(keys) do
      local found
      found, message, code = store:inspect(key)
      if message then return nil, message, code end
      if found then
        found.key = key
        visit(found)
      end
    end
  until not cursor
  return true
end

--- The first holder and the number of others; and its age.
function look.holder_of(found)
  local first = found.holders[1]
  if not first then
    return ("nobody, %d waiting"):format(#found.waiters), "-"
  end
  local more = #found.holders - 1
  return plain(first.owner) .. (more > 0 and (" and %d more"):format(more)
    or ""), seconds(first.since)
end

function look.columns(rows)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, #cell)
    end
  end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = i == #row and cell or cell .. (" "):rep(widths[i] - #cell)
    end
    lines[n] = table.concat(cells, "  ")
  end
  return lines
end

function look.ls(store, request)
  local rows, list = {}, {}
  local done, message, code = look.each(store, request.words[1],
    function(found)
      local holder, age = look.holder_of(found)
      local first = found.holders[1]
      rows[#rows + 1] = { plain(found.key), found.mode or "-", holder, age }
      list[#list + 1] = { key = found.key, mode = found.mode,
        holder = first and first.owner, age = first and first.since,
        holders = #found.holders, waiters = #found.waiters }
    end)
  if not done then return nil, message, code end
  if request.options.json then
    say(json.encode(list))
  else
    for _, line in ipairs(look.columns(rows)) do say(line) end
  end
  return 0
end

local COUNTED = {
  { "keys", "Keys that are held or waited for." },
  { "holders", "Holders of these keys." },
  { "waiters", "Waiters for these keys." },
}

local function prometheus(count, store)
  local shown = stats.label(out.store(store))
  for _, one in ipairs(COUNTED) do
    local name = "dlock_" .. one[1]
    say(("# HELP %s %s\n# TYPE %s gauge\n%s{store=\"%s\"} %d"):format(name,
      one[2], name, name, shown, count[one[1]]))
  end
end

function look.stats(store, request)
  local count = { keys = 0, holders = 0, waiters = 0 }
  local done, message, code = look.each(store, request.words[1],
    function(found)
      count.keys = count.keys + 1
      count.holders = count.holders + #found.holders
      count.waiters = count.waiters + #found.waiters
    end)
  if not done then return nil, message, code end
  if request.options.prometheus then
    prometheus(count, store)
  elseif request.options.json then
    say(json.encode(count))
  else
    say(("%d keys, %d holders, %d waiters"):format(count.keys, count.holders,
      count.waiters))
  end
  return 0
end

function look.leader(store, request)
  local key = request.words[1]
  local election, message, code = store:election(key)
  if not election then return nil, message, code end
  local leader
  leader, message, code = election:leader()
  if message then return nil, message, code end
  if request.options.json then
    say(json.encode { key = key, leader = leader })
  elseif leader then
    say(plain((leader.value or "") ~= "" and leader.value or leader.owner))
  end
  return leader and 0 or 1
end

function look.ping(store, request)
  local trip, message, code = store:ping()
  if not trip then return nil, message, code end
  say(request.options.json and json.encode { round_trip = trip }
    or ("%.3f ms"):format(trip * 1000))
  return 0
end

look["break"] = function(store, request)
  local done, message, code = store:break_lock(request.words[1])
  return done and 0, message, code
end

function look.revoke(store, request)
  local done, message, code = store:revoke(request.words[1])
  return done and 0, message, code
end

return look
