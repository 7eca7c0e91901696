-- Locks that outlive the command: acquire, extend, held-by, release.
local command = require "spec.support.command"
local loop = require "spec.support.loop"
local eventually = loop.eventually
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local subjects = require "spec.contract.subjects"
local text = require "dlock.text"

local run = command.run

for _, subject in ipairs(lot.stores(subjects)) do
  describe("a handle on " .. subject.name, function()
    local url, key, store = subject.url(), nil, nil

    before_each(function() key, store = command.open(url) end)
    after_each(command.clean)

    if not subject.portable then
      it("does not exist, and nothing is touched", function()
        local status, out, err = run("--url", url, "acquire", key)
        assert.same({ 64, "" }, { status, out })
        assert.matches("^dlock: unsupported: .* dlock run KEY %-%- sh SCRIPT",
          err)
        assert.is_false(assert(store:mutex(key)):locked())
        assert.equal(64, (run("--url", url, "release", "x")))
      end)
      return
    end

    local function acquire(...)
      local status, out, err = run("--url", url, "acquire", key, ...)
      assert.same({ 0, "" }, { status, err })
      return (assert(out:match("^([^\n]+)\n$")))
    end

    local function remaining(handle)
      local _, out = run("--url", url, "held-by", "--json", handle)
      local left = out:match('^{"held":true,"remaining":([%d.]+)}\n$')
      return assert(tonumber(left), out)
    end

    it("holds the lock until it is released", function()
      local handle = acquire()
      assert.equal(75, (run("--url", url, "run", "-n", key, "--", "true")))
      assert.same({ 0, "", "" }, { run("--url", url, "held-by", handle) })
      assert.same({ 0, "", "" }, { run("--url", url, "extend", handle) })
      assert.same({ 0, "", "" }, { run("--url", url, "release", handle) })
      assert.same({ 1, "", "" }, { run("--url", url, "held-by", handle) })
      assert.equal(70, (run("--url", url, "extend", handle)))
      assert.equal(70, (run("--url", url, "release", handle)))
      assert(assert(store:try_lock(key)):release())
    end)

    it("is one word of a shell, whatever bytes the key has", function()
      for _, part in ipairs { " $x`'\"", "\n100%+", "\195\164*" } do
        local status, out, err = run("--url", url, "acquire", key .. part)
        assert.same({ 0, "" }, { status, err })
        assert.matches("^[%w_.,:+%%-]+\n$", out)
        local handle = out:sub(1, -2)
        assert.equal(0, (run("--url", url, "held-by", handle)))
        local lease = assert(store:attach(handle))
        assert.equal(key .. part, lease.key)
        assert(lease:release())
      end
    end)

    it("is printed as JSON, with the key and the fence", function()
      local handle = acquire("--json"):match('^{"fence":%d+,"handle":"(.*)",'
        .. '"key":"' .. key .. '"}$')
      assert.same({ 0, "", "" }, { run("--url", url, "release", handle) })
    end)

    it("is taken from the environment and from standard input", function()
      local handle = acquire()
      local function with(input, env, ...)
        local p = process.spawn { file = "bin/dlock", args = { "--url", url,
          ... }, env = { DLOCK_HANDLE = env }, stderr = "pipe" }
        if input then p:write(input .. "\n") end
        return (p:wait(10))
      end
      assert.equal(0, with(nil, handle, "held-by"))
      assert.equal(0, with(handle, false, "held-by", "-"))
      assert.equal(64, with(nil, false, "held-by"))
      assert.equal(64, with("", false, "held-by", "-"))
      assert.equal(64, with(nil, "r:2 no handle", "held-by"))
      assert.equal(0, with(nil, handle, "release"))
    end)

    it("lasts for its ttl, or as long as it is extended", function()
      local handle = acquire("--ttl", "20")
      local left = remaining(handle)
      assert.is_true(left > 8 and left <= 20, left)
      for _, ttl in ipairs { "40", "1m" } do -- the handle stays good
        assert.equal(0, (run("--url", url, "extend", "--ttl", ttl, handle)))
      end
      left = remaining(handle)
      assert.is_true(left > 45 and left <= 60, left)
      assert.equal(0, (run("--url", url, "extend", handle))) -- never shortens
      left = remaining(handle)
      assert.is_true(left > 40 and left <= 60, left)
      assert.equal(0, (run("--url", url, "release", handle)))
      handle = acquire("--ttl", "0.3")
      eventually("it ends", 10, function()
        return run("--url", url, "held-by", handle) == 1
      end)
    end)

    if subject.plain then it("lasts for max_ttl at most", function()
      local handle = acquire()
      local status, _, err = run("--url", url, "extend", "--ttl", "2m", handle)
      assert.equal(64, status)
      assert.matches("longer than max_ttl", err, 1, true)
      assert.equal(0, (run("--url", url, "release", handle)))
    end) end

    it("is extended though its lease had been extended in Lua", function()
      local lease = assert(store:lock(key, { ttl = 20 }))
      assert(lease:extend(40))
      assert(lease:extend(10))
      local handle = assert(lease:detach())
      assert.equal(0, (run("--url", url, "extend", "--ttl", "1m", handle)))
      local left = remaining(handle)
      assert.is_true(left > 45, left)
      assert(assert(store:attach(handle)):release())
    end)

    if not subject.plain then it("is one of readers and of permits", function()
      for _, options in ipairs { { "--shared" }, { "--permits", "1/2" } } do
        local first, second = acquire(options[1], options[2]),
          acquire(options[1], options[2])
        assert.equal(2, #assert(store:inspect(key)).holders)
        for _, handle in ipairs { first, second } do
          assert.equal(0, (run("--url", url, "extend", handle)))
          assert.equal(0, (run("--url", url, "release", handle)))
        end
        assert.is_nil(store:inspect(key))
      end
    end) end

    it("that nobody could read is given back", function()
      local status, _, err = process.run { command = { "sh", "-c",
        process.lua .. ' bin/dlock --url "$0" acquire "$1" >/dev/full', url,
        key } }
      assert.equal(74, status)
      assert.matches("^dlock: the output cannot be written", err)
      assert(assert(store:try_lock(key)):release())
    end)

    it("that nobody reads any more is given back", function()
      local kept = assert(store:lock(key))
      local p = process.spawn { file = "bin/dlock", stdout = "pipe",
        stderr = "pipe", args = { "--url", url, "acquire", key } }
      eventually("it waits", 10, function()
        return command.waiters(subject, store, key) > 0
      end)
      loop.close(p.pipes[2])
      assert(kept:release())
      assert.equal(74, (p:wait(10)))
      assert(assert(store:try_lock(key)):release())
    end)

    it("says so at once when its own job would wait for it", function()
      local handle = acquire()
      local status, _, err = process.run { file = "bin/dlock",
        args = { "--url", url, "run", key, "--", "true" },
        env = { DLOCK_HANDLE = handle } }
      assert.equal(75, status)
      assert.matches("^dlock: busy: .*wait for itself\n$", err)
      assert.equal(0, (run("--url", url, "release", handle)))
    end)

    if subject.name == "redlock" then
      it("says so without the answer of the first server", function()
        local handle = acquire()
        local head, len, rest = text.of_word(handle):match "^(.-:)(%d+) (.*)$"
        local status, _, err = process.run { file = "bin/dlock",
          args = { "--url", url, "run", key, "--", "true" },
          env = { DLOCK_HANDLE =
            text.to_word(head .. "0 " .. rest:sub(len + 1)) } }
        assert.equal(75, status, err)
        assert.equal(0, (run("--url", url, "release", handle)))
      end)
    end
  end)
end
