-- store:stats: what was counted, and the text for Prometheus.
local dlock = require "dlock"
local server = require "spec.support.server"
local steady = require "spec.support.steady"

describe("store:stats", function()
  local dir, store, other

  local function set_up()
    dir = server.new_dir()
    store = assert(dlock.open("file://" .. dir .. "/locks"))
    other = assert(dlock.open("file://" .. dir .. "/locks"))
  end

  local function tear_down()
    store:close(1)
    other:close(1)
    server.remove_dir(dir)
  end

  local timed = steady(set_up, tear_down)

  it("counts from the start, without I/O", function()
    local found = store:stats()
    assert.equal(0, found.acquires.granted)
    assert.equal(0, found.held)
    assert.equal(0, found.wait.count)
  end)

  timed("counts how acquires end, holds, and losses", function()
    local lease = assert(store:lock("a"))
    assert.equal("busy", (select(3, store:try_lock("a"))))
    assert.equal("timeout", (select(3, store:lock("a", { timeout = 0.05 }))))
    local found = store:stats()
    assert.equal(1, found.acquires.granted)
    assert.equal(1, found.acquires.busy)
    assert.equal(1, found.acquires.timeout)
    assert.equal(1, found.held)
    assert.equal(0, found.hold.count)
    assert(lease:release())
    local lost = assert(store:lock("b", { ttl = 0.2, renew = false }))
    assert(lost:wait_lost(5))
    found = store:stats()
    assert.equal(0, found.held)
    assert.equal(1, found.lost)
    assert.equal(2, found.hold.count)
    assert.is_true(found.hold.sum > 0.1 and found.hold.sum < 10)
    assert.equal(2, found.wait.count)
    assert.equal(0, other:stats().acquires.granted)
  end)

  if math.type then
    it("counts in integers", function()
      assert(store:lock("a")):release()
      local counts = 0
      local function check(found, path)
        for name, value in pairs(found) do
          local here = path .. "." .. name
          if type(value) == "table" then
            check(value, here)
          elseif name ~= "le" and name ~= "sum" then
            counts = counts + 1
            assert.equal("integer", math.type(value), here)
          end
        end
      end
      check(store:stats(), "stats")
      assert.is_true(counts > 20)
    end)
  end

  timed("counts renewals", function()
    local lease = assert(store:lock("a", { ttl = 1 }))
    for _ = 1, 100 do
      lease:wait_lost(0.05)
      if store:stats().renewed >= 2 then break end
    end
    assert.is_true(store:stats().renewed >= 2)
    assert(lease:release())
  end)

  it("is text that Prometheus can read", function()
    assert(store:lock("a")):release()
    local text = store:stats("prometheus")
    local types, names = {}, {}
    for line in text:gmatch("[^\n]+") do
      local name, kind = line:match("^# TYPE (%S+) (%S+)$")
      if name then
        types[name] = kind
      elseif not line:find("^# HELP %S+ .") then
        local series, labels, value =
          line:match('^([%w_]+){(.*)} ([%d.e+-]+)$')
        assert.is_truthy(series, line)
        assert.is_truthy(tonumber(value), line)
        assert.matches('^store="file://[^"]+",prefix="",pid="%d+"', labels)
        local base = series:gsub("_bucket$", ""):gsub("_sum$", "")
          :gsub("_count$", "")
        assert.is_truthy(types[series] or types[base] == "histogram", line)
        names[series] = true
      end
    end
    assert.is_true(names.dlock_acquires_total)
    assert.is_true(names.dlock_wait_seconds_bucket)
    assert.matches('result="granted"} 1\n', text)
    assert.matches('dlock_hold_seconds_bucket{[^}]*le="%+Inf"} 1\n', text)
  end)

  -- Of each series of the page its value; raises if one stands there twice.
  local function series_of(page)
    local found = {}
    for series, value in page:gmatch("(dlock_[^\n]-}) ([^\n]+)\n") do
      assert.is_nil(found[series], series .. " stands there twice")
      found[series] = tonumber(value)
    end
    return found
  end

  local function value(found, part)
    for series, number in pairs(found) do
      if series:find(part, 1, true) then return number end
    end
    return nil
  end

  it("has each metric and each series once on a page of stores", function()
    local url = "redis://127.0.0.1:1"
    local a = assert(dlock.open { url = url, prefix = "a:" })
    local b = assert(dlock.open { url = url, prefix = "b:" })
    local page = assert(dlock.prometheus { a, store, b })
    for _, word in ipairs { "HELP", "TYPE" } do
      assert.are.equal(1, select(2, page:gsub("# " .. word
        .. " dlock_acquires_total ", "")))
    end
    local found = series_of(page)
    for _, prefix in ipairs { "a:", "b:" } do
      assert.are.equal(0, (value(found,
        ('dlock_leases_held{store="%s",prefix="%s",'):format(url, prefix))))
    end
    a:close()
    b:close()
  end)

  it("adds up stores that are told apart by nothing", function()
    local path = server.new_dir()
    local a = assert(dlock.open { url = "file://" .. path, id = "one" })
    local b = assert(dlock.open { url = "file://" .. path, id = "one",
      ttl = 7 })
    assert(a:lock("a")):release()
    assert(b:lock("a")):release()
    local found = series_of(assert(dlock.prometheus { a, b, a }))
    assert.are.equal(2, value(found, 'result="granted"'))
    a:close()
    b:close()
    server.remove_dir(path)
  end)

  it("refuses what is no list of stores", function()
    for bad, said in pairs { [1] = "not a number", [store] = "not a store",
        [{}] = "this one is empty", [{ store, 5 }] = "%[2%] is none",
        [{ store, share = "x" }] = "%[share%] is none",
        [{ store, shared = {} }] = "lua_shared_dict, not a table" } do
      local ok, message = pcall(dlock.prometheus, bad)
      assert.is_false(ok)
      assert.matches(said, message)
    end
    assert.are.equal("unsupported",
      select(3, dlock.prometheus { store, shared = "dlock" }))
  end)

  it("shows no secret, and refuses another format", function()
    local one = assert(dlock.open("redis://me:geheim@127.0.0.1:1"))
    assert.is_nil(one:stats("prometheus"):find("geheim", 1, true))
    for _, bad in ipairs { "json", "", "prom\0" } do
      local nothing, message, code = store:stats(bad)
      assert.is_nil(nothing)
      assert.are.equal("invalid", code)
      assert.matches("^invalid: .*prometheus", message)
    end
    for _, bad in ipairs { 1, true, {} } do
      assert.has_error(function() store:stats(bad) end,
        'store:stats takes "prometheus" or nothing, not a ' .. type(bad))
    end
  end)
end)
