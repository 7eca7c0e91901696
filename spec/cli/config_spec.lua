-- The settings of the command: files, environment, options, and what `dlock
-- config` says of them.
local command = require "spec.support.command"
local config = require "dlock.cli.config"
local options = require "dlock.options"
local process = require "spec.support.process"
local server = require "spec.support.server"
local values = require "dlock.cli.values"
local words = require "dlock.cli.words"

describe("the command's settings", function()
  local dir, url

  before_each(function() dir, url = command.new_dir() end)
  after_each(command.clean)

  local function run(env, ...)
    env.XDG_CONFIG_HOME = env.XDG_CONFIG_HOME or dir
    if env.DLOCK_URL == nil then env.DLOCK_URL = false end
    return process.run { file = "bin/dlock", args = { ... }, env = env }
  end

  local function write(text)
    server.write_file(dir .. "/dlock.conf", text)
  end

  it("come from the user's file, the environment, options", function()
    write("# ours\n\nurl = " .. url
      .. "\n  prefix =  shop: \nio_timeout = 5s\n")
    local status, out = run({}, "config")
    assert.equal(0, status)
    local file = dir .. "/dlock.conf"
    assert.equal(("url = %s   # %s:3\nprefix = shop:   # %s:4\n"
      .. "io-timeout = 5s   # %s:5\n"):format(url, file, file, file), out)
    local _
    _, out = run({ DLOCK_URL = url .. "2" }, "config", "--io-timeout=1.5")
    assert.equal(("url = %s2   # $DLOCK_URL\nprefix = shop:   # %s:4\n"
      .. "io-timeout = 1.5   # --io-timeout\n"):format(url, file), out)
    _, out = run({ DLOCK_URL = url .. "2" }, "config", "--json", "--url", url)
    assert.equal(('{"io-timeout":{"from":"%s:5","value":"5s"},'
      .. '"prefix":{"from":"%s:4","value":"shop:"},'
      .. '"url":{"from":"--url","value":"%s"}}\n'):format(file, file, url), out)
    assert.equal(0, (run({}, "run", "k", "--", "true")))
  end)

  it("of $HOME count where there is no $XDG_CONFIG_HOME", function()
    assert.equal(0, (process.run { command = { "mkdir", dir .. "/.config" } }))
    server.write_file(dir .. "/.config/dlock.conf", "url = " .. url .. "\n")
    for _, base in ipairs { "", "relative" } do
      local _, out = run({ HOME = dir, XDG_CONFIG_HOME = base }, "config")
      assert.equal(("url = %s   # %s/.config/dlock.conf:1\n"):format(url, dir),
        out)
    end
  end)

  it("are the embedded store without any", function()
    local _, out = run({}, "config")
    assert.matches("^url = file:///tmp/dlock%-%d+   # default\n$", out)
  end)

  it("show no password", function()
    local _, out, err = run({ DLOCK_URL = "redis://u:secret@h:1/2" }, "config",
      "--password-file", "/run/pw")
    assert.equal("url = redis://h:1/2   # $DLOCK_URL\n"
      .. "password-file = /run/pw   # --password-file\n", out)
    assert.equal("", err)
    _, out, err = run({ DLOCK_URL = "redis://u:se/cret@h" }, "config")
    assert.is_nil((out .. err):find("cret", 1, true))
  end)

  it("have a Redlock's nodes, without their passwords", function()
    local nodes = "redis://:hush@a:1,rediss://b,redis+unix:///run/c.sock"
    local shown = "redis://a:1,rediss://b,redis+unix:///run/c.sock"
    local _, out, err = run({}, "config", "--nodes", nodes)
    assert.same({ ("nodes = %s   # --nodes\n"):format(shown), "" },
      { out, err })
    write("nodes = " .. nodes .. "\n")
    _, out = run({}, "config")
    assert.equal(("nodes = %s   # %s/dlock.conf:1\n"):format(shown, dir), out)
    local status
    status, _, err = run({ DLOCK_URL = "redis://h" }, "ping")
    assert.equal(64, status)
    assert.matches("with nodes the url is redlock://", err)
    for _, bad in ipairs { "redis://a,", ",", "" } do
      status, _, err = run({}, "ping", "--nodes=" .. bad)
      assert.equal(64, status)
      assert.matches("%-%-nodes takes URL%[,URL%.%.%.%]", err)
    end
    status, _, err = run({}, "ping", "--nodes",
      "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://:hush@127.0.0.1:3")
    assert.equal(69, status)
    assert.is_nil(err:find("hush", 1, true))
  end)

  it("may have any that a file may have, to be shown", function()
    local _, out = run({ DLOCK_URL = url }, "config", "--ttl", "5",
      "--timeout=inf")
    assert.equal(("url = %s   # $DLOCK_URL\nttl = 5   # --ttl\n"
      .. "timeout = inf   # --timeout\n"):format(url), out)
  end)

  it("of a file that is not understood are refused, with its line", function()
    for text, problem in pairs { ["prefiks = x"] = "no setting prefiks; did you"
        .. " mean prefix%?", ["url"] = "not of the form", ["ttl = 5x"] =
        "ttl takes DURATION", ["password = x"] = "no setting password",
        ["shared = yes"] = "no setting shared",
        ['prefix = "shop:"'] = "prefix is written without quotes" } do
      write("\n" .. text .. "\n")
      local status, out, err = run({}, "break", "k")
      assert.same({ 64, "" }, { status, out })
      assert.matches("^dlock: /.*/dlock.conf:2: .*" .. problem, err)
    end
    write("url = redis://u:se/cret@h\n")
    local code, _, why = run({}, "ping")
    assert.equal(64, code)
    assert.matches("^dlock: invalid: .*dlock.conf:1%)\n$", why)
    assert.is_nil(why:find("cret", 1, true))
    assert.equal(0, (process.run { command = { "sh", "-c",
      "rm $0; mkdir $0", dir .. "/dlock.conf" } }))
    local status, _, err = run({}, "ping")
    assert.equal(64, status) -- it is there, and says nothing
    assert.matches("^dlock: /.*/dlock.conf: ", err)
  end)

  it("reach the store", function()
    write("url = " .. url .. "\nname = me\nttl = 1m\n")
    local _, out = run({}, "run", "k", "--", process.lua, "bin/dlock", "show",
      "k")
    assert.matches("\nheld by me, fence %d+, ends in [56]%d%.%d s", out)
    write("url = " .. url .. "\ntimeout = 0\n")
    assert.equal(75, (run({}, "run", "k", "--", process.lua, "bin/dlock", "run",
      "--shared", "k", "--", "true")))
    local status, _, err = run({}, "ping", "--url", url, "--ca", "/x")
    assert.equal(64, status)
    assert.matches("^dlock: invalid: .*rediss://", err)
  end)

  it("have all that dlock.open takes and a command can give", function()
    local ours = { password = true, sentinel_password = true, tls = true,
      key_password = true, host = true, id = true, scope = true,
      on_event = true, renew = true, min_hold = true, max_hold = true }
    for _, option in ipairs(words.options) do
      if option.open then ours[option.open] = true end
    end
    for _, call in ipairs { "dlock.open", "the table tls" } do
      local _, problem = pcall(options.check, { [{}] = 1 }, call)
      for name in problem:match("it takes (.*)%)"):gmatch("[%w_]+") do
        assert.is_true(ours[name], name)
      end
    end
  end)

  it("become options of the library", function()
    local function opened(given)
      local found = {}
      for name, value in pairs(given) do
        found[name] = { value = value, from = "test" }
      end
      return config.for_open(found)
    end
    assert.same({ listen = false }, opened { listen = values.listen "off" })
    assert.same({ listen = "postgres://h/x", schema = "shop" }, opened {
      listen = values.listen "postgres://h/x", schema = "shop" })
    assert.same({ nodes = { "redis://a", "rediss://:x@b:1" } }, opened {
      nodes = values.nodes "redis://a,rediss://:x@b:1" })
    assert.same({ tls = { cafile = "/a", verify = false }, wait_replicas =
      "all", address_map = { ["a:1"] = "b:2" } }, opened { ca = "/a", verify =
      { false }, ["wait-replicas"] = "all", ["address-map"] =
      { ["a:1"] = "b:2" } })
  end)
end)
