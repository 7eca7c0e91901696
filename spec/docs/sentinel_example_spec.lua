-- examples/sentinel/run: a set that starts with one command, and ends.
local dlock = require "dlock"
local eventually = require("spec.support.loop").eventually
local process = require "spec.support.process"
local server = require "spec.support.server"

describe("the example of a Redis set with Sentinels", function()
  after_each(process.close_all)

  it("starts with one command, serves, and leaves nothing", function()
    local port = server.free_port()
    local dir = server.new_dir()
    local set = process.spawn { command = { "examples/sentinel/run",
      tostring(port) }, env = { TMPDIR = dir } }
    local url = set:expect("redis%+sentinel://")
    local store = assert(dlock.open { url = url:match("%S+"), io_timeout = 5 })
    eventually("a primary", 20, function() return store:ping() end)
    assert.is_true((assert(store:lock("k", { timeout = 20 })):release()))
    store:close(1)
    set:kill("sigterm")
    set:wait(20)
    assert.is_nil((require("luv").fs_scandir_next(
      require("luv").fs_scandir(dir))))
    server.remove_dir(dir)
  end)
end)
