-- What servers of one cluster have in common: each is killed, stopped and
-- started again, by itself or by its number.
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

return members
