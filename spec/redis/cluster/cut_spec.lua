-- redis+cluster:// when a primary is cut off from the others together with some
-- of its clients.
local cluster = require "spec.support.cluster"
local core = require "dlock.core"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local server = require "spec.support.server"

local NODE_TIMEOUT, TTL = 1, 2 -- seconds

describe("in a cluster, of a primary that is cut off", function()
  local set, opened

  before_each(function()
    set = cluster.start { apart = true, node_timeout = NODE_TIMEOUT * 1000 }
    opened = {}
  end)
  after_each(function()
    for i = #opened, 1, -1 do opened[i]:close(1) end
    set:stop()
  end)

  -- Reaches the first node only, or the others only.
  local function open(with_first, wait)
    local map, gone = {}, "127.0.0.1:" .. server.free_port()
    for i, node in ipairs(set.nodes) do
      if (i == 1) ~= with_first then
        map["127.0.0.1:" .. node.port] = gone
      end
    end
    local store = assert(dlock.open { url = set.url, address_map = map,
      ttl = TTL, io_timeout = 1, connect_timeout = 1, wait_replicas = wait })
    opened[#opened + 1] = store
    return store
  end

  for _, wait in ipairs { 0, "all" } do
    it("a lease ends soon, with wait_replicas = " .. wait, function()
      local i = 1
      while set:slot_of("k" .. i) >= 5461 do i = i + 1 end
      local key = "k" .. i
      local lease = assert(open(true, wait):lock(key, { timeout = 20 }))
      local other = open(false, 0)
      set:cut_off()
      local from = core.now()
      local next_one = assert(other:lock(key, { timeout = 60 }))
      local got, both = core.now(), lease:held()
      loop.wait(60, function() return not lease:held() end)
      local ended = core.now()
      assert.is_false(lease:held())
      assert.is_true(next_one.fence > lease.fence)
      if wait == "all" then
        assert.is_false(both)
      else
        assert.is_true(ended - got < NODE_TIMEOUT + loop.patience)
        assert.is_true(not both
          or ended - from < NODE_TIMEOUT + TTL + loop.patience)
      end
      assert.is_true(next_one:release())
    end)
  end
end)
