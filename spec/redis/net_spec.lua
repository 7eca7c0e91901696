-- The Redis store's link in C, against a server that says nothing; no Lua, no
-- Redis. Each line that the program prints is a test.

local process = require "spec.support.process"
local program = require "spec.sim.program"
local redis_model = require "spec.sim.redis_model"
local server = require "spec.support.server"

local SOURCES = { "spec/c/redis_net_test.c", "spec/c/host.c" }
for _, name in ipairs { "conn/net", "conn/conn", "conn/due", "conn/pipe",
  "conn/endpoint", "conn/sock", "conn/handshake", "conn/resolve", "conn/wake",
  "wire/codec", "wire/errors", "wire/names", "wire/scripts" } do
  SOURCES[#SOURCES + 1] = "csrc/store/redis/" .. name .. ".c"
end
for _, name in ipairs { "buf", "clock", "heap", "status", "value" } do
  SOURCES[#SOURCES + 1] = "csrc/core/" .. name .. ".c"
end

describe("the link to redis", function()
  it("stands what a real server leaves too fast", function()
    local dir = server.new_dir()
    redis_model.texts(dir .. "/redis_scripts.h")
    local path = program.build(dir, "net_test", SOURCES, nil,
      "-Ispec/c -I" .. dir, "-pthread -luv -lhiredis")
    local _, out = process.run { command = { path }, timeout = 90 }
    server.remove_dir(dir)
    assert.are.equal("ok unsubscribed_in_handshake\n"
      .. "ok answer_not_read_yet\n"
      .. "ok message_and_reset\n"
      .. "ok silence_is_asked\n"
      .. "ok nobody_needs_it\n"
      .. "ok address_comes_later\n"
      .. "ok address_changes\n", out)
  end)
end)
