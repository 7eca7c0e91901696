-- The man page and the completions, which are made from the parser's table, and
-- where they are installed.
local process = require "spec.support.process"
local server = require "spec.support.server"
local uv = require "luv"
local words = require "dlock.cli.words"

local made = {}

local function generate(kind)
  if not made[kind] then
    local status, text, err = process.run { command = { process.lua,
      ".ci/pages", kind } }
    assert.same({ 0, "" }, { status, err })
    made[kind] = text
  end
  return made[kind]
end

describe("the command's pages", function()
  local dir

  before_each(function() dir = server.new_dir() end)
  after_each(function()
    process.close_all()
    server.remove_dir(dir)
  end)

  it("name every verb and option", function()
    local man = generate("man"):gsub("\\", "")
    for _, kind in ipairs { "bash", "zsh" } do
      local text = generate(kind)
      for _, verb in ipairs(words.verbs) do
        assert.is_truthy(text:find("\n    " .. verb.name .. ") ", 1, true),
          verb.name)
      end
      for _, option in ipairs(words.options) do
        assert.is_truthy(text:find(option.name, 1, true), option.name)
      end
    end
    local fish = generate("fish")
    for _, verb in ipairs(words.verbs) do
      assert.is_truthy(man:find("\n.SS dlock " .. verb.name .. " ", 1, true))
      assert.is_truthy(fish:find(" -a " .. verb.name .. " -d ", 1, true))
    end
    for _, option in ipairs(words.options) do
      assert.is_truthy(man:find("\n.B " .. option.name, 1, true), option.name)
      local name = option.name:gsub("^%-+", "")
      assert.is_truthy(fish:find((#name == 1 and " -s " or " -l ") .. name,
        1, true), option.name)
    end
  end)

  it("the man page is good roff", function()
    local path = dir .. "/dlock.1"
    server.write_file(path, generate("man"))
    local status, out, err = process.run { command = { "groff", "-man", "-ww",
      "-Tascii", path } }
    assert.same({ 0, "" }, { status, err })
    assert.matches("SIGTERM", out)
  end)

  -- What bash offers behind these words; the last one is being typed.
  local function offered(...)
    local list = { "dlock", ... }
    for i, word in ipairs(list) do list[i] = ("%q"):format(word) end
    local status, out = process.run { command = { "bash", "-c",
      generate("bash") .. "\ndlock() { printf 'k1  x\\nk2  y\\n'; }\n"
      .. "compopt() { :; }\nCOMP_WORDS=(" .. table.concat(list, " ")
      .. ")\nCOMP_CWORD=" .. #list - 1
      .. '\n_dlock\nprintf "%s\\n" "${COMPREPLY[@]}"', "x" } }
    assert.equal(0, status)
    return (out:gsub("\n", " "):gsub(" $", ""))
  end

  it("bash completes verbs, options, keys and files", function()
    assert.equal("release revoke", offered("re"))
    assert.equal("run", offered("--url", "leader", "ru"))
    assert.equal("--tables --ttl --timeout", offered("run", "--t"))
    assert.equal("--tables", offered("ping", "--t"))
    assert.equal("--json", offered("ping", "--js"))
    assert.equal("k1 k2", offered("run", "-n", "k"))
    assert.equal("k1", offered("show", "k1"))
    assert.equal("", offered("release", "k"))
    assert.equal("", offered("run", "--ttl", "k"))
    assert.equal("", offered("run", "k1", "--", "--t"))
    server.write_file(dir .. "/ca.pem", "")
    assert.equal(dir .. "/ca.pem", offered("ping", "--ca", dir .. "/"))
  end)

  it("are installed and removed with all else", function()
    local function make(goal)
      return process.run { timeout = 300, command = { "make", "-s", goal,
        "LUA=" .. process.lua, "BUILD=" .. uv.cwd() .. "/build",
        "DESTDIR=" .. dir, "PREFIX=/usr" } }
    end
    local data = dir .. "/usr/share/"
    local status, _, err = make("install")
    assert.same({ 0, "" }, { status, err })
    local files = { "man/man1/dlock.1", "bash-completion/completions/dlock",
      "zsh/site-functions/_dlock", "fish/vendor_completions.d/dlock.fish" }
    local kinds = { "man", "bash", "zsh", "fish" }
    for i, file in ipairs(files) do
      assert.equal(generate(kinds[i]), server.read_file(data .. file))
    end
    assert.equal(0, (make("uninstall")))
    local _, left = process.run { command = { "find", dir, "!", "-type",
      "d" } }
    assert.equal("", left)
    _, left = process.run { command = { "find", dir, "-mindepth",
      "1", "-name", "*dlock*" } }
    assert.equal("", left)
  end)
end)
