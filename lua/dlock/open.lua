-- dlock.open: the command loads this file only.
local core = require "dlock.core"
local misuse = require "dlock.misuse"
local options = require "dlock.options"
local password = require "dlock.password"
local results = require "dlock.results"
local secure = require "dlock.secure"
local store = require "dlock.store"
local url = require "dlock.url"

local fail = results.fail

-- The parts of `url` and, in place of its text, those of `listen`.
local function find_urls(opts)
  -- A user's cron job and login shell exclude each other, so the default must
  -- not depend on the session. $XDG_RUNTIME_DIR is in one of them only, and
  -- systemd removes it at the logout, and files in /dev/shm.
  local set = os.getenv("DLOCK_URL")
  local parsed, message, code
  if opts.nodes then
    parsed, message, code = url.parse_nodes(opts.url, opts.nodes)
  else
    parsed, message, code = url.parse(opts.url or set ~= "" and set
      or ("file:///tmp/dlock-%d"):format(core.euid()))
  end
  if parsed and opts.listen then
    opts.listen, message, code = url.parse_listen(opts.listen, parsed)
    parsed = opts.listen and parsed
  end
  return parsed, message, code
end

return function(where, ...)
  local opts = {}
  local TAKES = "a URL, or one table with it in ({ url = ... })"
  options.check_end((...), "dlock.open", TAKES)
  if type(where) == "table" and where[1] ~= nil then
    misuse.raise("dlock.open takes %s", TAKES)
  end
  if type(where) == "string" then
    opts.url = where
  elseif where ~= nil then
    local bad = options.check(where, "dlock.open")
    if bad then return fail("invalid", bad) end
    for name, value in next, where do opts[name] = value end
  end
  local parsed, message, code = find_urls(opts)
  if not parsed then return nil, message, code end
  if opts.db then
    parsed.shown = ("%s (db %d)"):format(parsed.shown, opts.db)
  end
  local bad = secure.check(opts.tls, parsed) or password.find(opts, parsed)
  if bad then return fail("invalid", bad) end
  return store.open(parsed, opts)
end

