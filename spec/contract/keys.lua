-- Keys are bytes and nothing else.

local KEYS = {
  nul = "a\0b", slash = "a/b/../c", dots = "..", dot = ".", braces = "}{",
  empty_tag = "{}", half_tag = "a}b", star = "*", newline = "a\nb",
  utf8 = "Schl\195\188ssel", bad_utf8 = "\255\254\237\160\128",
  percent = "%00%2F", blank = " ", suffix = "x:q", quote = "'\"\\",
  long = ("k"):rep(500), long_binary = ("\1\255"):rep(250), tilde = "~x",
  case_a = "Key", case_b = "key", control = "\27[31m\127",
}

local assert = require "luassert"

return function(t, it)
  it("any bytes, each its own lock", function()
    local a, b, leases = t:open(), t:open(), {}
    for name, key in pairs(KEYS) do
      local mine = #key > 490 and key or key .. t:key()
      local lease, message = a:lock(mine, { timeout = 2 })
      assert(lease, name .. ": " .. tostring(message))
      assert.are.equal(mine, lease.key)
      leases[#leases + 1] = lease
      assert.are.equal("busy", select(3, b:try_lock(mine)), name)
    end
    for _, lease in ipairs(leases) do
      assert.is_true(lease:held())
      assert.is_true(lease:release())
    end
  end)

  it("messages that are fit to print", function()
    local a, b = t:open(), t:open()
    local key = "a\0\n\27" .. t:key()
    local lease = assert(a:lock(key))
    local _, message = b:try_lock(key)
    assert.is_nil(message:find("%c"), message)
    assert.is_nil(tostring(lease):find("%c"), tostring(lease))
    assert.is_nil(tostring(a:mutex(key)):find("%c"))
    lease:release()
  end)

  it("1 and 512 bytes, and no others", function()
    local store = t:open()
    for _, key in ipairs { "\1", ("y"):rep(512), ("\0"):rep(512) } do
      assert(assert(store:lock(key)):release())
    end
    for _, key in ipairs { "", ("y"):rep(513) } do
      for _, call in ipairs { "lock", "try_lock", "mutex" } do
        local got, message, code = store[call](store, key)
        assert.is_nil(got)
        assert.are.equal("invalid", code)
        assert.is_truthy(message:find("^invalid: .*1 to 512"))
      end
      local got, _, code = store:with(key, function() error("ran") end)
      assert.is_nil(got)
      assert.are.equal("invalid", code)
    end
  end)
end
