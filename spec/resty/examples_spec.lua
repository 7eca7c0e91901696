-- examples/openresty: started by its one command, each example does what its
-- README says. Runs on LuaJIT only: that is the Lua which nginx has.
if not rawget(_G, "jit") then
  return
end

local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"

describe("examples/openresty", function()
  local run, n, dir

  setup(function()
    dir = server.new_dir()
    assert(uv.fs_mkdir(dir .. "/second", tonumber("700", 8)))
    n = nginx.client(server.free_port())
    run = process.spawn {
      command = { "examples/openresty/run", tostring(n.port) },
      env = { DLOCK_URL = "file://" .. dir .. "/locks" },
    }
    run:expect("serving")
    assert(nginx.wait_for(20, function()
      return n:get("/cron", 1) == 200
    end))
  end)

  teardown(function()
    run:kill("sigterm")
    assert.equal(0, (run:wait(10)))
    run:close()
    server.remove_dir(dir)
  end)

  local function together(count, path, options)
    local requests, answers = {}, {}
    for i = 1, count do requests[i] = n:begin(path, options) end
    for i = 1, count do
      local status
      status, answers[i] = requests[i]:finish()
      assert.equal(200, status)
    end
    return answers
  end

  it("says that its port is in use, and leaves nothing", function()
    local status, out, err = process.run {
      command = { "examples/openresty/run", tostring(n.port) },
      env = { TMPDIR = dir .. "/second" },
    }
    assert.equal(1, status)
    assert.equal("", out)
    assert.matches("Address already in use", err)
    assert.is_nil((uv.fs_scandir_next(uv.fs_scandir(dir .. "/second"))))
  end)

  it("answers every command of its README", function()
    local commands = 0
    for line in io.lines("examples/openresty/README.md") do
      local command = line:match("^| `(.-)`")
      if command then
        commands = commands + 1
        command = command:gsub("\\|", "|"):gsub("8080", tostring(n.port))
          :gsub("curl", "curl -f")
        local status, out = process.run { command = { "sh", "-c", command } }
        assert.equal(0, status, command)
        assert.is_true(#out > 0, command)
      end
    end
    assert.equal(5, commands)
  end)

  it("lets no more than three into the slow upstream", function()
    local most = 0
    for _, body in ipairs(together(15, "/limited")) do
      most = math.max(most, tonumber(body:match("with (%d+) inside")))
    end
    assert.is_true(most <= 3, most .. " were inside")
  end)

  it("makes a page once for all requests", function()
    -- It may expire once meanwhile.
    local first, last = math.huge, 0
    for _, body in ipairs(together(40, "/page")) do
      local number = tonumber(body:match("^page number (%d+)\n$"))
      first, last = math.min(first, number), math.max(last, number)
    end
    assert.is_true(last - first <= 1, first .. " to " .. last)
  end)

  it("places an order once, however often it is sent", function()
    local function post(key)
      return { method = "POST", headers = "Idempotency-Key: " .. key }
    end
    for _, body in ipairs(together(10, "/orders", post("a"))) do
      assert.equal("order 1\n", body)
    end
    assert.equal("order 2\n", (select(2, n:get("/orders", 20, post("b")))))
    assert.equal("order 1\n", (select(2, n:get("/orders", 20, post("a")))))
    assert.equal(400, (n:get("/orders")))
  end)

  it("has a page for Prometheus", function()
    local status, body = n:get("/metrics")
    assert.equal(200, status)
    assert.matches("# TYPE dlock_acquires_total counter\n", body)
    assert.matches('dlock_wait_seconds_count{store="file://[^\n]*worker="',
      body)
  end)

  it("runs the job on one worker at a time", function()
    local function jobs()
      return tonumber((select(2, n:get("/cron"))))
    end
    local function wait_jobs(count)
      local before
      assert(nginx.wait_for(10, function()
        local now = uv.hrtime()
        if jobs() >= count then return true end
        before = now
      end))
      return before
    end
    -- From one run to the next but one; on both workers that were one interval.
    local began = uv.hrtime()
    local before = jobs() + 1
    began = wait_jobs(before) or began
    wait_jobs(before + 2)
    local seconds = (uv.hrtime() - began) / 1e9
    assert.is_true(seconds > 1.3, "two runs in " .. seconds .. " s")
  end)
end)
