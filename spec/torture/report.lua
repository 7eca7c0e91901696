-- Says what a torture found, and whether that is good.

local report = {}

local function counts(map)
  local names, list = {}, {}
  for name in pairs(map) do
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do
    list[i] = ("%d %s"):format(map[name], name)
  end
  return #list > 0 and table.concat(list, ", ") or "none"
end

-- A kind of problem: how many there were and the first of them.
local function problems(what, list)
  local count = list.count or #list
  print(("%-17s %d"):format(what, count))
  for i = 1, math.min(#list, 5) do
    print("  " .. list[i])
  end
  return count == 0
end

local function lives(workers)
  local count = 0
  for _ in pairs(workers.life) do
    count = count + 1
  end
  return count
end

local function say_register(found, store)
  print(("register          %d writes; unfenced: %d stale accepted; fenced: "
    .. "%d stale accepted, %d refused"):format(found.writes,
    found.unfenced_stale, found.fenced_stale, found.refused))
  if store == "file" then
    print("                  (a stopped process keeps a file's lock, so stale"
      .. " writes are rare)")
  end
end

--- Prints it all; true when every promise was kept.
function report.print(result, args)
  local holds, calls = result.holds, result.calls
  print(("holds             %d exclusive, %d shared, %d permits; %d "
    .. "processes"):format(holds.modes.x, holds.modes.s, holds.modes.p,
    lives(result.workers)))
  print("waits             " .. counts(calls.codes))
  print("faults            " .. counts(result.faults))
  say_register(result.register, args.store)
  print(("longest wait      %.1f s of a calm"):format(calls.longest))
  if result.silent then
    print(("servers silent    %.1f s of the calms, which do not count"):format(
      result.silent))
  end
  if result.excused and args.store == "redis-older" then
    print(("excused           %d, in %d restarts with older data"):format(
      holds.excused, #result.excused))
  end
  local good = problems("overlaps", holds.overlaps)
  good = problems("falling fences", holds.fences) and good
  good = problems("late calls", calls.late) and good
  good = problems("stuck waiters", calls.stuck) and good
  good = problems("strange answers", calls.strange) and good
  good = problems("stuck processes", result.workers.stuck) and good
  good = problems("crashes", result.workers.crashes) and good
  good = problems("left behind", result.left) and good
  good = good and result.register.fenced_stale == 0
  print(("torture %s: %s, seed %d"):format(args.store,
    good and "good" or "FAILED", args.seed))
  return good
end

return report
