-- A holder that is stopped (SIGSTOP) past its deadline and then goes on: it
-- does not believe that it holds, and a guarded write does not happen.

local context = require "spec.contract.context"
local process = require "spec.support.process"
local steady = require "spec.support.steady"
local subjects = require "spec.contract.subjects"

local on_file
for _, subject in ipairs(subjects) do
  if subject.name == "file" then on_file = subject end
end

describe("a holder that was paused", function()
  local t

  local function tear_down()
    t:clean_up()
    process.close_all()
  end

  local timed = steady(nil, tear_down)

  for _, subject in ipairs(subjects) do
    local guarded = subject.guarded
    if guarded then
      timed("cannot write any more on " .. subject.name, function()
        t = context.new(subject)
        local store, key, peer = t:open(), t:key(), t:peer(2)
        peer:run("package.path = './?.lua;' .. package.path"
          .. " for _, s in ipairs(require 'spec.contract.subjects') do"
          .. " if s.name == '%s' then guarded = s.guarded end end",
          subject.name)
        peer:run("l = assert(store:lock('%s', { ttl = 1 }))"
          .. " guarded.begin(l, '%s') return guarded.write(l, '%s')",
          key, key, key)
        peer.process:pause()
        local lease = assert(store:lock(key, { timeout = 20 }))
        assert.are.equal(2, guarded.write(lease, key))
        peer.process:resume()
        local wrote, _, code =
          peer:run("return guarded.write(l, '%s')", key)
        assert.are.equal("nil", wrote)
        assert.are.equal("lost", code)
        assert.are.equal("false", (peer:run("return l:held()")))
        assert.are.equal(3, guarded.write(lease, key))
        guarded.finish(lease, key)
        assert(lease:release())
      end)
    end
  end

  timed("keeps others out while it is stopped on file, and then has lost it",
    function()
      t = context.new(on_file)
      local store, key, peer = t:open(), t:key(), t:peer()
      peer:run("l = assert(store:lock('%s', { ttl = 0.8 }))", key)
      peer.process:pause()
      assert.are.equal("timeout",
        select(3, store:lock(key, { timeout = 1.2 }))) -- more than its ttl
      peer.process:resume()
      assert.are.equal("false", (peer:run("return l:held()")))
      local lease = assert(store:lock(key, { timeout = 20 }))
      assert.are.equal("lost", select(3, peer:run("return l:release()")))
      assert.is_true(lease:held())
      assert(lease:release())
    end)
end)
