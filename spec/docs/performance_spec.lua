-- The commands of docs/performance.md work: each ```sh block is run as it
-- stands, in a shell that knows nothing of the tests around it, in rounds so
-- short that nobody should look at the figures. They measure the Luas that they
-- name, so this is done under one, and not under a sanitizer; a part each time.
if _VERSION ~= "Lua 5.4" or os.getenv("DLOCK_TEST_SANITIZER") then
  return
end

local lot = require "spec.support.lot"
local pages = require "spec.support.pages"
local process = require "spec.support.process"

local PAGE = "docs/performance.md"
local is_mine = lot.draw("measurements", 2)

-- Its status and what it printed, to standard output and in all.
local function run_shortly(text)
  local command = { "env", "-i", "QUICK=1", "ROUNDS=1", "SECONDS_EACH=0.05",
    "RENEW_SECONDS=0" }
  for _, name in ipairs { "PATH", "HOME", "BUILD" } do
    local value = os.getenv(name)
    command[#command + 1] = value and name .. "=" .. value
  end
  for _, word in ipairs { "bash", "-euo", "pipefail", "-c", text } do
    command[#command + 1] = word
  end
  local status, out, err = process.run { command = command, timeout = 200 }
  return status, tostring(out), tostring(out) .. tostring(err)
end

describe(PAGE, function()
  after_each(process.close_all)

  for _, block in ipairs(is_mine(1) and pages.blocks(PAGE) or {}) do
    it("has commands that work, line " .. block.line, function()
      assert.are.equal("sh", block.language)
      local status, out, all = run_shortly(table.concat(block, "\n"))
      assert.are.equal(0, status, all)
      assert.is_truthy(out:find("; 1 rounds:\n", 1, true), out)
    end)
  end

  local about = is_mine(2) and it or function() end
  about("has figures of nginx, whose times are measured too", function()
    local status, out, all = run_shortly "make LUA=luajit; bench/openresty"
    assert.are.equal(0, status, all)
    local rows = select(2, out:gsub("dlock %d+, ratio [%di]", ""))
    assert.are.equal(4, rows, out)
    assert.is_truthy(out:find "with 500 waiting handlers [%d.]+ ms", out)
    assert.is_truthy(out:find "meanwhile [1-9]%d* handshakes of TLS", out)
  end)
end)
