-- What servers of one cluster have in common: each is killed, stopped and
-- started again, by itself or by its number. Of two, one takes over.

local loop = require "spec.support.loop"
local server = require "spec.support.server"

local members = {}

--- Gives `one`, the class of a member with `server`, and `all`, the class of
--- the cluster, these methods. launch(member) starts it, or returns nil and
--- its log.
function members.define(one, all, launch)
  function one:kill() return self.server:kill() end
  function one:start_again() assert(launch(self)) end
  function one:pause() return self.server:pause() end
  function one:resume() return self.server:resume() end
  for _, name in ipairs { "kill", "start_again", "pause", "resume" } do
    all[name] = function(self, id) return self[id][name](self[id]) end
  end
end

--- Gives `pair`, the class of a primary and a server that follows it, these
--- methods. A member has is_primary, hear_no_more, promote, follow and
--- wait_for_commits.
function members.define_pair(pair)
  --- The one that takes writes; nil if there is none.
  function pair:primary()
    for _, one in ipairs(self) do
      if server.alive(one.pid) and one:is_primary() then return one end
    end
  end

  --- The primary is killed, the other one promoted in its place, and the first
  --- one begins anew behind it. behind: what the primary commits in these
  --- seconds before its end never gets there.
  function pair:fail_over(behind)
    local old = self:primary()
    local new = old == self[1] and self[2] or self[1]
    if behind then
      new:hear_no_more()
      loop.wait(behind, function() end)
    end
    old:kill()
    new:promote()
    old:follow(new)
    new:wait_for_commits(self.opts.synchronous)
  end

  --- True when a write is committed, which is tried for so long.
  function pair:serves(seconds)
    return loop.look(seconds, function()
      local one = self:primary()
      return one and one:sql "CREATE TABLE IF NOT EXISTS serves (n INT)" ~= nil
    end)
  end
end

return members
