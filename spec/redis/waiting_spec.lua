-- Waiting on Redis when something is in the way: messages that do not come,
-- waiters that are dead, a server that stood still.

local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local fake_server = require "spec.support.fake_server"
local locker = require "spec.support.locker"
local private_redis = require "spec.support.private_redis"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local uv = require "luv"

local private, admin

local function worker(url, key)
  return locker(url, key, { ttl = 30, io_timeout = 5 })
end

local function queued(key)
  return admin:queued("dlock:" .. key)
end

local function wait_in_line(w, key, number)
  w:write("lock\n")
  eventually("it queues", 5, function() return queued(key) == number end)
end

describe("waiting on redis:", function()
  local store

  private_redis(function(...) private, admin = ... end)

  before_each(function()
    store = assert(dlock.open(private.url))
  end)

  after_each(function()
    process.close_all()
    store:close(1)
  end)

  -- Only the sixth attempt to connect finds a server that serves.
  it("a server that never was there may come later than connect_timeout",
  function()
    local loading = "-LOADING Redis is loading the dataset in memory\r\n"
    local answers = { loading, loading, loading, loading, loading,
      fake_server.DEFAULT }
    for _, ask in ipairs {
      function(one) return one:lock("k", { timeout = 60 }) end,
      function(one) return one:election("k"):campaign() end,
    } do
      local f = fake_server.start { INFO = answers }
      local one = assert(dlock.open { url = f.url, connect_timeout = 0.05 })
      assert(ask(one))
      assert.is_true(f:count("INFO") >= 6) -- messages may ask as well
      one:close(1)
      f:stop()
    end
  end)

  it("a newcomer that gets no messages asks by its timers", function()
    local p = proxy.start(private.url)
    p:hold("down", { sent = "SUBSCRIBE" })
    local lease = assert(store:lock("deaf"))
    local w = worker(p.url, "deaf")
    wait_in_line(w, "deaf", 1)
    assert(lease:release())
    w:expect("^got")
    w:write("release\n")
    w:expect("^released$")
    p:stop()
  end)

  it("a holder that cannot listen for a revocation yet is detached", function()
    local p = proxy.start(private.url)
    local one = assert(dlock.open { url = p.url, io_timeout = 20,
      connect_timeout = 20 })
    p:hold("down", { sent = "SUBSCRIBE" })
    local lease, begun = assert(one:lock("mute", { ttl = 60 })), uv.now()
    lease:on_revoke(function() end)
    local string = assert(lease:detach())
    uv.update_time()
    assert.is_true(uv.now() - begun < 10000, "it waited for the messages")
    assert(assert(store:attach(string)):release())
    one:close(1)
    p:stop()
  end)

  it("a waiter keeps its place when the server stood still", function()
    local first, holder = assert(store:lock("still")),
      worker(private.url, "still")
    wait_in_line(holder, "still", 1)
    assert(first:release())
    holder:expect("^got") -- and hands it on without another question
    eventually("it has more than a claim", 5, function()
      return admin:call("PTTL", "dlock:still") > 1200
    end)
    local line = {}
    for i = 1, 6 do
      line[i] = worker(private.url, "still")
      wait_in_line(line[i], "still", i)
    end
    private:pause()
    holder:write("release\n")
    uv.sleep(1200) -- longer than a waiter is believed to live
    private:resume()
    holder:expect("^released$")
    local last = 0
    for _, w in ipairs(line) do
      local _, fence = w:expect("^got (%d+)")
      assert.is_true(tonumber(fence) > last)
      last = tonumber(fence)
      w:write("release\n")
      w:expect("^released$")
    end
  end)
end)
