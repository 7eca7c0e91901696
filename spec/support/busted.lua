-- Runs busted under whichever Lua runs this file, wherever it is installed:
-- the command `busted` belongs to one Lua, the tests are for four.
-- usage: LUA spec/support/busted.lua [busted's options] [SPEC…]

-- luv 1.50 crashes when a state that has made a thread is closed, and several
-- specs make one. There the process ends with its state open.
local exit, open = os.exit, require "luv".version() >= 65536 + 50 * 256
function os.exit(code, close) -- luacheck: ignore 122
  exit(code, close and not open)
end

require "busted.runner" { standalone = false }
if open then exit(0) end
