-- What the PostgreSQL specs share: stores that are closed behind a case, keys
-- nobody else uses, and the server's own view of the rows.

local loop = require "spec.support.loop"
local opened = require "spec.support.opened"
local postgres = require "spec.support.postgres"
local shared = require "spec.support.shared"
local uv = require "luv"

local common = opened("postgres", { url = shared.at("DLOCK_TEST_POSTGRES") })

--- A literal of these bytes.
function common.literal(bytes)
  return "'\\x" .. bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end) .. "'::bytea"
end

--- What the server says to a statement, in which $ stands for the key.
function common.ask(sql, key, url)
  return assert(postgres.ask(url or common.url, (sql:gsub("%$", function()
    return common.literal(key or "")
  end))))
end

--- How many holds and places of key are in time.
function common.rows(key, url)
  return tonumber(common.ask("SELECT (SELECT count(*) FROM dlock.key WHERE"
    .. " id = $ AND until > clock_timestamp()) + (SELECT count(*) FROM"
    .. " dlock.hold WHERE id = $ AND until > clock_timestamp()) + (SELECT"
    .. " count(*) FROM dlock.wait WHERE id = $ AND alive > clock_timestamp())",
    key, url))
end

function common.now()
  return uv.hrtime() / 1e9
end

--- Waits until fn() says so, while the store's engine works.
function common.eventually(store, what, fn)
  local deadline = common.now() + 60 * loop.patience
  repeat
    store:mutex("nobody"):locked()
    local result = fn()
    if result then return result end
    uv.sleep(10)
  until common.now() > deadline
  error("never came true: " .. what, 2)
end

return common
