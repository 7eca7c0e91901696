local canceller = require "dlock.canceller"
local dlock = require "dlock"
local options = require "dlock.options"
local server = require "spec.support.server"

local function check(opts, call)
  return options.check(opts, call or "store:lock")
end

local function raises(pattern, opts, call)
  call = call or "store:lock"
  local line = debug.getinfo(1, "l").currentline + 1
  local ok, problem = pcall(function() options.check(opts, call) end)
  assert.is_false(ok)
  assert.is_truthy(problem:find(pattern), problem)
  assert.is_truthy(problem:find("options_spec.lua:" .. line .. ":", 1, true),
    "points elsewhere: " .. problem)
end

describe("options", function()
  it("that nobody knows raise, at the caller's line", function()
    raises("unknown option 'ttl_ms' for store:lock", { ttl_ms = 5 })
    raises("unknown option '1'", { ["1"] = 1 })
    raises("unknown option %[1%]", { "x" })
    raises("unknown option %[an object %(a table%)", { [setmetatable({},
      { __tostring = function() error "no text" end })] = 1 })
    raises("it takes .*timeout", { Timeout = 1 })
  end)

  it("raise where they do not belong", function()
    raises("'url' does not belong to store:lock", { url = "x" })
    raises("'timeout' does not belong to store:try_lock", { timeout = 1 },
      "store:try_lock")
    for _, kind in ipairs { "mutex", "reader", "writer", "semaphore",
        "election", "all" } do
      local call = kind .. ":try_acquire"
      raises("'timeout' does not belong to " .. call, { timeout = 1 }, call)
    end
    raises("'reentrant' does not belong to mutex:acquire",
      { reentrant = true }, "mutex:acquire")
    raises("'cancel' does not belong to store:mutex",
      { cancel = canceller.new() }, "store:mutex")
  end)

  it("raise behind the last argument, where nobody would read them", function()
    local dir = server.new_dir()
    local store = assert(dlock.open("file://" .. dir .. "/locks"))
    local rw, list = store:rwlock "k", { store:mutex "a", store:mutex "b" }
    local lease = assert(store:lock "held")
    local all = dlock.all(list)
    local leases, election = assert(all:acquire()), store:election "e"
    local latch, barrier = store:latch("l", 1), store:barrier("n", 1)
    local ending, function_of = dlock.canceller(), function() end
    local more = { graceee = 1 }
    for call, fn in pairs {
      ["dlock.open"] = function() dlock.open(nil, more) end,
      ["dlock.all"] = function() dlock.all(list, more) end,
      ["dlock.fallback"] = function() dlock.fallback(list, more) end,
      ["dlock.canceller"] = function() dlock.canceller(more) end,
      ["dlock.logger"] = function() dlock.logger(io.stderr, more) end,
      ["rwlock:read"] = function() rw:read(more) end,
      ["rwlock:write"] = function() rw:write(more) end,
      ["store:inspect"] = function() store:inspect("k", more) end,
      ["store:break_lock"] = function() store:break_lock("k", more) end,
      ["store:lock"] = function() store:lock("k", nil, more) end,
      ["store:try_lock"] = function() store:try_lock("k", nil, more) end,
      ["store:list"] = function() store:list("", nil, more) end,
      ["mutex:acquire"] = function() list[1]:acquire(nil, more) end,
      ["mutex:try_acquire"] = function() list[1]:try_acquire(nil, more) end,
      ["mutex:locked"] = function() list[1]:locked(more) end,
      ["lease:release"] = function() lease:release(1, more) end,
      ["lease:release_later"] = function() lease:release_later(more) end,
      ["lease:detach"] = function() lease:detach(more) end,
      ["lease:downgrade"] = function() lease:downgrade(more) end,
      ["lease:extend"] = function() lease:extend(1, more) end,
      ["lease:wait_lost"] = function() lease:wait_lost(0, more) end,
      ["lease:on_lost"] = function() lease:on_lost(function_of, more) end,
      ["lease:on_revoke"] = function() lease:on_revoke(function_of, more) end,
      ["store:semaphore"] = function() store:semaphore("k", 1, nil, more) end,
      ["store:latch"] = function() store:latch("l", 1, nil, more) end,
      ["store:ping"] = function() store:ping(1, more) end,
      ["store:close"] = function() store:close(1, more) end,
      ["store:stats"] = function() store:stats(nil, more) end,
      ["store:once"] = function() store:once("k", function_of, {}, more) end,
      ["store:attach"] = function() store:attach("x", nil, more) end,
      ["mutex:cancel"] = function() list[1]:cancel(more) end,
      ["all:cancel"] = function() all:cancel(more) end,
      ["all:locked"] = function() all:locked(more) end,
      ["canceller:cancel"] = function() ending:cancel(more) end,
      ["election:campaign"] = function() election:campaign(nil, more) end,
      ["election:leader"] = function() election:leader(more) end,
      ["election:wait_change"] = function()
        election:wait_change(0, more)
      end,
      ["latch:wait"] = function() latch:wait(0, more) end,
      ["barrier:enter"] = function() barrier:enter(0, more) end,
      ["barrier:leave"] = function() barrier:leave(0, more) end,
    } do
      local ok, problem = pcall(fn)
      assert.is_false(ok, call)
      assert.is_truthy(problem:find("options_spec.lua:%d+: " .. call
        .. " takes .* no table behind it"), problem)
    end
    for name, fn in pairs {
      release = function() leases:release(1, more) end,
      release_later = function() leases:release_later(more) end,
      extend = function() leases:extend(1, more) end,
      wait_lost = function() leases:wait_lost(0, more) end,
      on_lost = function() leases:on_lost(function_of, more) end,
      on_revoke = function() leases:on_revoke(function_of, more) end,
    } do
      local ok, problem = pcall(fn)
      assert.is_false(ok, name)
      assert.matches("options_spec.lua:%d+: lease:" .. name
        .. " takes .* no table behind it", problem)
    end
    assert.is_true(lease:held() and leases:held())
    assert.is_nil((store:inspect("k", 1)))
    assert(store:close(1))
    server.remove_dir(dir)
  end)

  it("of the wrong type raise", function()
    raises("'ttl' of store:lock must be a number, not a string",
      { ttl = "5" })
    raises("must be a boolean, not a number", { renew = 1 })
    raises("must be a string, not a table", { owner = {} })
    raises("must be a canceller, not a table", { cancel = {} })
    raises("must be a function, not a string", { on_event = "x" },
      "dlock.open")
    raises("must be a table, not a number", 5)
  end)

  it("whose value cannot be used are a result", function()
    local nan, huge = 0 / 0, math.huge
    for _, opts in ipairs {
      { ttl = 0 }, { ttl = -1 }, { ttl = nan }, { ttl = 1e300 },
      { ttl = huge }, { ttl = 0.099 }, { ttl = 31536001 },
      { timeout = -0.1 }, { timeout = nan }, { timeout = 1e300 },
      { timeout = -huge }, { max_hold = -1 }, { max_hold = nan },
      { max_hold = 0 },
      { min_hold = huge }, { min_hold = -1 }, { min_hold = nan },
      { owner = "" }, { owner = ("x"):rep(96) }, { owner = "a\nb" },
      { value = ("x"):rep(1025) },
    } do
      local problem = check(opts)
      local name = next(opts)
      assert.is_truthy(problem, name)
      assert.are.equal(1, problem:find(name, 1, true))
    end
  end)

  it("outside of their range say which it is", function()
    for _, name in ipairs { "timeout", "max_hold", "min_hold", "ttl" } do
      for _, value in ipairs { 2 ^ 53, 1e300 } do
        local problem = check { [name] = value }
        local least, most = problem:match("from ([%d.]+) to (%d+)")
        assert.is_truthy(most, problem)
        assert.is_true(value > tonumber(most))
        assert.is_falsy(check { [name] = tonumber(least) })
        assert.is_falsy(check { [name] = tonumber(most) })
        assert.are.equal(not check { [name] = math.huge },
          problem:find(", or math.huge", 1, true) ~= nil)
      end
    end
  end)

  it("within their ranges are fine", function()
    for _, opts in ipairs {
      {}, { ttl = 0.1 }, { ttl = 31536000 }, { timeout = 0 },
      { timeout = math.huge }, { max_hold = math.huge }, { min_hold = 60 },
      { value = "a\0b" }, { renew = false, reentrant = true, fair = true },
      { cancel = canceller.new() }, { owner = "job 7" },
    } do
      assert.is_falsy(check(opts))
    end
  end)

  it("of open are checked too", function()
    for _, opts in ipairs {
      { host = "ngx" }, { scope = "all" }, { name = "" }, { name = "a\tb" },
      { prefix = ("x"):rep(257) }, { session_timeout = 0 },
      { io_timeout = math.huge }, { connect_timeout = -1 }, { id = "" },
    } do
      local problem = check(opts, "dlock.open")
      assert.are.equal(1,
        problem:find(next(opts), 1, true), problem)
    end
    assert.is_falsy(check({ prefix = "", host = "blocking", name = "w-1",
      scope = "worker", on_event = print, id = "x", schema = "shop",
      tables = "s_",
      listen = false }, "dlock.open"))
    assert.has_error(function() check({ listen = true }, "dlock.open") end)
  end)

  it("have each default in one line of its comment", function()
    for line in server.read_file("docs/reference.md"):gmatch("[^\n]+") do
      assert.is_nil(line:find("^|.*, else |"), line)
    end
  end)

  -- Each row of the tables whose first column is called so.
  local function documented(page, title)
    local names = {}
    local table_of = "\n| " .. title .. " |[^\n]*\n|%-[^\n]*\n(.-)\n\n"
    for rows in page:gmatch(table_of) do
      for column in ("\n" .. rows):gmatch("\n|([^|]*)|") do
        for name in column:gmatch("`([%a_]+)`") do names[name] = true end
      end
    end
    return names
  end

  it("are those of the reference, and those alone", function()
    local page = server.read_file("docs/reference.md")
    for title, call in pairs { ["option of `open`"] = "dlock.open",
        ["option in `tls`"] = "the table tls" } do
      local names, taken = documented(page, title), {}
      local _, problem = pcall(options.check, { [1] = 1 }, call, 1)
      for name in problem:match("it takes (.*)%)"):gmatch("[%a_]+") do
        taken[name] = true
      end
      assert.same(names, taken)
    end
  end)

  it("never show a secret", function()
    local problem = check({ password = ("hush"):rep(2000) }, "dlock.open")
    assert.is_nil(problem:find("hush", 1, true))
  end)

  it("name a way to hold for longer than the longest ttl", function()
    assert.is_truthy(check({ ttl = 1e9 }):find("renew = true", 1, true))
  end)

  it("fall back: the call's, the store's, the defaults", function()
    local base = options.defaults({ ttl = 7, url = "x" })
    assert.are.equal(7, base.ttl)
    assert.are.equal(5, base.timeout)
    assert.is_true(base.renew)
    assert.is_nil(base.url)
    local own = options.defaults({ renew = false, timeout = 0 }, base)
    assert.are.equal(7, own.ttl)
    assert.are.equal(0, own.timeout)
    assert.is_false(own.renew)
  end)
end)

describe("a key", function()
  it("has 1 to 512 bytes, any bytes", function()
    assert.is_nil((options.check_key("\0", "store:lock", 1)))
    assert.is_nil((options.check_key(("x"):rep(512), "store:lock", 1)))
    for _, key in ipairs { "", ("x"):rep(513) } do
      assert.are.equal(1,
        options.check_key(key, "store:lock", 1):find("the key ", 1, true))
    end
  end)

  it("that is no string raises", function()
    for _, key in ipairs { 5, true, {} } do
      assert.is_false((pcall(options.check_key, key, "store:lock", 1)))
    end
    assert.is_false((pcall(options.check_key, nil, "store:lock", 1)))
  end)
end)
