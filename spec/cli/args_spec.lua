-- What the command line of `dlock` may hold: what is read, what is refused and
-- with which word, and the help that is made of the same table.
local args = require "dlock.cli.args"
local command = require "spec.support.command"
local dlock = require "dlock"
local help = require "dlock.cli.help"
local words = require "dlock.cli.words"

local run = command.run

local function read(line)
  local list = {}
  for word in line:gmatch("%S+") do list[#list + 1] = word end
  local found, problem, verb = args.read(list)
  if found and found.verb then found.verb = found.verb.name end
  return found, problem, verb
end

describe("a command line", function()
  local on_files = "file://" .. tostring(os.getenv("DLOCK_TEST_DIR")) .. "/args"

  it("is read", function()
    assert.same({ verb = "run", words = { "k" }, command = { "-n", "--", "-h" },
      options = { n = true, E = 0, ttl = 1.5,
        permits = { permits = 1, of = 3 } } },
      read("-n run --permits 1/3 -E 0 k --ttl=1.5 -- -n -- -h"))
    assert.same({ verb = "show", words = { "--key" }, options = {} },
      read("show -- --key"))
    assert.same({ verb = "ls", words = {}, options = { prefix = "-x=y" } },
      read("ls --prefix=-x=y"))
    assert.same({ verb = "run", words = { "-k" }, command = { "x", "--" },
      options = { n = true } }, read("run -n -- -k -- x --"))
    assert.same({ verb = "run", words = { "a", "b" }, command = { "x" },
      options = {} }, read("run a b -- x"))
    assert.same({ verb = "run", words = { "k" }, options = { c = "x" },
      command = { "/bin/sh", "-c", "x" } }, read("run -c x k"))
    assert.same({ verb = "run", words = { "k" }, command = { "a", "--", "b" },
      options = {} }, read("run k -- a -- b"))
    assert.same({ verb = "release", words = { "-" }, options = {} },
      read("release -"))
    assert.same({ "--help" }, read("break -- --help").words)
  end)

  it("has durations", function()
    for given, seconds in pairs { ["1.5"] = 1.5, ["30s"] = 30, ["10m"] = 600,
        ["2h"] = 7200, ["1d"] = 86400, ["1.5h"] = 5400, [".5"] = 0.5 } do
      assert.equal(seconds, read("run --ttl " .. given .. " k -- x")
        .options.ttl)
    end
    assert.equal(math.huge, read("run k --timeout inf -- x").options.timeout)
  end)

  it("is told which seconds an option takes", function()
    for given, range in pairs { ["--timeout 1000000001"] = "DURATION or inf"
        .. " from 0 to 1000000000", ["--ttl 0.05"] = "DURATION from 0.1 to"
        .. " 31536000", ["--ttl 31536001"] = "DURATION from 0.1 to 31536000",
        ["--ttl 9999d"] = "DURATION from 0.1 to 31536000" } do
      local option, value = given:match("^(%S+) (%S+)$")
      local status, out, err = run("--url", on_files, "run", option, value, "k",
        "--", "true")
      assert.same({ 64, "" }, { status, out })
      assert.matches("^dlock: " .. option:gsub("%-", "%%-") .. " takes "
        .. range .. ", not '" .. value .. "'\n", err)
    end
    for _, line in ipairs { "--timeout 0", "--timeout 1000000000", "--ttl .1",
        "--ttl 31536000" } do
      assert.is_truthy(read("run " .. line .. " k -- x"), line)
    end
  end)

  it("has a value behind a blank as behind =, with a dash too", function()
    for _, value in ipairs { "-x", "-", "--x", "-x=y", "--=", "---" } do
      local joined, apart = read("ls --prefix=" .. value .. " -x"),
        read("ls --prefix " .. value)
      assert.is_nil(joined) -- -x itself is no option
      assert.same({ verb = "ls", words = {}, options = { prefix = value } },
        apart)
      assert.same(read("ls --prefix=" .. value), apart)
    end
    for _, line in ipairs { "--ttl%s-1", "--timeout%s-inf" } do
      local _, joined = read("run k " .. line:format("=") .. " -- x")
      local _, apart = read("run k " .. line:format(" ") .. " -- x")
      assert.is_string(joined)
      assert.equal(joined, apart)
    end
  end)

  it("has no option for the value of another one", function()
    for _, next_one in ipairs { "--json", "--url=a", "-n", "--" } do
      local found, problem = read("show --prefix " .. next_one .. " k")
      assert.is_nil(found)
      assert.is_truthy(problem:find("^%-%-prefix needs PREFIX"), problem)
      assert.is_truthy(problem:find("--prefix=...", 1, true), problem)
    end
    local _, problem = read("run -E -n k -- x")
    assert.equal("-E needs STATUS from 0 to 255", problem)
    assert.same({ prefix = "--json" }, read("ls --prefix=--json").options)
  end)

  it("is refused when it is not understood", function()
    for _, line in ipairs { "", "frob", "--", "run", "run k", "run k --",
        "run k true", "run -- k", "run -- k true", "run -- k --",
        "run k k -- true", "show", "show a b", "ping k", "ls a b",
        "run --ttl soon k -- x", "run --ttl 5x k -- x", "run --ttl s k -- x",
        "run --ttl 5ms k -- x", "run --ttl 1h30m k -- x", "run --ttl . k -- x",
        "run --ttl -5 k -- x", "run --ttl nan k -- x", "run --ttl inf k -- x",
        "run --timeout 0x5 k -- x", "run -E 256 k -- x", "run -E -1 k -- x",
        "run --permits x k -- x", "run --permits 1/3 --shared k -- x",
        "run -n --timeout 5 k -- x", "run --json k -- x", "show k -n",
        "show --url a --url b k", "run -nE 5 k -- x", "ping --url",
        "ping --json=yes", "show - --json=", "-", "run --shared=no k -- x",
        "run -c x k -- y", "run -c x", "elect a b -- x", "elect k",
        "run --once-per 1h a b -- x", "run --once-per 1h --shared k -- x",
        "run --once-per 1h --min-hold 1 k -- x", "release a b",
        "stats --json --prometheus", "run --sasl maybe k -- x",
        "run --wait-replicas some k -- x", "break --ttl 5 k",
        "acquire --max-hold 5 k", "run --address-map x k -- y" } do
      local found, problem = read(line)
      assert.is_nil(found, line)
      assert.is_truthy(problem)
    end
  end)

  it("is told the nearest word", function()
    for line, word in pairs { ["rnu k -- x"] = "run", ["rn k -- x"] = "run",
        ["brake k"] = "break", ["lst"] = "ls", ["aquire k"] = "acquire",
        ["run --tmieout 5 k -- x"] = "--timeout", ["ls --jason"] = "--json",
        ["run --al-gone k -- x"] = "--all-gone",
        ["run --once_per 5 k -- x"] = "--once-per" } do
      local found, problem = read(line)
      assert.is_nil(found)
      assert.matches("; did you mean " .. word:gsub("%-", "%%-") .. "%?$",
        problem)
    end
    assert.matches("did you mean %-%-timeout%?$",
      select(2, read("run -w 5 k -- x"))) -- flock's name for it
    for _, line in ipairs { "frobnicate", "ls --xyzzy", ("x"):rep(500),
        "run -x k -- y" } do
      local _, problem = read(line)
      assert.is_nil(problem:find("did you mean", 1, true), problem)
    end
  end)

  it("is told how a duration is written", function()
    for _, line in ipairs { "run --ttl 10ms k -- x",
        "run --timeout 5min k -- x", "--io-timeout 1,5 ping" } do
      assert.matches(" 30s, 10m, ", select(2, read(line)), 1, true)
    end
  end)

  it("is told the verb whose help is of use", function()
    for line, name in pairs { ["--ttl run k"] = "run", ["run k x"] = "run",
        ["show"] = "show", ["ls --xyzzy"] = "ls", ["run -- ls"] = "run" } do
      local _, _, verb = read(line)
      assert.equal(name, verb and verb.name, line)
    end
    assert.is_nil(select(3, read("frob k")))
  end)

  it("with -h or --help anywhere only shows help, a verb's behind it",
    function()
      for _, line in ipairs { "frob --frob -h", "--help", "-h run",
          "--url --help", "help", "help frob" } do
        assert.same({ help = true }, read(line), line)
      end
      for _, line in ipairs { "run -h", "run k --tmieout --help -- x",
          "run --ttl soon -h", "--url u run --help", "help run",
          "--name held run --help", "--prefix ls -v run k -h" } do
        assert.same({ help = true, verb = "run" }, read(line), line)
      end
      local status, out = run("frob", "-h")
      assert.same({ 0, help.all() .. "\n" }, { status, out })
      status, out = run("run", "k", "--frob", "-h")
      assert.same({ 0, help.of(words.verb.run) .. "\n" }, { status, out })
      status, out = run("--url", on_files, "run", "k", "--", "sh", "-c",
        'echo "$1"', "sh", "--help")
      assert.same({ 0, "--help\n" }, { status, out })
    end)
end)

describe("the help", function()
  it("has every verb and option, in lines of a terminal", function()
    local all = help.all()
    for _, verb in ipairs(words.verbs) do
      assert.is_truthy(all:find("\n  " .. verb.name:gsub("%-", "%%-") .. " "))
      local own = help.of(verb)
      for _, option in ipairs(words.options) do
        local named = "\n  " .. option.name:gsub("%-", "%%-") .. "[%s]"
        if words.belongs(option, verb) then
          assert.is_truthy((all .. own):find(named), option.name)
        else
          assert.is_nil(own:find(named), option.name)
        end
      end
      for line in (all .. "\n" .. own .. "\n"):gmatch("(.-)\n") do
        assert.is_true(#line <= 80, line)
      end
    end
  end)

  it("has what is not an option of a verb in no verb's help", function()
    assert.is_nil(help.of(words.verb.ping):find("--ttl", 1, true))
    assert.is_nil(help.of(words.verb["break"]):find("--json", 1, true))
  end)

  it("stands beside the version", function()
    local _, out = run("--version")
    assert.equal("dlock " .. dlock.VERSION .. "\n", out)
    assert.same({ 0, out, "" }, { run("version") })
  end)
end)
