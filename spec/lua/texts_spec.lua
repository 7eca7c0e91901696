-- What messages and other texts show: numbers in any locale, and keys of any
-- bytes.
local dlock = require "dlock"
local process = require "spec.support.process"
local server = require "spec.support.server"
local store = require "dlock.store"
local url = require "dlock.url"

-- A locale that writes one half as 0,5. (Of the rest of a locale localedef
-- misses the definition, and ends with a warning and 1.)
local COMMA = [[
LC_NUMERIC
decimal_point "<U002C>"
thousands_sep "<U002E>"
grouping 3;3
END LC_NUMERIC
]]

-- A locale whose control characters go on from 128, as ISO-8859-1 has them.
local CONTROLS = [[
LC_CTYPE
cntrl <U0000>..<U001F>;<U007F>..<U009F>
END LC_CTYPE
]]

-- One in which more bytes are letters and blanks, and "I" is no capital "i",
-- as in Turkish.
local function letters()
  local small = {}
  for byte = 65, 90 do
    small[#small + 1] = ("(<U%04X>,<U%04X>)"):format(byte,
      byte == 73 and 0x131 or byte + 32)
  end
  return [[
LC_CTYPE
upper <U0041>..<U005A>;<U00C4>
lower <U0061>..<U007A>;<U00E4>;<U0131>
alpha <U0041>..<U005A>;<U0061>..<U007A>;<U00C4>;<U00E4>;<U0131>
digit <U0030>..<U0039>
space <U0009>..<U000D>;<U0020>;<U00A0>
tolower ]] .. table.concat(small, ";") .. "\nEND LC_CTYPE\n"
end

-- Calls that need a number behind the key.
local COUNTED = { semaphore = 1, barrier = 1, latch = 1 }

describe("a text", function()
  local dir

  before_each(function() dir = server.new_dir() end)

  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  -- Another client may check less than dlock.open does.
  it("has a holder's name in one line, without control bytes", function()
    local where = "file://" .. dir .. "/locks"
    local odd = store.open(assert(url.parse(where)),
      { name = "a\27[2J\nz\127" })
    local other = assert(dlock.open(where))
    local lease = assert(odd:lock("k"))
    for _, timeout in ipairs { 0, 0.05 } do
      local _, message = other:lock("k", { timeout = timeout })
      assert.matches(" held by a%?%[2J%?z%?", message)
    end
    assert.equal("a\27[2J\nz\127", other:inspect("k").holders[1].owner)
    assert(lease:release())
    assert(odd:close())
    assert(other:close())
  end)

  -- Every message that has a key in it, of every call.
  it("shows any key, in one short line", function()
    local where = "file://" .. dir .. "/locks"
    local file = assert(io.open(dir .. "/log", "w"))
    local log, events = dlock.logger(file), {}
    local function on_event(event)
      events[#events + 1] = event
      log(event)
    end
    local mine = assert(dlock.open { url = where, on_event = on_event })
    local other = assert(dlock.open { url = where, name = "%d%s" })
    local down = assert(dlock.open { url = "redis://127.0.0.1:1",
      on_event = on_event, io_timeout = 0.1, connect_timeout = 0.1 })
    local function shows(key, code, ok, message, got)
      assert.is_nil(ok)
      assert.equal(code, got, message)
      assert.matches("^" .. code .. ": ", message)
      assert.is_nil(message:find("[^\32-\126]"), message)
      assert.is_true(#message < 500, message)
      local known = key:gsub("[^\32-\126\\'].*$", ""):sub(1, 40)
      assert.is_truthy(message:find(known, 1, true), message)
    end
    for _, key in ipairs { "100%", "%d%s%n%5", "%%", "%1%0", "a fence=7 held",
        "a\nb\27[2J\127", ("k%"):rep(256), ("\255"):rep(512), "\0x" } do
      local lease = assert(mine:lock(key))
      local all = dlock.all { other:mutex "free", other:mutex(key) }
      local short = { timeout = 0.01 }
      shows(key, "busy", other:try_lock(key))
      shows(key, "timeout", other:lock(key, short))
      shows(key, "busy", all:try_acquire())
      shows(key, "timeout", all:acquire(short))
      shows(key, "timeout", other:election(key):wait_change(0.01))
      shows(key, "timeout", lease:wait_lost(0.01))
      shows(key, "invalid", other:semaphore(key, 2):acquire { permits = 3 })
      shows(key, "unavailable", down:try_lock(key))
      local rw = assert(mine:rwlock("rw" .. key:sub(3), { reentrant = true }))
      local reading = assert(rw:read():acquire())
      shows(key:sub(3), "unsupported", rw:write():try_acquire())
      assert(reading:release())
      assert(mine:break_lock(key))
      shows(key, "lost", lease:release())
      shows(key, "lost", mine:with(key, function(held)
        assert(mine:break_lock(key))
        assert(held:wait_lost(20))
      end))
      local either = assert(dlock.fallback { down:mutex(key), mine:mutex(key),
        grace = 0 })
      local weak = assert(either:acquire())
      assert.matches("^dlock%.lease: .* degraded held %d", tostring(weak))
      if key:find("fence=", 1, true) then
        assert.is_truthy(tostring(weak):find(key, 1, true), tostring(weak))
      end
      weak:on_lost(function() error("%d " .. key) end)
      assert(mine:break_lock(key))
      shows(key, "lost", weak:release())
      for _, one in ipairs { all, either, weak, rw, lease, mine:mutex(key) } do
        assert.is_nil(tostring(one):find("[^\32-\126]"), tostring(one))
      end
    end
    for _, key in ipairs { ("%d\n"):rep(21846), ("x"):rep(513), "" } do
      for _, call in ipairs { "mutex", "rwlock", "election", "lock", "try_lock",
          "inspect", "break_lock", "revoke", "tag", "once", "with",
          "semaphore", "barrier", "latch" } do
        local last = COUNTED[call]
        if call == "once" or call == "with" then last = print end
        shows("", "invalid", mine[call](mine, key, last))
      end
    end
    local kinds = {}
    for _, event in ipairs(events) do
      kinds[event.kind] = true -- a callback's error is the program's own text
      assert.is_true(event.kind == "callback"
        or not event.message:find("[^\32-\126]"), event.message)
    end
    for _, kind in ipairs { "callback", "degraded", "lost" } do
      assert.is_true(kinds[kind], kind)
    end
    assert(mine:close())
    assert(other:close())
    assert(down:close())
    file:close()
    local lines = 0
    for line in io.lines(dir .. "/log") do
      assert.matches('^{.*"message":".*}$', line)
      assert.is_nil(line:find("%c"), line)
      lines = lines + 1
    end
    assert.equal(#events, lines)
  end)

  it("has its numbers with a dot, whatever the locale writes", function()
    server.write_file(dir .. "/comma.src", COMMA)
    process.run { command = { "localedef", "-c", "-i", dir .. "/comma.src",
      dir .. "/comma" }, stderr = "pipe" }
    local status, out, err = process.run { env = { LOCPATH = dir },
      args = { "file://" .. dir .. "/locks" }, stderr = "pipe", script = [[
      assert(os.setlocale("comma", "numeric"))
      local written = ("%.14g"):format(0.5)
      assert(rawget(_G, "jit") or written == "0,5", written)
      local dlock, json = require "dlock", require "dlock.json"
      local store = assert(dlock.open { url = arg[1], timeout = 0.125 })
      local other = assert(dlock.open(arg[1]))
      print(json.encode { 0.5, 1e300, -2.5e-7, 12345678 })
      local lease = assert(store:lock("k", { ttl = 2.5 }))
      print(tostring(lease), json.encode(lease.ttl))
      for _, call in ipairs {
        function() return other:lock("k", { timeout = 0.125 }) end,
        function() return other:lock("k", { ttl = 0.0625 }) end,
        function() return other:election("k"):wait_change(0.125) end,
        function()
          return dlock.all { other:mutex "j", other:mutex "k" }
            :acquire { timeout = 0.125 }
        end,
      } do
        print(select(2, call()))
      end
      local two = assert(dlock.all { other:mutex "j" }:acquire())
      print(two)
      print((store:stats("prometheus"):gsub('{[^}]*,le=', "{le=")
        :gsub('{store[^}]*}', "")))
      store:close()
      other:close()
    ]] }
    assert.same({ 0, "" }, { status, err })
    local first, rest = out:match("^([^\n]*)(.*)$")
    assert.equal("[0.5,1e+300,-2.5e-07,12345678]", first)
    assert.is_nil(rest:find("%d,%d"), rest)
    for _, shown in ipairs { "held %d+%.%ds", "after 0%.%d+ s",
        "ttl is 0%.0625, but .* from 0%.1 to", "\t2%.5\n",
        "dlock.leases: [^\n]* held %d+%.%ds", 'le="0%.%d+"',
        "_sum 0%.?%d*\n" } do
      assert.matches(shown, out)
    end
  end)

  -- What users write, in the locale that a program begins with and in another.
  it("is read alike in every locale", function()
    server.write_file(dir .. "/comma.src", COMMA)
    server.write_file(dir .. "/letters.src", letters())
    for name, charmap in pairs { comma = "ISO-8859-1",
        letters = "ISO-8859-9" } do
      process.run { command = { "localedef", "-c", "-f", charmap, "-i",
        ("%s/%s.src"):format(dir, name), dir .. "/" .. name },
        stderr = "pipe" }
    end
    local status, out, err = process.run { env = { LOCPATH = dir },
      args = { dir }, stderr = "pipe", script = [[
      local args, dlock = require "dlock.cli.args", require "dlock"
      local url = require "dlock.url"
      local function read_all()
        local told = {}
        for _, one in ipairs { "FILE:///x", "REDIS+UNIX:///x", "redis://h",
            "redis://h\228", "redis://\196:1", "redis://[fe80::1%\228]",
            "redi\228s://h", "\228edis://h", "zookeeper://h/\228" } do
          local found, message = url.parse(one)
          told[#told + 1] = found and found.shown or message
        end
        for _, one in ipairs { "h:1", "\160h:1", "h\160:1", "h h:1", "h\9:1",
            "h:1\160", "\228:1" } do
          local store, message = dlock.open { url = "redis+sentinel://h/m",
            address_map = { [one] = "h:2" } }
          told[#told + 1] = store and "opened" or message
          if store then store:close() end
        end
        for _, one in ipairs { "1.5", "0.1", "1,5", ".5", "5.", ".", "12.125",
            "0x10", "1e3", "31536000", "1" .. ("0"):rep(400), "\1601",
            "0." .. ("0"):rep(400) .. "1", "1.5 " } do
          local read = args.read { "run", "--ttl", one, "k", "--", "true" }
          told[#told + 1] = read and ("%q"):format(read.options.ttl * 1000)
            or "refused"
        end
        return table.concat(told, "\n")
      end
      -- As on a file system that ignores case, "i" is the file of "I".
      local function share_a_file(name)
        local dir = arg[1] .. "/" .. name
        local one = assert(dlock.open("file://" .. dir))
        local two = assert(dlock.open("file://" .. dir))
        local lease = assert(one:lock "I")
        assert(os.rename(dir .. "/I", dir .. "/i"))
        local code = select(3, two:try_lock "i")
        lease:release()
        one:close()
        two:close()
        return "\n" .. tostring(code)
      end
      local told = read_all() .. share_a_file "here"
      assert(os.setlocale("comma", "numeric"))
      assert(os.setlocale("letters", "ctype"))
      if not rawget(_G, "jit") then
        assert(("\228"):find("%w") and ("\160"):find("%s"))
        assert(("I"):lower() == "\253" and ("%.1f"):format(0.5) == "0,5")
      end
      local here = read_all() .. share_a_file "there"
      print(here == told and "alike" or told .. "\n---\n" .. here)
      print(told)
    ]] }
    assert.same({ 0, "" }, { status, err })
    assert.matches("^alike\n", out)
    assert.matches("\nfile:///x\nredis%+unix:///x\n", out)
    local _, refused = out:gsub("refused", "")
    assert.equal(8, refused, out)
    assert.matches("\nbusy\n$", out)
  end)

  it("has its control bytes by their numbers, not by the locale", function()
    server.write_file(dir .. "/latin.src", CONTROLS)
    process.run { command = { "localedef", "-c", "-f", "ISO-8859-1", "-i",
      dir .. "/latin.src", dir .. "/latin" }, stderr = "pipe" }
    local status, out, err = process.run { env = { LOCPATH = dir },
      args = { dir }, stderr = "pipe", script = [[
      assert(os.setlocale("latin", "ctype"))
      assert(rawget(_G, "jit") or ("\132"):find("%c"))
      local dlock, json = require "dlock", require "dlock.json"
      local text = require "dlock.text"
      local name = "\195\132"
      print(json.encode(name) == '"' .. name .. '"', text.escape(name) == name)
      print(json.encode "\0\31\127", (text.escape "\0\31\127"))
      local store = assert(dlock.open { name = name,
        url = "file://" .. arg[1] .. "/" .. name })
      print(store:ping() ~= nil)
      store:close()
      print((select(2, dlock.open { url = "file:///x", name = "\0" })))
      print((select(2, dlock.open "file:///x%00")))
    ]] }
    assert.same({ 0, "" }, { status, err })
    local lines = {}
    for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.same({ "true\ttrue",
      '"\\u0000\\u001f\\u007f"\t\\x00\\x1f\\x7f', "true" },
      { lines[1], lines[2], lines[3] })
    assert.matches("holds control bytes", lines[4])
    assert.matches("holds control bytes", lines[5])
  end)
end)
