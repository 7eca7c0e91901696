-- `dlock run` and `dlock elect`: what they take the lock for, on every store.
local command = require "spec.support.command"
local eventually = require("spec.support.loop").eventually
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

local run, spawn = command.run, command.spawn

for _, subject in ipairs(lot.two_stores(subjects)) do
  describe("jobs on " .. subject.name, function()
    local url, key, store = subject.url(), nil, nil

    local timed = steady(function() key, store = command.open(url) end,
      command.clean)

    local function is_free(name)
      local lease = store:try_lock(name)
      return lease and lease:release()
    end

    it("hold several keys, or none", function()
      local other = key .. ":other"
      local status, out = run("--url", url, "run", key, other, "--", "sh", "-c",
        'echo "$DLOCK_KEY"; echo "$DLOCK_FENCE"; exec "$@"', "sh", process.lua,
        "bin/dlock", "--url", url, "held", other)
      assert.equal(0, status)
      local first, second = out:match("^" .. key .. "\n" .. other
        .. "\n(%d+)\n(%d+)\n$")
      assert.is_truthy(first and second, out)
      local lease = assert(store:lock(other))
      assert.equal(75, (run("--url", url, "run", "-n", key, other, "--",
        "echo", "no")))
      assert.is_truthy(is_free(key))
      assert(lease:release())
    end)

    it("run shell words", function()
      assert.same({ 3, "a b " .. key .. "\n", "" }, { run("--url", url, "run",
        "-c", 'echo "a b" $DLOCK_KEY; exit 3', key) })
    end)

    it("publish a value", function()
      local _, out = run("--url", url, "run", "--value", "v 1", key, "--",
        process.lua, "bin/dlock", "--url", url, "show", key)
      assert.matches(", value v 1\n", out)
    end)

    timed("run all eight when eight wait", function()
      local status, out = process.run { timeout = 60, command = { "sh", "-c",
        'seq 8 | xargs -P8 -I{} "$0" bin/dlock --url "$1" run "$2" -- '
        .. "sh -c 'sleep 0.1; echo did {}'", process.lua, url, key } }
      assert.equal(0, status)
      assert.equal(8, select(2, out:gsub("did %d\n", "")), out)
    end)

    it("keep the key for --min-hold", function()
      assert.equal(0, (run("--url", url, "run", "--min-hold", "1h", key, "--",
        "true")))
      assert.equal(75, (run("--url", url, "run", "-n", key, "--", "true")))
      assert.equal(0, (run("--url", url, "break", key)))
      assert.equal(0, (run("--url", url, "run", "-n", key, "--", "true")))
    end)

    it("end with --max-hold", function()
      local status, _, err = run("--url", url, "run", "--max-hold", "0.3", key,
        "--", "sleep", "60")
      assert.equal(70, status)
      assert.matches("^dlock: lost: ", err)
    end)

    it("run once in each period, again when they failed", function()
      local function once(what)
        return (run("--url", url, "run", "--once-per", "1h", key, "--", "sh",
          "-c", what))
      end
      assert.equal(3, once("exit 3"))
      assert.equal(0, once("exit 0"))
      assert.equal(75, once("exit 4"))
      assert.equal(7, (run("--url", url, "run", "-E", "7", "--once-per", "1h",
        key, "--", "true")))
      assert.equal(0, (run("--url", url, "break", key)))
      assert.equal(127, (run("--url", url, "run", "--once-per", "1h", key, "--",
        "/no/such/file")))
      assert.equal(0, once("exit 0"))
      assert.equal(0, (run("--url", url, "break", key)))
    end)

    it("lead one after the other", function()
      local first = spawn("--url", url, "elect", key, "--value", "one", "--",
        "sh", "-c", "echo leads; read x; exit 4")
      first:expect("^leads$")
      assert.same({ 0, "one\n", "" }, { run("--url", url, "leader", key) })
      local second = spawn("--url", url, "elect", "--value=two", key, "--",
        "sh", "-c", "echo leads; read x")
      eventually("it waits", 20, function()
        return command.waiters(subject, store, key) == 1
      end)
      first:write("go on\n")
      assert.equal(4, (first:wait(10)))
      second:expect("^leads$")
      assert.same({ 0, "two\n", "" }, { run("--url", url, "leader", key) })
      second:write("go on\n")
      assert.equal(0, (second:wait(10)))
      assert.same({ 1, "", "" }, { run("--url", url, "leader", key) })
    end)

    it("hold the lock until all that they left has ended", function()
      local dir = server.new_dir()
      local p = spawn("--url", url, "run", "--all-gone", key, "--", "sh", "-c",
        "setsid sh -c 'until [ -e " .. dir .. "/go ]; do sleep 0.05; done;"
        .. " echo gone' & echo ended; exit 4")
      p:expect("^ended$")
      assert.equal(75, (run("--url", url, "run", "-n", key, "--", "true")))
      server.write_file(dir .. "/go", "")
      p:expect("^gone$")
      assert.equal(4, (p:wait(10)))
      assert.is_truthy(is_free(key))
      server.remove_dir(dir)
    end)

    it("end what they left when the lock is lost, and pass signals on",
      function()
        for _, how in ipairs { "break", "signal" } do
          local p = spawn("--url", url, "run", "--all-gone", "--ttl", "1.5",
            key, "--", "sh", "-c", [[export sh=$$; setsid sh -c '
              trap "echo told; exit" TERM
              while kill -0 $sh 2>/dev/null; do sleep 0.05; done
              echo daemon; while :; do sleep 0.05; done' & exit 4]])
          p:expect("^daemon$")
          if how == "break" then
            assert(store:break_lock(key))
          else
            p:kill("sigterm")
          end
          p:expect("^told$")
          assert.equal(how == "break" and 70 or 4, (p:wait(20)))
        end
      end)

    it("say so at once when they would wait for themselves", function()
      local function nested(...)
        return run("--url", url, "run", key, "--", process.lua, "bin/dlock",
          "--url", url, "run", ...)
      end
      local status, out, err = nested(key, "--", "echo", "no")
      assert.same({ 75, "" }, { status, out })
      assert.matches("^dlock: busy: '" .. key .. "' is held by the job that"
        .. " this is part of, with fence %d+; it would wait for itself\n$", err)
      assert.equal(75, (nested(key .. "2", key, "--", "echo", "no")))
      assert.equal(75, (nested(key .. "2", "--", process.lua, "bin/dlock",
        "--url", url, "run", key, "--", "true")))
      local odd = key .. "\n="
      assert.equal(75, (run("--url", url, "run", odd, "--", process.lua,
        "bin/dlock", "--url", url, "run", odd, "--", "true")))
      assert.same({ 0, "yes\n", "" },
        { nested(key .. "2", "--", "echo", "yes") })
    end)
  end)
end
