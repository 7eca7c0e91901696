-- `dlock run`: how it ends, what it does to its command, and what a terminal
-- sees of both.
local command = require "spec.support.command"
local dlock = require "dlock"
local loop = require "spec.support.loop"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

local run, spawn = command.run, command.spawn

-- A command with a child that would run on without it; both print what they
-- are told.
local FAMILY = [[
  sh -c 'trap "echo child told; exit" TERM; echo child $$
    while :; do sleep 0.05; done' &
  trap 'echo told; exit 0' TERM
  while :; do sleep 0.05; done]]

for _, subject in ipairs(lot.two_stores(subjects)) do
  describe("dlock run on " .. subject.name, function()
    local url, key = subject.url(), nil

    local function set_up() key = command.key() end

    local timed = steady(set_up, process.close_all)

    it("ends with the command's status and gives it key and fence", function()
      local status, out = run("--url", url, "run", key, "--", "sh", "-c",
        'echo "$DLOCK_KEY $DLOCK_FENCE"; exit 7')
      assert.equal(7, status)
      assert.equal(key, out:match("^(%S+) %d+\n$"))
    end)

    it("ends with 128 and the signal that ended the command", function()
      for signal, number in pairs { KILL = 9, TERM = 15, SEGV = 11 } do
        assert.equal(128 + number, (run("--url", url, "run", key, "--", "sh",
          "-c", "ulimit -c 0; kill -" .. signal .. " $$")))
      end
    end)

    timed("ends with 75 when somebody else holds it, then gets it", function()
      local store = assert(dlock.open(url))
      local lease = assert(store:lock(key))
      local function refused(...)
        local status, _, err = run("--url", url, "run", key, ...)
        assert.matches("^dlock: %a+: ", err)
        return status
      end
      local shared = subject.plain and 64 or 75
      assert.equal(shared, refused("--timeout=0", "--shared", "--", "echo",
        "no"))
      assert.equal(shared, refused("-n", "--shared", "--", "echo", "no"))
      -- It has to connect in this time, which a slow machine may not do.
      local status
      for _, timeout in ipairs { "0.1", "0.5", "3", "15" } do
        status = refused("--timeout", timeout, "--", "echo", "no")
        if status ~= 69 then break end
      end
      assert.equal(75, status)
      assert.equal(3, (run("run", "-n", "-E", "3", "--url", url, key, "--",
        "true")))
      assert(lease:release())
      assert.equal(0, (run("--url", url, "run", "--timeout", "inf", key, "--",
        "true")))
      assert(store:close())
    end)

    it("ends the whole process group when the lock is lost, with status 70",
      function()
        local store = assert(dlock.open(url))
        local p = spawn("--url", url, "run", "--ttl", "1.5", key, "--", "sh",
          "-c", FAMILY)
        local _, child = p:expect("^child (%d+)$")
        assert(store:break_lock(key))
        assert.equal(70, (p:wait(10)))
        assert.matches("told\n", p.out)
        assert.matches("child told\n", p.out)
        assert.is_false(server.alive(tonumber(child)))
        assert.matches("^dlock: lost: the lease on 'cli:[^\n]*' ended %(lost: "
          .. "[^\n]*'cli:[^\n]* is not held any more: [^\n]+%);", p.err)
        assert(store:close())
      end)

    it("says 70 when the loss is noticed at the release only", function()
      local store = assert(dlock.open(url))
      local p = spawn("--url", url, "run", key, "--", "sh", "-c",
        "echo begun; read line; exit 0")
      p:expect("^begun$")
      p:pause() -- so that no message is read before the command is over
      assert(store:break_lock(key))
      local lease = assert(store:lock(key))
      p:write("go on\n")
      p:resume()
      assert.equal(70, (p:wait(10)))
      assert.matches("^dlock: lost: ", p.err)
      assert(lease:release())
      assert(store:close())
    end)

    it("passes SIGTERM on and releases when the command is gone", function()
      local store = assert(dlock.open(url))
      local p = spawn("--url", url, "run", key, "--", "sh", "-c",
        "trap 'echo told; exit 3' TERM; echo begun; "
        .. "while :; do sleep 0.05; done")
      p:expect("^begun$")
      p:kill("sigterm")
      p:expect("^told$")
      assert.equal(3, (p:wait(10)))
      assert(assert(store:lock(key, { timeout = 5 })):release())
      assert(store:close())
    end)

    it("ends quietly at a signal while it waits, and leaves the queue",
      function()
        local store = assert(dlock.open(url))
        local lease = assert(store:lock(key))
        for signal, status in pairs { sigint = 130, sigalrm = 142,
            sigpipe = 141, sigusr1 = 138 } do
          local p = spawn("--url", url, "run", "--timeout", "60", key, "--",
            "echo", "never")
          local function waits()
            return command.waiters(subject, store, key) == 1
          end
          while not waits() do end
          p:kill(signal)
          assert.same({ status, "", "" }, { p:wait(10), p.out, p.err })
          while waits() do end
        end
        assert(lease:release())
        assert(store:close())
      end)

    if not subject.plain then it("takes a reader's part and permits", function()
      local status, out = run("--url", url, "run", "--shared", key, "--",
        process.lua, "bin/dlock", "--url", url, "run", "--shared", "--timeout",
        "20", key, "--", "echo", "both")
      assert.same({ 0, "both\n" }, { status, out })
      status, out = run("--url", url, "run", "--permits", "2/3", key, "--",
        process.lua, "bin/dlock", "--url", url, "show", key)
      assert.equal(0, status)
      assert.matches("^semaphore, 3 permits\nheld by ", out)
    end) end
  end)
end

describe("dlock run", function()
  local dir, url

  before_each(function() dir, url = command.new_dir() end)
  after_each(command.clean)

  it("says 127 when there is no such command, 126 when it cannot be run",
    function()
      server.write_file(dir .. "/text", "no program")
      for status, path in pairs { [127] = "/no/such/file",
          [126] = dir .. "/text" } do
        local got, _, err = run("--url", url, "run", "k", "--", path)
        assert.equal(status, got)
        assert.equal(1, err:find("dlock: " .. path .. ": ", 1, true))
      end
    end)

  it("ends its command when it is killed itself", function()
    local p = spawn("--url", url, "run", "k", "--", "sh", "-c",
      "echo $$; exec sleep 60")
    local pid = tonumber(p:read_line())
    p:kill("sigkill")
    p:wait(10)
    while server.alive(pid) do end
  end)

  it("leaves a signal ignored that was ignored before it", function()
    local p = process.spawn { command = { "sh", "-c",
      "trap '' HUP PIPE ALRM; exec " .. process.lua
      .. ' bin/dlock --url "$0" run k'
      .. " -- sh -c 'echo begun; read x; exit 5'", url } }
    p:expect("^begun$")
    for _, signal in ipairs { "sighup", "sigpipe", "sigalrm" } do
      p:kill(signal)
    end
    p:write("go on\n")
    assert.equal(5, (p:wait(10)))
  end)

  -- The kernel's word on a mistake of dlock itself, signals that end nobody,
  -- and those of the C library.
  local NOT_PASSED = { [4] = true, [5] = true, [6] = true, [7] = true,
    [8] = true, [9] = true, [11] = true, [17] = true, [18] = true,
    [19] = true, [20] = true, [21] = true, [22] = true, [23] = true,
    [28] = true, [31] = true, [32] = true, [33] = true }

  -- A command that catches signals, and ends when it was told to, or alone.
  local UNTIL_READ = "while kill -0 $PPID 2>/dev/null; do read x && exit 5; "
    .. "done"

  it("passes on every signal that would end it", function()
    local script, passed = { "trap 'echo told 28' 28" }, {}
    for signal = 1, 64 do
      if not NOT_PASSED[signal] then
        passed[#passed + 1] = signal
        script[#script + 1] = ("trap 'echo told %d' %d"):format(signal, signal)
      end
    end
    script[#script + 1] = "echo begun; " .. UNTIL_READ
    local p = spawn("--url", url, "run", "k", "--", "sh", "-c",
      table.concat(script, "\n"))
    p:expect("^begun$")
    for _, signal in ipairs(passed) do
      p:kill(signal)
      p:expect("^told " .. signal .. "$")
    end
    p:write("go on\n")
    assert.same({ 5, "" }, { p:wait(10), p.out })
    local store = assert(dlock.open(url))
    assert(assert(store:try_lock("k")):release())
    assert(store:close())
  end)

  it("is not ended by its own words when nobody reads them, nor is its "
    .. "command", function()
    local store = assert(dlock.open(url))
    local p = spawn("--url", url, "run", "k", "--", "sh", "-c",
      "trap 'echo pipe' PIPE; trap 'echo told' TERM; trap 'exit 3' USR1; "
      .. "echo begun; " .. UNTIL_READ)
    p:expect("^begun$")
    loop.close(p.pipes[3])
    assert(store:break_lock("k"))
    assert.equal("told", p:read_line())
    p:kill("sigusr1")
    assert.same({ 70, "" }, { p:wait(20), p.out })
    assert(store:close())
  end)

  -- The command line `before` in a shell, then `dlock run k`; standard output.
  local function after(before, ...)
    local p = process.spawn { command = { "sh", "-c", before .. " "
      .. process.lua .. ' bin/dlock --url "$0" run k -- "$@"', url, ... } }
    local status = p:wait(10)
    return status, p.out
  end

  it("ends with its command though ended children are ignored", function()
    local ignore = [[exec perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV']]
    assert.same({ 7, "ran\n" },
      { after(ignore, "sh", "-c", "echo ran; exit 7") })
    -- The last but 16 of the bits is the 17th signal's.
    local _, out = after(ignore, "grep", "SigIgn", "/proc/self/status")
    assert.matches("[13579bdf]%x%x%x%x\n$", out)
    _, out = after("exec", "grep", "SigIgn", "/proc/self/status")
    assert.matches("0%x%x%x%x\n$", out)
  end)

  it("leaves Ctrl-C ignored as a script's background job", function()
    local status, out = after("trap '' INT QUIT; exec", "sh", "-c",
      "kill -INT $PPID; grep SigIgn /proc/self/status")
    assert.equal(0, status)
    assert.matches("[67ef]\n$", out)
  end)

  -- As it is installed; the Lua that it is for sets a handler for SIGINT before
  -- any code of ours.
  it("leaves Ctrl-C ignored, and only that, where only that was", function()
    local look = "grep SigIgn /proc/self/status; env"
    for before, mask in pairs { ["trap '' INT; exec"] = "[2367abef]",
      exec = "[014589cd]" } do
      local p = process.spawn { command = { "sh", "-c",
        before .. ' dlock --url "$0" run k -- "$@"', url, "sh", "-c",
        mask:find "2" and "kill -INT $PPID; " .. look or look } }
      assert.equal(0, (p:wait(10)))
      assert.matches("SigIgn:%s+%x+" .. mask .. "\n", p.out)
      assert.is_nil(p.out:find("DLOCK_IGNORED", 1, true))
    end
    -- A wait is not ended by it either.
    local store = assert(dlock.open(url))
    local held = assert(store:lock "k")
    local p = process.spawn { command = { "sh", "-c",
      [[trap '' INT; exec dlock --url "$0" run k -- true]], url } }
    repeat until store:inspect("k").waiters[1]
    p:kill("sigint")
    assert(held:release())
    assert.equal(0, (p:wait(10)))
    store:close()
  end)

  -- The script is a job of a shell, or the kernel would let nobody stop it.
  it("stops alone when the signal was for it alone", function()
    server.write_file(dir .. "/script", process.lua
      .. [[ bin/dlock --url "$0" run k -- sh -c '
        echo child; read x; exit 6' <&3 &
      dlock=$!
      until [ -e "$1" ]; do sleep 0.01; done
      kill -TSTP $dlock
      until grep -q 'State:.T' /proc/$dlock/status; do sleep 0.01; done
      echo the script goes on
      kill -CONT $dlock
      wait $dlock
      echo status $?]])
    local p = process.spawn { command = { "setsid", "bash", "-c",
      [[set -m; sh -c "$(cat "$1/script")" "$0" "$1/go" 3<&0 & wait]], url,
      dir }, stderr = "pipe" } -- bash tells of its job there
    p:expect("^child$")
    server.write_file(dir .. "/go", "on")
    p:expect("^the script goes on$")
    p:write("on\n")
    p:expect("^status 6$")
    p:wait(10)
  end)

  it("says once that another program asks for its lock", function()
    local store = assert(dlock.open(url))
    local p = spawn("--url", url, "run", "k", "--", "sh", "-c",
      "echo begun; read x; exit 0")
    p:expect("^begun$")
    assert(store:revoke("k"))
    loop.wait(20, function() return p.err:find("\n") end)
    assert.equal("dlock: somebody asks for 'k'\n", p.err)
    p:write("go on\n")
    assert.equal(0, (p:wait(10)))
    assert(store:close())
  end)

  -- A shell with job control on a terminal of its own, to which this writes
  -- and of which it reads.
  local function terminal()
    local p = process.spawn {
      command = { "script", "-qfec", "bash --norc --noprofile -i",
        "/dev/null" },
      env = { PS1 = "", HISTFILE = "", TERM = "dumb",
        DLOCK = process.lua .. " bin/dlock --url " .. url },
    }
    p:write("stty -echo; bind 'set enable-bracketed-paste off' 2>/dev/null;"
      .. " echo rea''dy\n")
    p:expect("ready")
    return p
  end

  it("in a terminal: its command reads, Ctrl-C ends it", function()
    local p = terminal()
    p:write("$DLOCK run k -- sh -c 'read x; echo got $x'\nword\n")
    p:expect("got word")
    p:write("$DLOCK run k -- sh -c 'echo beg''un; exec sleep 60'; "
      .. "echo status $?\n")
    p:expect("begun")
    p:write("\3")
    p:write("echo status $?\n")
    p:expect("status 130")
    p:write("exit\n")
    p:wait(10)
  end)

  it("in a terminal: Ctrl-C reaches a command that has read", function()
    local p = terminal()
    p:write("$DLOCK run k -- sh -c 'read x; echo got $x; exec sleep 60'\nw\n")
    p:expect("got w")
    p:write("\3")
    p:write("echo status $?\n")
    p:expect("status 130")
    p:write("exit\n")
    p:wait(10)
  end)

  it("in a terminal: Ctrl-Z stops both, fg goes on", function()
    local p = terminal()
    for _ = 1, 10 do
      p:write("$DLOCK run k -- sh -c 'read y; echo beg''un; read x;"
        .. " echo got $x; exit 6'\nw\n")
      p:expect("begun")
      p:write("\26")
      p:expect("Stopped")
      p:write("fg\nword\n")
      p:expect("got word")
      p:write("echo status $?\n")
      p:expect("status 6")
    end
    p:write("exit\n")
    p:wait(10)
  end)

  it("in a terminal: a pager behind it reads the terminal", function()
    local p = terminal()
    p:write("$DLOCK run k -- sh -c 'echo one; sleep 0.2' | "
      .. "sh -c 'read x </dev/tty; echo got $x; cat'\nword\n")
    p:expect("got word")
    p:expect("one")
    p:write("exit\n")
    p:wait(10)
  end)
end)
