-- TLS: the option `tls`, and the library, a rock of its own.
local options = require "dlock.options"

local secure = {}

-- package.searchpath of 5.1.
local function search(name, path)
  for template in path:gmatch("[^;]+") do
    local found = template:gsub("%?", (name:gsub("%.", "/")))
    local file = io.open(found, "rb")
    if file then
      file:close()
      return found
    end
  end
end

function secure.check(given, where)
  if not given then
    return nil
  end
  local bad = options.check(given, "the table tls")
  if bad then
    return "tls." .. bad
  elseif not where.tls then
    return ("%s: the option tls needs a URL with TLS, such as"
      .. " rediss://host:6379"):format(where.shown)
  elseif (given.server_name or ""):sub(1, 1) == "." then
    return "tls.server_name must be one name: a dot before it would"
      .. " take the certificate of every name below"
  elseif not given.cert and (given.key or given.key_password
      or given.key_password_file) then
    return "tls.key says nothing without tls.cert"
  end
end

--- The path of the TLS library. The store loads it without require, so that
--- another OpenSSL in the process does no harm.
function secure.library()
  return (package.searchpath or search)("dlock.tls", package.cpath)
end

--- The text of the event `insecure`, nil for a store that is not.
function secure.warning(tls, shown)
  return tls and tls.verify == false and ("%s: tls.verify is false: whoever"
    .. " answers there is believed, and can read and change everything; use"
    .. " it for trials only"):format(shown) or nil
end

return secure
