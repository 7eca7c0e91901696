-- rediss+cluster://: each node that is named, or that a redirect names, is
-- spoken to with TLS.
local certificates = require "spec.support.certificates"
local cluster = require "spec.support.cluster"
local dlock = require "dlock"

describe("a cluster with TLS", function()
  local made, set

  setup(function()
    made = certificates.make()
    set = cluster.start { replicas = 0,
      config = made:server("server", { tls_cluster = "yes" }) }
  end)

  teardown(function()
    set:stop()
    made:remove()
  end)

  it("serves on all nodes, and after a redirect", function()
    local store = assert(dlock.open { url = set.url, tls =
      { cafile = made:path "ca.crt" } })
    local leases, owners = {}, {}
    for i = 1, 30 do
      leases[i] = assert(store:lock("k" .. i))
      owners[set:owner(set:slot_of("k" .. i))] = true
    end
    for _, node in ipairs(set.nodes) do assert.is_true(owners[node]) end
    for _, lease in ipairs(leases) do assert.is_true(lease:held()) end
    assert.equal(30, #store:list "k")
    local slot = set:slot_of "moved"
    assert(store:lock("moved")):release()
    set:move(slot, set:other(slot))
    assert(store:lock("moved")):release()
    assert.is_true(store:close(5))
  end)

  it("is refused without the CA of its certificates", function()
    local store = assert(dlock.open { url = set.url, io_timeout = 2 })
    local _, message, code = store:ping()
    assert.equal("denied", code, message)
    assert.matches("certificate", message)
    store:close(1)
  end)
end)
