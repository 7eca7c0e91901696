-- TLS in C (csrc/tls), against OpenSSL's own server in memory: no Lua, no
-- Redis.

local certificates = require "spec.support.certificates"
local run = require "spec.support.units"

describe("a TLS channel", function()
  for what, program in pairs {
    ["takes its bytes as they come"] = { "tls_test", 13 },
    ["resumes no session whose certificates are out of date"] =
      { "tls_dates_test", 5 },
    ["on a socket waits for the other way where it has to"] =
      { "secure_test", 6 },
    ["is inside of the gate whenever it calls OpenSSL"] =
      { "tls_gate_test", 1 },
    ["leaves nothing of a key's file in memory"] = { "tls_file_test", 1 },
  } do
    it(what, function()
      local made = certificates.make() -- one of them writes another authority
      assert.are.equal(program[2], run(program[1], made.dir))
      made:remove()
    end)
  end
end)
