-- The cookbook's recipes: each block is run as what it is, in a store of its
-- own. (Its programs in Lua are run by readme_spec, as those of other pages.)

local pages = require "spec.support.pages"
local process = require "spec.support.process"
local server = require "spec.support.server"

local PAGE = "docs/cookbook.md"

describe("the cookbook", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function shell(text)
    local status, out, err = process.run { timeout = 30,
      command = { "sh", "-euc", text },
      env = { DLOCK_URL = "file://" .. dir .. "/locks" } }
    assert.are.equal("", err)
    assert.are.equal(0, status)
    return out
  end

  local function blocks(language)
    local found = {}
    for _, block in ipairs(pages.blocks(PAGE)) do
      if block.language == language then
        found[#found + 1] = pages.here(block,
          { redis = os.getenv("DLOCK_TEST_REDIS") .. "/9" })
      end
    end
    assert.is_true(#found > 0, language)
    return found
  end

  -- (A sanitizer's runtime would judge the shell as well.)
  if os.getenv("DLOCK_TEST_SANITIZER") then
    return
  end

  it("has shell lines that run", function()
    for _, text in ipairs(blocks "sh") do
      assert.matches("%S", shell(text))
    end
  end)

  it("has a line for cron that runs, once in a period", function()
    local line = blocks("cron")[1]:match("^%S+ %S+ %S+ %S+ %S+ +(.*)$")
    assert.are.equal("the report\n", shell(line))
    assert.matches("75", shell(line .. " 2>/dev/null || echo $?"))
  end)

  it("has a unit for systemd whose command runs", function()
    local unit = blocks("ini")[1]
    assert.are.equal("the report\n", shell(unit:match("ExecStart=([^\n]*)")))
    assert.matches("SuccessExitStatus=75", unit)
  end)

  it("has a job for Kubernetes whose command runs", function()
    local words = blocks("yaml")[1]:match("command: %[(.-)%]")
    assert.are.equal("the report\n", shell(words:gsub(",", "")))
  end)

  it("has settings that the command takes", function()
    local conf = blocks("conf")[1]
    server.write_file(dir .. "/dlock.conf", conf .. "\n")
    local out = shell(("unset DLOCK_URL; XDG_CONFIG_HOME=%s dlock config")
      :format(dir))
    assert.matches("redis://redis%.internal:6379/0", out)
  end)

  it("has statements by which a stale writer changes nothing", function()
    server.write_file(dir .. "/orders.sql", blocks("sql")[1] .. "\n"
      .. "SELECT changes(), state, fence FROM orders;\n")
    assert.are.equal("0|paid|34\n",
      shell(("sqlite3 %s/orders.db <%s/orders.sql"):format(dir, dir)))
  end)
end)
