-- TLS in C (csrc/tls), against OpenSSL's own server in memory: no Lua, no
-- Redis. Each line that the program prints is a test.

local certificates = require "spec.support.certificates"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local server = require "spec.support.server"

local SOURCES = { "spec/c/tls_test.c", "csrc/core/buf.c",
  "csrc/core/status.c" }
for _, name in ipairs { "channel", "client", "context", "file", "gate",
  "library", "reason" } do
  SOURCES[#SOURCES + 1] = "csrc/tls/" .. name .. ".c"
end

describe("a TLS channel", function()
  it("takes its bytes as they come", function()
    local dir = server.new_dir()
    local made = certificates.make()
    local path = program.build(dir, "tls_test", SOURCES, nil, "-Ispec/c",
      "-pthread -lssl -lcrypto")
    local _, out = process.run { command = { path, made.dir }, timeout = 90 }
    made:remove()
    server.remove_dir(dir)
    assert.are.equal("ok byte_by_byte\n"
      .. "ok cut_at_every_byte\n"
      .. "ok key_updates\n"
      .. "ok tickets\n"
      .. "ok write_behind_half_a_ticket\n"
      .. "ok sessions_are_used_once\n"
      .. "ok failed_session_is_dropped\n"
      .. "ok no_room\n"
      .. "ok ends\n"
      .. "ok noise\n", out)
  end)
end)
