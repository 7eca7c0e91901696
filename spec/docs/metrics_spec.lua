-- examples/metrics with a real Prometheus, which scrapes the example's program
-- and nginx: every expression of the dashboard and of the alert rules names
-- series that are there.
local json = require "dlock.json"
local loop = require "spec.support.loop"
local nginx = require "spec.support.nginx"
local process = require "spec.support.process"
local server = require "spec.support.server"

local EXAMPLE = "examples/metrics/"

-- (A sanitizer's runtime would judge Prometheus as well.)
if os.getenv("DLOCK_TEST_SANITIZER") or not jit then
  return
end

describe("metrics", function()
  local dir, page

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    if page then page:stop() end
    page = nil
    process.close_all()
    server.remove_dir(dir)
  end)

  it("come with a dashboard that make_dashboard.lua makes", function()
    local status, out = process.run { file = EXAMPLE .. "make_dashboard.lua" }
    assert.are.equal(0, status)
    assert.are.equal(server.read_file(EXAMPLE .. "dashboard.json"), out)
  end)

  local function query(port, expression)
    local status, body = nginx.client(port):get("/api/v1/query?query="
      .. expression:gsub("%W", function(c)
        return ("%%%02X"):format(c:byte())
      end))
    assert.are.equal(200, status, body)
    return body
  end

  -- The names of the series in an expression.
  local function names_of(text)
    local names = {}
    for name in text:gmatch("dlock_[%w_]+") do names[name] = true end
    return names
  end

  it("are there in a Prometheus, from a program and from nginx", function()
    local port, shown = server.free_port(), server.free_port()
    local url = "file://" .. dir .. "/locks"
    process.spawn { file = EXAMPLE .. "program.lua", args = { shown, url } }
    page = nginx.start { workers = 1, http = ([[
      lua_shared_dict dlock 1m;
      init_by_lua_block {
        store = assert(require("dlock").open(%q))
      }]]):format(url), server = [[
      location = /metrics {
        content_by_lua_block {
          assert(store:lock("from nginx")):release()
          ngx.print(assert(require("dlock").prometheus{ store,
            shared = "dlock" }))
        }
      }]] }
    local config = server.read_file(EXAMPLE .. "prometheus.yml")
      :gsub("15s", "1s"):gsub("127.0.0.1:8080", "127.0.0.1:" .. page.port)
      :gsub("127.0.0.1:9101", "127.0.0.1:" .. shown)
    server.write_file(dir .. "/prometheus.yml", config)
    server.write_file(dir .. "/alerts.yml",
      server.read_file(EXAMPLE .. "alerts.yml"))
    process.spawn { command = { "prometheus", "--config.file=" .. dir
      .. "/prometheus.yml", "--storage.tsdb.path=" .. dir .. "/data",
      "--web.listen-address=127.0.0.1:" .. port, "--log.level=error" } }
    loop.eventually("Prometheus has scraped both", 60, function()
      local ok, body = pcall(query, port,
        "count(sum by (job) (dlock_acquires_total))")
      return ok and body:find('"2"', 1, true)
    end)
    local wanted = server.read_file(EXAMPLE .. "dashboard.json")
      .. server.read_file(EXAMPLE .. "alerts.yml")
    local count = 0
    for name in pairs(names_of(wanted)) do
      count = count + 1
      assert.matches('"value"', query(port, name), name)
    end
    assert.is_true(count >= 8)
    local _, rules = nginx.client(port):get("/api/v1/rules")
    assert.matches("DlockLeaseLost", rules)
    assert.is_nil(rules:find('"health":"err"', 1, true), json.encode(rules))
  end)
end)
