-- A process that forks, as prefork servers do. Lua cannot fork, so a library of
-- a few lines does; a child can tell that it is one by its environment.

local context = require "spec.contract.context"
local library = require "spec.support.library"
local lot = require "spec.support.lot"
local process = require "spec.support.process"
local server = require "spec.support.server"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

local SOURCE = [[
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int do_fork(void *lua) {
  (void)lua;
  if (fork() == 0)
    setenv("FORKED", "1", 1);
  return 0;
}
int do_wait(void *lua) {
  (void)lua;
  while (wait(NULL) > 0)
    ;
  return 0;
}
]]

local PRELUDE = [[
  local url, key, library = arg[1], arg[2], arg[3]
  local dlock = require "dlock"
  local fork = assert(package.loadlib(library, "do_fork"))
  local wait = assert(package.loadlib(library, "do_wait"))
  local function in_child() return os.getenv("FORKED") end
  local seconds = tonumber(arg[4]) -- of a session
  local store = assert(dlock.open { url = url, session_timeout = seconds })
  local function say(...)
    print(in_child() and "child" or "parent", ...)
  end
]]

local dir, forker

local function run(url, key, script, session)
  local status, out, err = process.run {
    script = PRELUDE .. script, timeout = 60,
    args = { url, key, forker, session or 10 },
  }
  assert.are.equal("", err)
  assert.are.equal(0, status)
  return out
end

local function expect(out, ...)
  for _, line in ipairs { ... } do
    assert.is_truthy(("\n" .. out):find("\n" .. line:gsub(" ", "\t") .. "\n",
      1, true), "no line '" .. line .. "' in:\n" .. out)
  end
end

describe("after a fork", function()
  setup(function()
    dir = server.new_dir()
    forker = library.build(dir, "fork", SOURCE)
  end)

  teardown(function()
    server.remove_dir(dir)
  end)

  local timed = steady(nil, process.close_all)

  for _, subject in ipairs(lot.stores(subjects)) do
    local function key()
      return context.new(subject):key() .. "fork"
    end

    it("a store that was not used yet connects in the child, "
      .. subject.name, function()
      expect(run(subject.url(), key(), [[
        fork()
        if not in_child() then wait() end
        local lease = assert(store:lock(key))
        say(lease:held(), lease:release())
        store:close()
      ]]), "child true true", "parent true true")
    end)

    it("a used one says forked, and the parent keeps its lease, "
      .. subject.name, function()
      expect(run(subject.url(), key(), [[
        local lease = assert(store:lock(key, { ttl = 20 }))
        local mutex = assert(store:mutex(key))
        local all = assert(dlock.all { store:mutex(key .. "a") }:acquire())
        local nowhere = assert(dlock.open "redis://127.0.0.1:1")
        local degraded = assert(dlock.fallback { nowhere:mutex(key),
          store:mutex(key .. "b"), grace = 0 }:acquire())
        fork()
        if in_child() then
          say("degraded", (select(3, degraded:release_later())))
          say("later", (select(3, lease:release_later())))
          say("all", all:release_later(), (select(3, all:release_later())))
          say("all", (select(3, all:release())))
          say("shown", tostring(all):match("%a+$"),
            tostring(all.leases[1]):match("%a+$"))
          say("lock", (select(3, store:lock(key))))
          say("mutex", (select(3, mutex:try_acquire())))
          say("release", (select(3, lease:release())))
          say("held", lease:held())
          say("ping", (select(3, store:ping())))
          lease, mutex = nil, nil
          collectgarbage()
          collectgarbage()
          local again = assert(dlock.open { url = url })
          say("busy", (select(3, again:try_lock(key))))
          again:close()
          store:close()
        else
          wait()
          say("held", lease:held())
          local other = assert(dlock.open(url))
          say("busy", (select(3, other:try_lock(key))))
          say("release", lease:release())
          assert(other:lock(key)):release()
          say("all", all:held(), (select(3, other:try_lock(key .. "a"))),
            (all:release()))
          say("degraded", degraded.degraded, (degraded:release()))
          other:close()
          store:close()
        end
      ]]), "child degraded forked", "child later forked",
        "child all nil forked", "child all forked", "child shown lost lost",
        "child lock forked", "child mutex forked", "child release forked",
        "child held false", "child ping forked", "child busy busy",
        "parent all true busy true", "parent degraded true true",
        "parent held true", "parent busy busy", "parent release true")
    end)

    timed("a wait that it was made in says forked, and goes on in the parent, "
      .. subject.name, function()
        expect(run(subject.url(), key(), [[
          local other = assert(dlock.open { url = url,
            session_timeout = seconds })
          local held = assert(other:lock(key))
          assert(store:ping())
          local now = require("dlock.core").now
          local start = now()
          debug.sethook(function() -- as a signal's handler would, in the wait
            if now() - start > 0.1 then
              debug.sethook()
              fork()
            end
          end, "", 1)
          say("code", (select(3, store:lock(key, { timeout = 0.8 }))))
          if in_child() then
            say("soon", now() - start < 5)
            os.exit(0, false)
          end
          wait()
          say("held", held:release())
          store:close()
          other:close()
        ]]), "child code forked", "child soon true", "parent code timeout",
          "parent held true")
      end)

    timed("a child that ends takes nothing with it, " .. subject.name,
      function()
        expect(run(subject.url(), key(), [[
          local lease = assert(store:lock(key, { ttl = 1 }))
          fork()
          if in_child() then os.exit(0, true) end
          wait()
          local until_ = require("dlock.core").now() + 1.3
          repeat until require("dlock.core").now() > until_
          say(lease:held(), lease:release())
        ]], 2), "parent true true")
      end)
  end

  -- An unused one may have the descriptor that wakes its loop already: before a
  -- request that could not be made.
  it("an unused one wakes the loop of its own process", function()
    expect(run("file://" .. dir .. "/locks", "k", [[
      local function loop(fn)
        local queue = require("cqueues").new()
        queue:wrap(fn)
        assert(queue:loop())
      end
      loop(function() assert(not store:attach "nothing") end)
      fork()
      loop(function()
        for _ = 1, 200 do
          assert(assert(store:lock(key, { timeout = 20 })):release())
        end
      end)
      if in_child() then os.exit(0, false) end
      wait()
      say("done")
      store:close()
    ]]), "parent done")
  end)

  -- The loop's own descriptors are the parent's too, so the child ends before
  -- it would wait there.
  for _, host in ipairs { "cqueues", "luv" } do
    it("a used one says forked on " .. host, function()
      expect(run("file://" .. dir .. "/locks", host, [[
        store = assert(dlock.open { url = url, host = key })
        local mutex, lease = assert(store:mutex("k")), nil
        local function loop(fn)
          if key == "luv" then
            coroutine.wrap(fn)()
            return require("luv").run()
          end
          local queue = require("cqueues").new()
          queue:wrap(fn)
          assert(queue:loop())
        end
        loop(function()
          lease = assert(mutex:acquire())
          fork()
          if in_child() then
            say("mutex", (select(3, mutex:try_acquire())))
            say("release", (select(3, lease:release())))
            say("ping", (select(3, store:ping())))
            os.exit(0, false)
          end
          wait()
          say("release", lease:release())
          store:close()
        end)
      ]]), "child mutex forked", "child release forked", "child ping forked",
        "parent release true")
    end)
  end
end)
