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
end)
