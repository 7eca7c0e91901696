-- Runs busted under whichever Lua runs this file, wherever it is installed:
-- the command `busted` belongs to one Lua, the tests are for four.
-- usage: LUA spec/support/busted.lua [busted's options] [SPEC…]

require "busted.runner" { standalone = false }
