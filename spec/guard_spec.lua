-- A holder that is stopped (SIGSTOP) past its deadline and then goes on with
-- its write: the write does not happen.

local context = require "spec.contract.context"
local process = require "spec.support.process"
local subjects = require "spec.contract.subjects"

describe("a holder that was paused", function()
  local t

  after_each(function()
    t:clean_up()
    process.close_all()
  end)

  for _, subject in ipairs(subjects) do
    local guarded = subject.guarded
    if guarded then
      it("cannot write any more on " .. subject.name, function()
        t = context.new(subject)
        local store, key, peer = t:open(), t:key(), t:peer()
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
end)
