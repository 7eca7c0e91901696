-- The floor that stores with connections stand on (csrc/net), in C, with a
-- protocol of two words: no Lua, no store. Each line that the program prints is
-- a test.

local process = require "spec.support.process"
local program = require "spec.sim.program"
local server = require "spec.support.server"

local SOURCES = { "spec/c/net_conn_test.c", "spec/c/host.c" }
for _, name in ipairs { "addresses", "conn", "endpoint", "resolve", "secure",
  "sock" } do
  SOURCES[#SOURCES + 1] = "csrc/net/" .. name .. ".c"
end
for _, name in ipairs { "buf", "clock", "heap", "native", "quiet", "status",
  "trace", "value" } do
  SOURCES[#SOURCES + 1] = "csrc/core/" .. name .. ".c"
end

describe("a connection", function()
  it("lives as its states say, whatever the protocol", function()
    local dir = server.new_dir()
    local path = program.build(dir, "net_conn_test", SOURCES, nil, "-Ispec/c",
      "-pthread -luv")
    local _, out = process.run { command = { path }, timeout = 90 }
    server.remove_dir(dir)
    assert.are.equal("ok connects_when_asked\n"
      .. "ok greeting_is_refused\n"
      .. "ok greeting_has_its_time\n"
      .. "ok hangs_up_at_the_greeting\n"
      .. "ok ends_and_comes_back\n"
      .. "ok pauses_grow\n"
      .. "ok answer_has_its_time\n"
      .. "ok answer_not_read_yet\n"
      .. "ok idle_is_closed\n"
      .. "ok closed_in_silence\n"
      .. "ok silence_is_asked\n"
      .. "ok drains_and_pauses\n", out)
  end)
end)
