-- docs/command.md: its shell lines run, its settings are read, and it has every
-- verb, option and exit status.
local pages = require "spec.support.pages"
local process = require "spec.support.process"
local server = require "spec.support.server"
local words = require "dlock.cli.words"

local PAGE = "docs/command.md"

describe("the page of the command", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  local function blocks(language)
    local found = {}
    for _, block in ipairs(pages.blocks(PAGE)) do
      if block.language == language then
        found[#found + 1] = table.concat(block, "\n")
      end
    end
    assert.is_true(#found > 0, language)
    return found
  end

  -- (A sanitizer's runtime would judge the shell as well.)
  if not os.getenv("DLOCK_TEST_SANITIZER") then
    it("has shell lines that run", function()
      for _, text in ipairs(blocks "sh") do
        local handles = text:find("dlock acquire", 1, true)
        local status, out, err = process.run { timeout = 30,
          command = { "sh", "-euc", text }, env = { DLOCK_URL = handles
            and os.getenv("DLOCK_TEST_REDIS") .. "/9"
            or "file://" .. dir .. "/locks" } }
        assert.same({ 0, "" }, { status, err }, text)
        assert.matches("%S", out)
      end
    end)
  end

  it("has settings that are read", function()
    local conf = blocks("conf")[1]
    server.write_file(dir .. "/dlock.conf", conf .. "\n")
    local status, out, err = process.run { file = "bin/dlock",
      args = { "config" }, env = { XDG_CONFIG_HOME = dir, DLOCK_URL = false } }
    assert.same({ 0, "" }, { status, err })
    local settings = 0
    for name, value in conf:gmatch("\n([%w_]+) = ([^\n]*)") do
      settings = settings + 1
      assert.is_truthy(("\n" .. out):find("\n" .. name:gsub("_", "-") .. " = "
        .. value .. " ", 1, true), out)
    end
    assert.is_true(settings > 2)
  end)

  it("has every verb, option and exit status", function()
    local text = server.read_file(PAGE)
    local shown = text:gsub("[|`=,]", " ")
    for _, verb in ipairs(words.verbs) do
      assert.is_truthy(text:find("dlock " .. verb.name, 1, true)
        or text:find("`" .. verb.name .. "`", 1, true), verb.name)
    end
    for _, option in ipairs(words.options) do
      if not option.name:find("^%-%-?h") and option.name ~= "--version"
        and option.name ~= "--prometheus" then
        assert.is_truthy(shown:find("[%s]" .. option.name:gsub("%-", "%%-")
          .. "[%s]"), option.name)
      end
    end
    for _, status in ipairs(words.statuses) do
      for number in status[1]:gmatch("%d+") do
        assert.is_truthy(text:find("%f[%d]" .. number .. "%f[%D]"), number)
      end
    end
  end)
end)
