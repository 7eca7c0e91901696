-- The project's pages as specs read them.
local uv = require "luv"

local pages = {}

--- The paths of all of them.
function pages.list()
  local found = { "README.md", "CONTRIBUTING.md",
    "examples/openresty/README.md" }
  for name in uv.fs_scandir_next, assert(uv.fs_scandir("docs")) do
    if name:find("%.md$") then
      found[#found + 1] = "docs/" .. name
    end
  end
  return found
end

--- The fenced blocks of a page: arrays of lines, with line (where it begins),
--- language ("" if none) and version (of Lua, if named).
function pages.blocks(path)
  local found, line_number, block = {}, 0, nil
  for line in io.lines(path) do
    line_number = line_number + 1
    local fence = line:match("^%s*```(.*)$")
    if fence and block then
      found[#found + 1], block = block, nil
    elseif fence then
      block = { line = line_number, language = fence:match("^%a*"),
        version = fence:match("lua%s+(5%.%d)") }
    elseif block then
      block[#block + 1] = line
    end
  end
  assert(not block, "a block that never ends")
  return found
end

--- The text of a block, with the stores that it names as they are in urls, by
--- scheme.
function pages.here(block, urls)
  return (table.concat(block, "\n"):gsub('"([%a+]+)://[^"]*"', function(scheme)
    return urls[scheme] and ("%q"):format(urls[scheme])
  end))
end

return pages
