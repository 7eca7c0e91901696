-- DLOCK_TRACE=1: what happens to a request, line by line on stderr. Each test
-- runs a process of its own, because the flag is read when a library is loaded.

local process = require "spec.support.process"
local subjects = require "spec.contract.subjects"

-- Acquires and releases a lock, and whatever that gives is let be.
local SCRIPT = [[
  local dlock = require "dlock"
  local store = assert(dlock.open(arg[1]))
  local lease = store:lock(arg[2], { ttl = 20, timeout = 20 })
  if lease then lease:release() end
  store:close()
]]

-- What is written to stderr meanwhile; the flag false: it is not set.
local function trace(flag, url, key)
  local status, out, err = process.run { script = SCRIPT,
    args = { url, key }, env = { DLOCK_TRACE = flag } }
  assert.are.equal(0, status, tostring(out) .. tostring(err))
  assert.are.equal("", out)
  return err
end

-- The events in order, as "room event", of those lines that are about what;
-- raises when a line does not look like one.
local function events(text, what)
  local found = {}
  for line in text:gmatch("[^\n]+") do
    local room, event, about = line:match(
      "^dlock %d+ %d+%.%d%d%d (%l+) ([%l-]+) (.-): .+$")
    assert.is_truthy(room, "no line of the trace: " .. line)
    if not what or about:find(what, 1, true) then
      found[#found + 1] = room .. " " .. event
    end
  end
  return found
end

-- The wanted events are there in this order, whatever is between them.
local function assert_in_order(wanted, found, text)
  local at = 1
  for _, event in ipairs(found) do
    if event == wanted[at] then at = at + 1 end
  end
  assert.is_nil(wanted[at], text)
end

-- Longer than any fence or time.
local DIGITS = ("%x"):rep(20)

local ORDER = {
  redis = { "engine request", "redis send", "redis answer", "redis grant",
    "engine grant", "engine end", "engine request", "engine leave",
    "redis send", "redis answer", "engine end" },
  zookeeper = { "engine request", "zookeeper send", "zookeeper answer",
    "zookeeper grant", "engine grant", "engine end", "engine request",
    "engine leave", "engine end" },
  etcd = { "engine request", "etcd send", "etcd answer", "etcd grant",
    "engine grant", "engine end", "engine request", "engine leave",
    "etcd send", "etcd answer", "engine end" },
  consul = { "engine request", "consul send", "consul answer", "consul grant",
    "engine grant", "engine end", "engine request", "engine leave",
    "consul send", "consul answer", "engine end" },
  postgres = { "engine request", "postgres send", "postgres answer",
    "postgres grant", "engine grant", "engine end", "engine request",
    "engine leave", "postgres send", "postgres answer", "engine end" },
  mysql = { "engine request", "mysql send", "mysql answer", "mysql grant",
    "engine grant", "engine end", "engine request", "engine leave",
    "mysql send", "mysql answer", "engine end" },
  file = { "engine request", "file grant", "engine grant", "engine end",
    "engine request", "engine leave", "engine end" },
}

describe("the trace", function()
  after_each(process.close_all)

  for _, subject in ipairs(subjects) do
    local name = subject.name
    local order = ORDER[name]
    if order then
      it("shows an acquire and a release on " .. name, function()
        local text = trace("1", subject.url(), "traced")
        assert_in_order(order, events(text), text)
        assert.matches("engine grant 'traced': fence %d+, after %d", text)
        assert.matches(name
          .. " grant 'traced': fence %d+, token %.%.%x%x%x%x\n", text)
        assert.matches("engine end 'traced': acquire ok, after %d", text)
      end)

      it("shows no token in whole on " .. name, function()
        assert.is_nil(trace("1", subject.url(), "traced"):find(DIGITS))
      end)

      it("is silent unless asked for, on " .. name, function()
        assert.are.equal("", trace(false, subject.url(), "traced"))
        assert.are.equal("", trace("0", subject.url(), "traced"))
      end)

      it("shows keys escaped and cut, on " .. name, function()
        local text = trace("1", subject.url(),
          "a'\27[31m\n" .. ("long"):rep(60))
        assert.are.equal(#events(text), select(2, text:gsub("\n", "")))
        assert.is_truthy(text:find("'a\\x27\\x1b[31m\\x0alonglong", 1, true))
        assert.is_nil(text:find(("long"):rep(30), 1, true))
      end)
    end
  end

  it("shows no password", function()
    local url = subjects[1].url():gsub("//", "//user:geheimnis@")
    local text = trace("1", url, "traced")
    assert.matches("redis answer 'traced'", text)
    assert.is_nil(text:find("geheimnis", 1, true))
  end)
end)
