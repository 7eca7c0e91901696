-- Stampede protection: when the cached page has expired, one request makes it
-- anew; the others of that moment wait for it and get the same page. The
-- function looks into the cache again, because another worker may have had its
-- turn before us.
local store = require "locks"

local stampede = {}

local FRESH = 10 -- seconds

local function make()
  local cache = ngx.shared.cache
  local page = cache:get("page")
  if page then
    return page
  end
  ngx.sleep(0.2) -- the database thinks
  page = ("page number %d\n"):format(cache:incr("made", 1, 0))
  cache:set("page", page, FRESH)
  return page
end

function stampede.page()
  local page, message = ngx.shared.cache:get("page"), nil
  if not page then
    page, message = store:once("page", make)
  end
  if not page then
    ngx.log(ngx.ERR, message)
    ngx.header["Retry-After"] = 1
    return ngx.exit(503)
  end
  ngx.print(page)
end

return stampede
