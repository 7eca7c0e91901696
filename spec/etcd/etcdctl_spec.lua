-- Locks of etcdctl, which are those of clientv3, on the keys of dlock's: each
-- excludes the other, in one queue.

local common = require "spec.etcd.common"
local etcd = require "spec.support.etcd"
local loop = require "spec.support.loop"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"

local key, open = common.key, common.open

describe("`etcdctl lock` on a lock of dlock's", function()
  after_each(common.clean_up)

  -- Names its key once it holds, or runs the command.
  local function etcdctl(k, ...)
    return process.spawn { command = etcd.command(common.url, "lock",
      "--ttl=2", "--", "/dlock/" .. k, ...) }
  end

  local function queued(k, count)
    assert(loop.look(60, function() return #common.nodes(k) == count end))
  end

  it("keeps it from others until it is unlocked", function()
    local store, k = open(), key()
    local other = etcdctl(k)
    local name = assert(other:read_line(60))
    assert.are.equal(common.nodes(k)[1], name)
    assert.are.equal("busy", select(3, store:try_lock(k)))
    assert.is_true(store:mutex(k):locked())
    local seen = store:inspect(k)
    assert.are.same({ 1, 0 }, { #seen.holders, #seen.waiters })
    assert.is_true(seen.holders[1].fence > 0)
    assert.is_nil(seen.holders[1].owner)
    assert.is_nil(seen.holders[1].since)
    assert.are.same({ k }, (store:list(k)))
    local mutex = store:mutex(k)
    assert.are.equal("timeout", select(3, mutex:acquire { timeout = 0.2 }))
    other:kill("sigint")
    local lease = assert(mutex:acquire { timeout = 60 })
    assert.is_true(lease.fence > seen.holders[1].fence)
    assert(lease:release())
  end)

  it("ends with its session, and by a break", function()
    local store, k = open(), key()
    for _, ends in ipairs { function(other) other:kill() end,
      function() assert.is_true(store:break_lock(k)) end } do
      local other = etcdctl(k)
      other:expect("^/dlock/", 60)
      ends(other)
      assert(store:lock(k, { timeout = 60 })):release()
      other:close()
    end
  end)

  it("waits for those before it, and they for it, in their turns", function()
    local a, b, k = open(), open(), key()
    for _, mode in ipairs { "read", "write" } do
      local rw = assert(a:rwlock(k))
      local lease = assert(rw[mode](rw):acquire())
      local other = etcdctl(k, "sh", "-c", "echo in; sleep 0.5; echo out")
      queued(k, 2)
      assert.are.equal("busy", select(3, b:try_lock(k)))
      assert.are.equal("timeout",
        select(3, b:rwlock(k):read():acquire { timeout = 0.2 }))
      assert.are.equal("", other.out)
      assert(lease:release())
      other:expect("^in$", 60)
      lease = assert(b:lock(k, { timeout = 60 }))
      assert.are.equal(1, #common.nodes(k))
      other:expect("^out$", 60)
      assert(lease:release())
      assert.are.equal(0, (other:wait(60)))
    end
  end)

  -- A session of clientv3 gives its key again to its next lock.
  it("may come again with the same key, behind who waited for it", function()
    local k = key()
    local between = proxy.start(common.url)
    local name = "/dlock/" .. k .. "/abc1"
    assert(etcd.ctl(common.url, "put", name, ""))
    local waiter = process.spawn { args = { between.url, k, loop.patience },
      script = [[
      local store = assert(require("dlock").open(arg[1]))
      assert(store:ping())
      print "ready"
      io.read()
      assert(store:lock(arg[2], { timeout = 30 * arg[3] })):release()
      print "in"
    ]] }
    waiter:expect "^ready$"
    between:delay("up", 1)
    waiter:write "\n"
    queued(k, 2)
    assert(etcd.ctl(common.url, "del", name))
    assert(etcd.ctl(common.url, "put", name, ""))
    waiter:expect("^in$", 60)
    assert(etcd.ctl(common.url, "del", name))
    between:stop()
  end)
end)
