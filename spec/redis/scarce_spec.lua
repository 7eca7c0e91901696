-- What a wait says when the time is over and replicas were missing: whoever
-- stands in the lock then is there for a moment, as the wait itself was.
local dlock = require "dlock"
local fake_server = require "spec.support.fake_server"
local redis = require "spec.support.redis"

describe("a wait whose grants too few replicas have", function()
  local store, server

  after_each(function()
    if store then store:close(1) end
    if server then server:stop() end
    store, server = nil, nil
  end)

  local function fails(key, opts)
    local lease, message, code = store:lock(key, opts)
    assert.is_nil(lease)
    return code, message
  end

  -- The first grant is on no replica; who asks again is told that `holder`
  -- (Lua, `first` is the token of that grant) has the lock, and `replicas` have
  -- that answer.
  local function ends(holder, replicas)
    server = fake_server.start(([[
      local first
      return function(name, words)
        if name == "WAIT" then
          return words[2] == "0" or first and first.refused and ":%d\r\n"
            or ":0\r\n"
        elseif not acquires(words) then
          return true
        elseif not first then
          first = { token = words[12] }
          return "*3\r\n$3\r\ngot\r\n:5\r\n:0\r\n"
        end
        first.refused = true
        local value = %s
        return "*7\r\n$4\r\nwait\r\n:100\r\n:1\r\n$1\r\n1\r\n:0\r\n$"
          .. #value .. "\r\n" .. value .. "\r\n:0\r\n"
      end
    ]]):format(replicas, holder))
    store = assert(dlock.open { url = server.url, wait_replicas = 2,
      wait_timeout = 0.1 })
    return fails("k", { value = "x", timeout = 0.4 })
  end

  local OTHERS = [[("f"):rep(32) .. ":0123456789abcdef:web-3/4121"]]

  it("is unavailable when its own token, taken back by then, is in the way",
  function()
    for _, replicas in ipairs { 0, 2 } do
      local code, message = ends("first.token", replicas)
      assert.equal("unavailable", code, message)
      assert.is_truthy(message:find("0 of 2 replicas", 1, true), message)
      store:close(1)
      server:stop()
    end
  end)

  it("is unavailable when another one is in the way as it was", function()
    local code, message = ends(OTHERS, 1)
    assert.equal("unavailable", code, message)
    assert.is_truthy(message:find("0 of 2 replicas", 1, true), message)
  end)

  it("is in time when enough of them say that another one has the lock",
  function()
    local code, message = ends(OTHERS, 2)
    assert.equal("timeout", code, message)
    assert.is_truthy(message:find("held by web-3/4121", 1, true), message)
  end)

  it("is unavailable at any timeout, for every kind of lock", function()
    server = redis.start()
    store = assert(dlock.open { url = server.url, wait_replicas = 1,
      wait_timeout = 0.1 })
    local election = store:election("e")
    for i = 1, 4 do
      local timeout = 0.1 + i * 0.09
      for _, opts in ipairs { {}, { value = "v" } } do
        opts.timeout = timeout
        local code, message = fails("k", opts)
        assert.equal("unavailable", code, message)
        local lease
        lease, message, code = election:campaign(opts)
        assert.is_nil(lease)
        assert.equal("unavailable", code, message)
      end
    end
  end)
end)
