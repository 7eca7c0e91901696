-- Numbers that stand in C and in Lua, because neither can read the other, are
-- the same.
local options = require "dlock.options"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

local SCRIPTS = "csrc/store/redis/scripts/include/"
local store_h = read "csrc/store/store.h"

local function of(text, pattern)
  return assert(tonumber(text:match(pattern)), pattern)
end

describe("the same in C and in Lua:", function()
  it("the length of a key", function()
    local most = of(store_h, "#define DLK_KEY_MAX (%d+)")
    assert.is_nil(options.check_key(("k"):rep(most), "store:lock"))
    assert.is_truthy(options.check_key(("k"):rep(most + 1), "store:lock"))
  end)

  it("the keys of a page", function()
    local most = of(store_h, "#define DLK_PAGE_MAX (%d+)")
    assert.is_true(options.fits(most, "limit"))
    assert.is_false(options.fits(most + 1, "limit"))
  end)

  it("where fences begin and end", function()
    local first, last = read(SCRIPTS .. "range.lua")
      :match "local FIRST, END = (%d+), (%d+)"
    assert.equal(of(read "csrc/store/redis/op/fence.h",
      "#define DLK_REDIS_FENCE_FIRST INT64_C%((%d+)%)"), tonumber(first))
    assert.equal(of(store_h, "#define DLK_FENCE_END INT64_C%((%d+)%)"),
      tonumber(last))
  end)

  it("how many an inspect shows", function()
    assert.equal(of(store_h, "#define DLK_SHOWN_MAX (%d+)"),
      of(read(SCRIPTS .. "shown.lua"), "local SHOWN = (%d+)"))
  end)
end)
