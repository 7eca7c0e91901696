-- Who may use the PostgreSQL store: TLS with certificates, and what is said
-- when it is refused.

local certificates = require "spec.support.certificates"
local common = require "spec.postgres.common"
local postgres = require "spec.support.postgres"
local process = require "spec.support.process"
local uv = require "luv"

local key, open, refused = common.key, common.open, common.refused

describe("PostgreSQL with TLS", function()
  local made, server

  setup(function()
    made = certificates.make()
    for _, name in ipairs { "client.key", "stranger.key",
      "locked.key" } do
      uv.fs_chmod(made:path(name), 384) -- 0600
    end
    server = postgres.start { tls = made, certificate = true }
  end)

  teardown(function()
    server:stop()
    made:remove()
  end)

  after_each(common.clean_up)

  local function tls(...)
    return made:client(server.url, ...)
  end

  it("serves a client with a certificate of its CA", function()
    local store, k = open(tls("ca.crt", "client")), key()
    local lease = assert(store:lock(k))
    assert(lease:extend())
    assert.are.equal("timeout", select(3, store:lock(k, { timeout = 0.3 })))
    assert(lease:release())
  end)

  it("asks for no key's password at the terminal", function()
    local where = tls("ca.crt", "client")
    local status, out, err = process.run { timeout = 30, script = [[
      print(require("dlock").open({ url = arg[1], io_timeout = 5, tls = {
        cafile = arg[2], cert = arg[3], key = arg[4] } }):ping())
    ]], args = { where.url, where.tls.cafile, where.tls.cert,
      made:path "locked.key" } }
    assert.are.equal("", err)
    assert.are.equal(0, status)
    assert.matches("private key[^\n]*\tdenied\n$", out)
  end)

  it("refuses others", function()
    refused("denied", "certificate", tls "ca.crt")
    refused("denied", "unknown ca", tls("ca.crt", "stranger"))
    refused("denied", "certificate verify failed", tls("other.crt", "client"))
    refused("denied", "no encryption",
      { url = (server.url:gsub("postgress", "postgres")) })
    refused("denied", "SSL",
      { url = (common.url:gsub("postgres:", "postgress:")) })
  end)
end)
