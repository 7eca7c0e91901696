-- The Consul store and an agent that takes no further connection from this
-- address, because other programs here have all that it allows.

local certificates = require "spec.support.certificates"
local common = require "spec.consul.common"
local consul = require "spec.support.consul"
local loop = require "spec.support.loop"
local steady = require "spec.support.steady"
local uv = require "luv"

local key, open = common.key, common.open
local LIMIT = 12

local function describe_limits(name, scheme)
  describe("at the agent's limit of connections, " .. name .. ",", function()
    local server, made, sockets

    local function start()
      made = scheme == "consuls" and certificates.make() or nil
      server = consul.start { tls = made, connections = LIMIT }
    end

    local function free()
      for _, socket in ipairs(sockets or {}) do
        if not socket:is_closing() then socket:close() end
      end
      uv.run "nowait"
      sockets = nil
    end

    local function stop()
      common.clean_up()
      free()
      server:stop()
      if made then made:remove() end
    end

    local timed = steady(start, stop)

    local function store(opts)
      local all = { url = server.url, tls = made and {
        cafile = made:path "ca.crt", cert = made:path "client.crt",
        key = made:path "client.key" } }
      for option, value in pairs(opts or {}) do all[option] = value end
      return open(all)
    end

    -- Until the agent has closed one at once.
    local function use_up()
      local closed = false
      sockets = {}
      repeat
        local socket = uv.new_tcp()
        sockets[#sockets + 1] = socket
        assert(socket:connect("127.0.0.1", tonumber(server.url:match ":(%d+)"),
          function(err)
            if err then
              closed = true
            else
              socket:read_start(function(failed, data)
                closed = closed or failed ~= nil or data == nil
              end)
            end
          end))
        loop.look(0.1, function()
          uv.run "nowait"
          return closed
        end)
      until closed or #sockets > 3 * LIMIT
      assert.is_true(closed)
    end

    timed("a wait for one key more costs no lease, and is served", function()
      local mine, other, k = store(), store(), key()
      local lease = assert(mine:lock(k))
      local held = assert(other:lock(k .. "b"))
      assert(lease:extend())
      use_up()
      assert.are.equal("timeout",
        select(3, mine:lock(k .. "b", { timeout = 6 })))
      assert.is_true(lease:held())
      assert.is_true(held:held())
      local mutex = mine:mutex(k .. "b")
      assert.are.equal("timeout",
        select(3, mutex:acquire { timeout = 0.1 }))
      assert(held:release())
      local got = assert(mutex:acquire { timeout = 20 })
      assert.is_true(lease:held())
      assert(got:release())
      assert(lease:release())
    end)

    timed("many requests at once cost no lease", function()
      local mine, k, lease = store { host = "luv" }, key(), nil
      loop.in_coroutine(function() lease = assert(mine:lock(k)) end)
      use_up()
      local got, failed = 0, nil
      for i = 1, 8 do
        coroutine.wrap(function()
          local one, message = mine:lock(k .. i, { timeout = 20 })
          failed = failed or message
          if one and one:release() then got = got + 1 end
        end)()
      end
      loop.wait(30, function() return got == 8 or failed end)
      assert.is_nil(failed)
      assert.are.equal(8, got)
      assert.is_true(lease:held())
      loop.in_coroutine(function() assert(lease:release()) end)
    end)

    -- Every 10 s requests try again for connections of their own.
    timed("a burst of many seconds: no connection is given up",
      function()
        local events, k, lease = {}, key(), nil
        local mine = store { host = "luv", on_event = function(event)
          events[#events + 1] = event.kind .. ": " .. event.message
        end }
        loop.in_coroutine(function() lease = assert(mine:lock(k)) end)
        use_up()
        local over, running, failed = uv.hrtime() + 12e9, 8, nil
        for i = 1, 8 do
          coroutine.wrap(function()
            repeat
              local one, message = mine:lock(k .. i, { timeout = 20 })
              failed = failed or message
              if one then
                local ok, why = one:release()
                failed = failed or (not ok and why) or nil
              end
            until failed or uv.hrtime() > over
            running = running - 1
          end)()
        end
        loop.wait(60, function() return running == 0 end)
        assert.is_nil(failed)
        assert.is_true(lease:held())
        assert.are.equal(1, #events, table.concat(events, "\n"))
        loop.in_coroutine(function() assert(lease:release()) end)
      end)

    timed("a store that gets no connection says which limit it may be",
      function()
        use_up()
        local got, message, code = store():lock(key(), { timeout = 2 })
        assert.is_nil(got)
        assert.are.equal("unavailable", code, message)
        assert.matches("http_max_conns_per_client", message)
        free()
      end)
  end)
end

describe("with servers whose session_ttl_min is greater,", function()
  it("a session timeout is invalid at once, in their words", function()
    local server = consul.start { ttl_min = "10s" }
    local store = open { url = server.url, session_timeout = 4 }
    local got, message, code = store:lock(key(), { timeout = 2 })
    assert.is_nil(got)
    assert.are.equal("invalid", code, message)
    assert.matches("Invalid Session TTL.*session_timeout.*session_ttl_min",
      message)
    assert(open { url = server.url, session_timeout = 10 }:lock(key()))
      :release()
    common.clean_up()
    server:stop()
  end)
end)

describe_limits("without TLS", "consul")
describe_limits("with TLS", "consuls")
