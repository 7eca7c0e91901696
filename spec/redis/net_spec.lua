-- The Redis store's connections in C, against servers that say what a test
-- says; no Lua, no Redis. Each line that a program prints is a test.

local process = require "spec.support.process"
local program = require "spec.sim.program"
local redis_model = require "spec.sim.redis_model"
local server = require "spec.support.server"
local tool = require "spec.support.file_tool"

local SOURCES = { "spec/c/host.c" }
for _, name in ipairs { "addresses", "conn", "endpoint", "event",
  "resolve", "secure", "sock", "wake" } do
  SOURCES[#SOURCES + 1] = "csrc/net/" .. name .. ".c"
end
for _, name in ipairs { "conn/net", "conn/conn", "conn/pipe",
  "conn/durable", "conn/handshake", "conn/auth",
  "wire/brief", "wire/codec",
  "wire/errors", "wire/names", "wire/scripts" } do
  SOURCES[#SOURCES + 1] = "csrc/store/redis/" .. name .. ".c"
end
for _, name in ipairs { "buf", "clock", "heap", "native", "option", "password",
  "quiet", "secret", "status", "trace", "value" } do
  SOURCES[#SOURCES + 1] = "csrc/core/" .. name .. ".c"
end

describe("the link to redis", function()
  local dir

  setup(function()
    dir = server.new_dir()
    redis_model.texts(dir .. "/redis_scripts.h")
  end)

  teardown(function() server.remove_dir(dir) end)

  local function run(name)
    local path = program.build(dir, name, { ("spec/c/redis_%s.c"):format(name),
      (table.unpack or unpack)(SOURCES) }, nil,
      "-Ispec/c -Ispec/fuzz -I" .. dir, "-pthread -luv -lhiredis")
    local _, out = process.run { command = { path }, timeout = 90 }
    return out
  end

  it("stands what a real server leaves too fast", function()
    assert.are.equal("ok unsubscribed_in_handshake\n"
      .. "ok answer_not_read_yet\n"
      .. "ok message_and_reset\n"
      .. "ok silence_is_asked\n"
      .. "ok nobody_needs_it\n"
      .. "ok address_comes_later\n"
      .. "ok address_changes\n"
      .. "ok replicas_are_counted\n", run "net_test")
  end)

  it("reads one answer without the loop, and nothing else", function()
    assert.are.equal("ok reads the one answer\n"
      .. "ok leaves two answers to the loop\n"
      .. "ok gives up when nothing comes\n"
      .. "ok hears of the connection's end\n"
      .. "ok looks first after a second\n"
      .. "ok brief replies are hiredis' own\n"
      .. "ok both readers take turns\n", run "conn_test")
  end)

  it("wakes its host by one descriptor for both sockets", function()
    local _, out = process.run { command = { tool.program "redis_wake_test" } }
    assert.are.equal("ok each_alone_and_both\n"
      .. "ok no_descriptor_is_left\n"
      .. "ok messages_come_first\n", out)
  end)
end)
