-- TLS in C (csrc/tls), against OpenSSL's own server in memory: no Lua, no
-- Redis. Each line that the program prints is a test.

local certificates = require "spec.support.certificates"
local process = require "spec.support.process"
local program = require "spec.sim.program"
local server = require "spec.support.server"

local SOURCES = {}
for _, name in ipairs { "core/buf", "core/clock", "core/password", "core/quiet",
  "core/status", "core/trace", "tls/channel", "tls/client", "tls/context",
  "tls/file", "tls/gate", "tls/library", "tls/reason",
  "net/secure" } do
  SOURCES[#SOURCES + 1] = "csrc/" .. name .. ".c"
end

describe("a TLS channel", function()
  local dir

  setup(function() dir = server.new_dir() end)
  teardown(function() server.remove_dir(dir) end)

  -- One of them writes another certificate authority.
  local function run(name, links)
    local made = certificates.make()
    local path = program.build(dir, name, { "spec/c/" .. name .. ".c",
      (table.unpack or unpack)(SOURCES) }, nil, "-Ispec/c",
      "-pthread -lssl -lcrypto " .. (links or ""))
    local _, out = process.run { command = { path, made.dir }, timeout = 90 }
    made:remove()
    return out
  end

  it("takes its bytes as they come", function()
    assert.are.equal("ok byte_by_byte\n"
      .. "ok cut_at_every_byte\n"
      .. "ok key_updates\n"
      .. "ok tickets\n"
      .. "ok write_behind_half_a_ticket\n"
      .. "ok sessions_are_used_once\n"
      .. "ok failed_session_is_dropped\n"
      .. "ok impostor_behind_a_session\n"
      .. "ok session_from_before_a_new_cafile\n"
      .. "ok no_room\n"
      .. "ok keys_behind_a_write\n"
      .. "ok ends\n"
      .. "ok noise\n", run "tls_test")
  end)

  it("resumes no session whose certificates are out of date", function()
    assert.are.equal("ok server_expired\n"
      .. "ok intermediate_expired\n"
      .. "ok root_expired\n"
      .. "ok not_valid_yet\n"
      .. "ok not_verified\n", run "tls_dates_test")
  end)

  it("on a socket waits for the other way where it has to", function()
    assert.are.equal("ok peer_reads_later\n"
      .. "ok reading_waits_for_room\n"
      .. "ok writing_waits_for_input\n"
      .. "ok an_end_behind_bytes\n"
      .. "ok a_small_memory\n"
      .. "ok awaiting\n", run "secure_test")
  end)

  it("is inside of the gate whenever it calls OpenSSL", function()
    local wraps = { "dlk_tls_enter", "dlk_tls_leave" }
    for _, name in ipairs { "CTX_free", "CTX_new", "do_handshake", "free",
      "get_shutdown", "get_version", "has_pending", "key_update",
      "read_ex", "session_reused", "shutdown", "write_ex" } do
      wraps[#wraps + 1] = "SSL_" .. name
    end
    assert.are.equal("ok every_call_is_inside\n", run("tls_gate_test",
      "-Wl,--wrap=" .. table.concat(wraps, ",--wrap=")))
  end)

  it("leaves nothing of a key's file in memory", function()
    assert.are.equal("ok no_key_is_left\n",
      run("tls_file_test", "-Wl,--wrap=free,--wrap=realloc"))
  end)
end)
