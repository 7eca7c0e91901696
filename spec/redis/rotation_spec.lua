-- Passwords that change while a program runs: by a file that is read again at
-- each connect, or by a function that is asked when the last one was refused.

local dlock = require "dlock"
local private_redis = require "spec.support.private_redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

describe("a password that changes", function()
  local s, admin, store, path, seen
  local timed = steady(nil, function()
    if store then store:close() end
    store = nil
  end)

  private_redis(function(...)
    s, admin = ...
    path = s.dir .. "/password"
  end)

  -- From now on only this one counts, and nobody is connected.
  local function rotate(secret)
    admin:call("ACL", "SETUSER", "app", "reset", "on", ">" .. secret, "~*",
      "&*", "+@all")
    admin:call("CLIENT", "KILL", "USER", "app")
  end

  local function write(secret)
    server.write_file(path .. ".new", secret)
    assert(os.rename(path .. ".new", path))
  end

  local function open(opts)
    seen = {}
    opts.url, opts.username = s.url, opts.username or "app"
    opts.on_event = opts.on_event or function(e)
      seen[#seen + 1] = e.kind .. " " .. e.message
    end
    store = assert(dlock.open(opts))
    return store
  end

  -- Connections are lost and made again: what fails meanwhile may.
  local function works(what)
    local deadline = uv.hrtime() + 10e9
    repeat
      local lease, message, code = store:try_lock(what)
      if lease then
        assert(lease:release())
        return
      end
      assert.is_truthy(code == "unavailable" or code == "denied", message)
      assert.is_nil(message:find("secret", 1, true), message)
    until uv.hrtime() > deadline
    error("it never worked again")
  end

  timed("is read from its file at each connect, and leases go on", function()
    rotate("secret-1")
    write("secret-1\n")
    open { password_file = path, ttl = 3 }
    local lease = assert(store:lock("kept"))
    for i = 2, 5 do
      write("secret-" .. i .. (i % 2 == 0 and "\r\nnot this" or ""))
      rotate("secret-" .. i)
      works("other")
      assert.are.equal(3, math.ceil(assert(lease:extend(3))))
    end
    assert(lease:release())
    for _, text in ipairs(seen) do
      assert.is_nil(text:find("secret", 1, true), text)
    end
  end)

  timed("is the one of before while the file is not one", function()
    rotate("secret-a")
    write("secret-a\n")
    open { password_file = path }
    works("k")
    for _, content in ipairs { "", "\n", ("x"):rep(4097), "a\0b\n" } do
      write(content)
      admin:call("CLIENT", "KILL", "USER", "app")
      works("k")
    end
    os.remove(path)
    admin:call("CLIENT", "KILL", "USER", "app")
    works("k")
    assert(os.execute("mkfifo " .. path))
    admin:call("CLIENT", "KILL", "USER", "app")
    works("k") -- nobody ever writes to the pipe
    os.remove(path)
  end)

  timed("given as text is not looked for in the file", function()
    rotate("secret-b")
    write("wrong\n")
    open { password = "secret-b", password_file = path }
    works("k")
  end)

  timed("is asked for at open, and when it was refused", function()
    local current, calls = "secret-c", 0
    rotate(current)
    open { ttl = 3, password = function()
      calls = calls + 1
      return current
    end }
    assert.are.equal(1, calls)
    local lease = assert(store:lock("kept"))
    assert.are.equal(1, calls)
    current = "secret-d"
    rotate(current)
    uv.sleep(300) -- in which the other thread is refused; it asks nobody
    assert.are.equal(1, calls)
    works("other")
    assert.are.equal(2, calls)
    assert(lease:extend(3))
    assert.are.equal(2, calls)
    assert(lease:release())
    local denied = 0
    for _, text in ipairs(seen) do
      denied = denied + (text:find("^denied ") and 1 or 0)
      assert.is_nil(text:find("secret", 1, true), text)
    end
    assert.are.equal(1, denied)
  end)

  timed("is asked for by waits on another store", function()
    local current, calls = "secret-n", 0
    rotate(current)
    store = assert(dlock.open { url = s.url, username = "app",
      password = function()
        calls = calls + 1
        return current
      end })
    local lease = assert(store:lock("kept", { ttl = 3 }))
    local other = assert(dlock.open("file://" .. s.dir .. "/locks"))
    current = "secret-o"
    rotate(current)
    local deadline = uv.hrtime() + 10e9
    repeat
      assert(assert(other:lock("other")):release())
      uv.sleep(20)
    until calls == 2 or uv.hrtime() > deadline
    other:close()
    assert.are.equal(2, calls)
    assert(lease:release())
  end)

  timed("is asked for whatever else happened meanwhile", function()
    local current, leases = "secret-l", {}
    rotate(current)
    open { ttl = 1, password = function() return current end }
    for i = 1, 1100 do -- more than the events that are kept
      leases[i] = assert(store:lock("lost" .. i))
    end
    current = "secret-m"
    rotate(current)
    local deadline = uv.hrtime() + 30e9
    while store:stats().lost < #leases and uv.hrtime() < deadline do
      uv.sleep(20)
    end
    assert.are.equal(#leases, store:stats().lost)
    works("other")
    for _, text in ipairs(seen) do -- the refusal was the first of all
      assert.is_nil(text:find("^denied "), text)
    end
  end)

  timed("of a URL counts before a function is asked", function()
    local calls = 0
    rotate("secret-e")
    store = assert(dlock.open { password = function()
      calls = calls + 1
      return "secret-f"
    end, url = (s.url:gsub("//", "//app:secret-e@")) })
    works("k")
    assert.are.equal(0, calls)
    rotate("secret-f")
    works("k")
    assert.are.equal(1, calls)
  end)

  timed("that a function does not give is asked for again", function()
    local answers = {
      function() error("no vault") end,
      function() return nil, "vault is sealed" end,
      function() return {} end,
      function() return "secret\n-g" end,
      function() return "secret-g" end,
    }
    local calls = 0
    rotate("secret-f")
    open { password = function()
      calls = calls + 1
      return (answers[calls - 1] or function() return "secret-f" end)()
    end }
    works("k")
    rotate("secret-g")
    works("k")
    assert.are.equal(6, calls)
    local text = table.concat(seen, "\n")
    for _, one in ipairs { "callback invalid: the function password failed:",
        "no vault", "gave none: vault is sealed", "not a table",
        "holds control bytes" } do
      assert.is_truthy(text:find(one, 1, true), one .. ": " .. text)
    end
    assert.is_nil(text:find("secret", 1, true), text)
  end)

  it("that a function does not give at open is invalid", function()
    for _, ask in ipairs {
      function() error({}) end,
      function() return nil, "sealed" end,
      function() return nil end,
      function() return 7 end,
      function() return ("secret"):rep(1000) end,
    } do
      local got, message, code = dlock.open { url = s.url, password = ask }
      assert.is_nil(got)
      assert.are.equal("invalid", code)
      assert.is_truthy(message:find("^invalid: .*password"), message)
      assert.is_nil(message:find("secret", 1, true), message)
    end
    assert.has_error(function()
      dlock.open { url = s.url, password = 7 }
    end, "option 'password' of dlock.open must be a string, not a number")
  end)
end)
