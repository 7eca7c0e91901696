-- What hiredis' own socket code gets wrong, and ours must not. Late and broken
-- replies stand in redis/faults_spec and redis/errors_spec.

local dlock = require "dlock"
local loop = require "spec.support.loop"
local eventually = loop.eventually
local library = require "spec.support.library"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local uv = require "luv"

local PRELUDE = [[
  local dlock = require "dlock"
  local store = assert(dlock.open { url = arg[1], io_timeout = 5 })
]]

-- How many bytes have been sent to a port, or are to be, that nobody has read.
local function unread(port)
  local most = 0
  for line in io.lines("/proc/net/tcp") do
    local to, sent, got = line:match(":%x+ %x+:(%x+) %x%x (%x+):(%x+)")
    local from = line:match("^%s*%d+: %x+:(%x+)")
    if to and tonumber(to, 16) == port then
      most = math.max(most, tonumber(sent, 16))
    elseif from and tonumber(from, 16) == port then
      most = math.max(most, tonumber(got or "0", 16))
    end
  end
  return most
end

describe("the connection to redis:", function()
  local private, admin

  local function set_up()
    private = redis.start()
    admin = private:connect()
  end
  local function tear_down()
    process.close_all()
    admin:close()
    private:stop()
  end

  local timed = steady(set_up, tear_down)

  -- A process in which SIGPIPE does what it does unless told otherwise.
  local function begin(script, url)
    local p = process.spawn { script = PRELUDE .. script, stderr = "pipe",
      args = { url or private.socket_url } }
    p:expect("^ready")
    local status = server.read_file(("/proc/%d/status"):format(p.pid))
    for _, set in ipairs { "SigIgn", "SigCgt" } do
      local mask = tonumber(status:match(set .. ":%s*%x*(%x%x%x%x)"), 16)
      assert.are.equal(0, math.floor(mask / 4096) % 2) -- SIGPIPE is 13
    end
    return p
  end

  local function ends_well(p)
    local status, signal = p:wait()
    assert.are.equal("", p.err)
    assert.are.equal(0, signal)
    assert.are.equal(0, status)
  end

  timed("a new one has time-outs like the first", function()
    local p = proxy.start(private.url)
    local store = assert(dlock.open { url = p.url, io_timeout = 0.3,
      connect_timeout = 0.5 })
    assert(store:ping())
    for _, lost in ipairs { "close", "reset" } do
      private:pause()
      p[lost](p)
      for _, call in ipairs {
        function() return store:ping() end,
        function() return store:try_lock("k") end,
        function() return store:lock("k", { timeout = 0.3 }) end,
      } do
        local start = uv.hrtime()
        assert.are.equal("unavailable", select(3, call()))
        assert.is_true((uv.hrtime() - start) / 1e9 < 3)
      end
      private:resume()
      assert(assert(store:lock("k", { timeout = 10 })):release())
      -- One whose greeting was swallowed is given up as well.
      p:hold("both")
      p[lost](p)
      assert.are.equal("unavailable", select(3, store:ping()))
      p:discard()
      assert(assert(store:lock("k", { timeout = 10 })):release())
    end
    store:close()
    p:stop()
  end)

  it("is closed by its server all the time: no SIGPIPE", function()
    local p = begin [[
      assert(store:ping())
      print "ready"
      local stop, fence = store:mutex("stop"), 0
      repeat
        local lease = assert(store:lock("k", { timeout = 10 }))
        assert(lease.fence > fence)
        fence = lease.fence
        lease:release()
      until stop:locked()
      print "ended"
    ]]
    local killed = 0
    eventually("its connection is lost fifteen times", 30, function()
      killed = killed + admin:call("CLIENT", "KILL", "TYPE", "normal",
        "SKIPME", "yes")
      return killed >= 15 or p.status
    end)
    assert.are.same({}, { status = p.status, signal = p.signal })
    admin:call("SET", "dlock:stop", "x")
    p:expect("^ended")
    ends_well(p)
  end)

  it("dies while much is being written: no SIGPIPE", function()
    local p = begin([[
      local lease = assert(store:lock("k", { ttl = 20 }))
      print "ready"
      io.read()
      print(select(3, lease:guard("SET", "big", ("x"):rep(2e7))))
      print(assert(store:lock("k", { timeout = 15 })):release())
    ]], private.url)
    private:pause()
    p:write("\n")
    eventually("it cannot write on", 10 * loop.patience, function()
      return unread(private.port) > 10000
    end)
    private:kill()
    p:expect("^unavailable")
    private:start_again()
    p:expect("^true")
    ends_well(p)
  end)

  it("uses hiredis for its codec only", function()
    local seen = {}
    for _, name in ipairs(library.taken("dlock/store/redis")) do
      if name:find("[rR]edis") or name:find("Reply") then
        seen[name] = true
      end
    end
    -- The same in 0.13 and today's.
    assert.are.same({ redisReaderCreate = true, redisReaderFeed = true,
      redisReaderFree = true, redisReaderGetReply = true,
      freeReplyObject = true }, seen)
  end)
end)
