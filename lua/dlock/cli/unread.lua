-- Most of the command's start is the reading of Lua, so a kind of lock or loop
-- that it may never use is read at its first use. A program reads all of them
-- when it starts, since an upgrade may put other files in their place.

local function later(name)
  package.preload[name] = function()
    return setmetatable({}, { __index = function(stub, field)
      package.preload[name] = nil
      if package.loaded[name] == stub then package.loaded[name] = nil end
      return require(name)[field]
    end })
  end
end

for _, name in ipairs { "barrier", "latch", "once", "once_per",
  "semaphore" } do
  later("dlock.kinds." .. name)
end
later "dlock.host.cqueues"
later "dlock.host.luv"
