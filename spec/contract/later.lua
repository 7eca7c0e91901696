-- Runs action from a debug hook, as a signal handler would, at the first Lua
-- code after `seconds`; again and again, so that it does not come too early,
-- until debug.sethook().
return function(t, seconds, action, once)
  local at = t:now() + seconds
  debug.sethook(function()
    if t:now() >= at then
      at = at + seconds
      if once then debug.sethook() end
      action()
    end
  end, "", 1)
end
