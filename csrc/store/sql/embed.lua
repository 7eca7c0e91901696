-- Turns a store's schema into a C header, so that it stays a readable file of
-- its own and the library still carries its text, comments and all.
-- usage: lua embed.lua …/NAME/schema.sql HEADER    (dlk_NAME_schema)

local source, header = arg[1], arg[2]
local name = assert(source:match("([%w_]+)/[^/]*$"))

local out = { "/* Made by csrc/store/sql/embed.lua. */",
  ("static const char dlk_%s_schema[] ="):format(name) }
for line in io.lines(source) do
  out[#out + 1] = '  "' .. line:gsub('[\\"]', "\\%0"):gsub("%?%?", "?\\?")
    .. '\\n"'
end
out[#out] = out[#out] .. ";\n"

local file = assert(io.open(header .. ".new", "w"))
assert(file:write(table.concat(out, "\n")))
assert(file:close())
assert(os.rename(header .. ".new", header))
