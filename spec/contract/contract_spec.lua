-- The contract: the same cases on every store, and in every host. A case file
-- returns a function that is given a context and adds its cases to it, by `it`,
-- or by `timed` if it needs a machine that does not stand still for as long as
-- its short times to live and time-outs; a new kind of lock is a new file in
-- CASES, a new host or store a new entry in its list.

local context = require "spec.contract.context"
local hosts = require "spec.contract.hosts"
local lot = require "spec.support.lot"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"
local unqueued = require "spec.contract.unqueued"

local CASES = {
  "basics", "keys", "waiting", "lease", "loss", "with", "reentrancy",
  "closing", "kinds", "admin", "election", "all", "handoff", "results",
  "periods", "meetings",
}

-- Every run tries all stores in plain Lua. All of it again in each event loop
-- would take minutes, so each loop has its turn on one Lua and one store; all
-- of it with DLOCK_TEST_HOST=all, or one host and store by their names.
local ALSO = jit and { luv = "redis" }
  or _VERSION == "Lua 5.1" and { cqueues = "file" } or {}

local only_store = os.getenv("DLOCK_TEST_STORE")
local only_host = os.getenv("DLOCK_TEST_HOST")

-- Of three runs side by side each does every third store (.ci/lib).
local third = tonumber(os.getenv("DLOCK_TEST_THIRD"))

-- The other ways to a Redis differ below the connection, so each Lua takes one
-- of them by lot, and all Luas together each of them twice. A sanitizer, which
-- is slow, takes every other store, and with the next lot the others.
local sanitized = os.getenv("DLOCK_TEST_SANITIZER") ~= nil
local is_mine = lot.draw(sanitized and "stores" or "ways to Redis", 2)

local function wanted(host, subject, number)
  if only_store and only_store ~= subject.name
      or third and number % 3 ~= third then
    return false
  elseif only_host then
    return only_host == host.name or only_host == "all"
  end
  local by_lot = sanitized and number or subject.way
  if by_lot and not only_store and not is_mine(by_lot) then
    return false
  end
  return host.blocks or ALSO[host.name] == subject.name
end

-- What is Lua alone is the same on each way to a Redis, and nothing that a
-- sanitizer looks at.
local LUA_ALONE = { all = true, reentrancy = true, results = true, with = true }
local long = os.getenv("DLOCK_LONG") == "1"

local function cases_on(subject, host)
  local less = not (only_store or long) and (sanitized or subject.way)
  local t = context.new(subject, host)

  local timed = steady(nil, function()
    host.run(function() t:clean_up() end)
  end)

  local function in_host(case)
    return function(name, fn)
      if not (subject.plain and unqueued.CASES[name]) then
        case(name, function() host.run(fn) end)
      end
    end
  end

  for _, name in ipairs(CASES) do
    if not (less and LUA_ALONE[name]
        or subject.plain and (name == "kinds" or name == "meetings")) then
      describe(name, function()
        require("spec.contract." .. name)(t, in_host(it), in_host(timed))
      end)
    end
  end
  if subject.plain then
    describe("no queue", function() unqueued.cases(t, in_host(it)) end)
  end
end

-- Neither rights nor the model depend on the Lua or the host.
local on = { (table.unpack or unpack)(subjects) }
on[#on + 1] = subjects.cluster
for _, subject in ipairs { subjects.closed, subjects.model } do
  if only_store == subject.name or _VERSION == "Lua 5.4" then
    on[#on + 1] = subject
  end
end

for _, host in ipairs(hosts) do
  for number, subject in ipairs(on) do
    if wanted(host, subject, number) then
      describe(("on %s in %s, the contract of"):format(subject.name, host.name),
      function()
        cases_on(subject, host)
      end)
    end
  end
end
