-- What a wait says, and the surroundings of a run: blocked signals, PID 1, the
-- environment of the command, what is written at once.
local command = require "spec.support.command"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local redlock = require "spec.support.redlock"
local subjects = require "spec.contract.subjects"

local run, spawn = command.run, command.spawn

local function says(p, pattern)
  loop.wait(20, function() return p.err:find(pattern) end)
  assert.matches(pattern, p.err)
end

for _, subject in ipairs(lot.two_stores(subjects)) do
  describe("a wait on " .. subject.name, function()
    local url, key, store = subject.url(), nil, nil

    before_each(function()
      key, store = command.open { url = url, name = "web-3/4121" }
    end)
    after_each(command.clean)

    it("says whom it waits for, and how many are ahead", function()
      local lease = assert(store:lock(key, { value = "" }))
      local first = spawn("--url", url, "run", "-v", key, "--", "true")
      local line = "^dlock: waiting for " .. key .. ": held by web%-3/4121 for"
        .. " %d+ s"
      says(first, line .. "\n$")
      local second = spawn("--url", url, "run", "-v", key, "--", "true")
      says(second, line .. (subject.plain and "" or ", 1 ahead of us") .. "\n$")
      local quiet = spawn("--url", url, "run", key, "--", "true")
      assert(lease:release())
      for _, p in ipairs { first, second, quiet } do
        assert.equal(0, (p:wait(20)))
      end
      assert.equal("", quiet.err)
      assert.equal(1, select(2, first.err:gsub("\n", "")), first.err)
    end)

    it("says it of several keys", function()
      local lease = assert(store:lock(key, { value = "" }))
      local p = spawn("--url", url, "run", "-v", "a" .. key, key, "--", "true")
      says(p, "^dlock: waiting for " .. key .. ": held by web%-3/4121 for")
      assert(lease:release())
      assert.equal(0, (p:wait(20)))
    end)
  end)
end

describe("dlock run", function()
  local url

  before_each(function() url = select(2, command.new_dir()) end)
  after_each(command.clean)

  it("says that it cannot reach the store, and goes on", function()
    local p = spawn("--url", "redis://127.0.0.1:1", "run", "-v", "k", "--",
      "true")
    says(p, "^dlock: cannot reach redis://127%.0%.0%.1:1, trying again\n$")
    p:kill("sigint")
    assert.equal(130, (p:wait(10)))
    assert.equal(69, (run("--url", "redis://127.0.0.1:1", "run", "-n", "k",
      "--", "true")))
  end)

  it("says that a store does not grant a free lock", function()
    local set = redlock.start { count = 3, config = {} }
    finally(function()
      process.close_all()
      set:stop()
    end)
    local p = spawn("--url", set.url, "run", "-v", "k", "--", "true")
    says(p, "^dlock: waiting for k: nobody holds it, and redlock://%S+ does not"
      .. " grant it yet\n$")
    p:kill("sigint")
    assert.equal(130, (p:wait(10)))
  end)

  it("says it on a terminal without -v", function()
    local store = assert(dlock.open { url = url, name = "me" })
    local lease = assert(store:lock("k"))
    local p = process.spawn { command = { "script", "-qfec", "exec "
      .. process.lua .. " bin/dlock --url " .. url .. " run k -- true",
      "/dev/null" } }
    p:expect("dlock: waiting for k: held by me for %d+ s")
    assert(lease:release())
    assert.equal(0, (p:wait(10)))
    assert(store:close())
  end)

  -- A program that becomes dlock, as it is installed: by its shell, with these
  -- signals blocked.
  local BLOCKED = [[exec perl -MPOSIX -e '
    sigprocmask(SIG_BLOCK, POSIX::SigSet->new(1, 2, 15, 17)) or die;
    exec @ARGV' ]]

  local function blocked(...)
    return process.spawn { stderr = "pipe", command = { "sh", "-c", BLOCKED
      .. 'dlock --url "$0" run k -- "$@"', url, ... } }
  end

  it("hears signals that its caller has blocked, also while it waits",
    function()
      local store = assert(dlock.open(url))
      local lease = assert(store:lock("k"))
      for signal, status in pairs { sigterm = 143, sigint = 130,
          sighup = 129 } do
        local p = blocked("true")
        repeat until #assert(store:inspect("k")).waiters == 1
        p:kill(signal)
        assert.same({ status, "" }, { p:wait(10), p.err })
      end
      assert(lease:release())
      assert(store:close())
      -- The command gets TERM, though it would not hear of it itself.
      local p = blocked("perl", "-MPOSIX", "-e", [[
        $SIG{TERM} = sub { print "told\n"; exit 5 }; $| = 1;
        sigprocmask(SIG_UNBLOCK, POSIX::SigSet->new(15));
        print "begun\n"; sleep 1 while 1]])
      p:expect("^begun$")
      p:kill("sigterm")
      p:expect("^told$")
      assert.equal(5, (p:wait(10)))
    end)

  it("gives its command the mask of its caller", function()
    local p = blocked("grep", "SigBlk", "/proc/self/status")
    assert.equal(0, (p:wait(10)))
    -- 1, 2, 15, 17 are the bits 0x14003.
    assert.matches("SigBlk:%s+0*14003\n", p.out)
    local _, out = run("--url", url, "run", "k", "--", "grep", "SigBlk",
      "/proc/self/status")
    assert.matches("SigBlk:%s+0+\n", out)
  end)

  it("leaves no zombies as PID 1", function()
    local status, out, err = process.run { command = { "unshare", "-r", "-p",
      "-f", "--mount-proc", process.lua, "bin/dlock", "--url", url, "run", "k",
      "--", "sh", "-c", [[
        for i in 1 2 3; do sh -c 'sleep 0.1 & exit'; done
        i=0
        while sleep 0.1; [ $i -lt 100 ]; do
          i=$((i + 1))
          grep -lE '^State:.[SZ]' /proc/[0-9]*/status >/dev/null
          case "$(cat /proc/[0-9]*/comm)" in
            *sleep*) ;;
            *) echo none; exit 6 ;;
          esac
        done
        grep -h State /proc/[0-9]*/status; exit 7]] } }
    assert.same({ 6, "none\n" }, { status, out }, err)
  end)

  it("gives its command no password", function()
    local with = url:gsub("file://", "redis://u:plugh42@h")
    local function env_of(given, ...)
      local status, out = process.run { file = "bin/dlock",
        args = { "--url", url, "run", "k", "--", "env" },
        env = { DLOCK_URL = given, DLOCK_PASSWORD_FILE = false } }
      assert.equal(0, status)
      return out, ...
    end
    for given, left in pairs { ["redis://u:plugh42@h/1"] = "redis://h/1",
        ["redis://:plugh42@h"] = "redis://h", ["redis://u:plu/gh42@h"] = "",
        [with] = "" } do
      local out = env_of(given)
      assert.is_nil(out:find("plu/?gh42"), out)
      -- A dlock in there asks the same server, and is refused.
      assert.equal(left, ("\n" .. out):match("\nDLOCK_URL=([^\n]*)") or "")
    end
    assert.matches("\nDLOCK_URL=redis://u@h/1\n", "\n"
      .. env_of("redis://u@h/1"))
  end)
end)
