-- What the MySQL specs share: stores that are closed behind a case, keys nobody
-- else uses, and the server's own view of the rows.

local loop = require "spec.support.loop"
local mysql = require "spec.support.mysql"
local opened = require "spec.support.opened"
local shared = require "spec.support.shared"
local uv = require "luv"

local common = opened("mysql", { url = shared.at("DLOCK_TEST_MYSQL") })

--- The digits of these bytes, as they travel.
function common.hex(bytes)
  return (bytes:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end))
end

function common.literal(bytes)
  return "X'" .. common.hex(bytes) .. "'"
end

--- What the server says to a statement, in which $ stands for the key.
function common.ask(sql, key, url)
  return assert(mysql.ask(url or common.url, (sql:gsub("%$", function()
    return common.literal(key or "")
  end))))
end

--- How many holds and places of key are in time.
function common.rows(key, url)
  return tonumber(common.ask("SELECT (SELECT COUNT(*) FROM dlock_key WHERE"
    .. " id = $ AND until > UTC_TIMESTAMP(6)) + (SELECT COUNT(*) FROM"
    .. " dlock_hold WHERE id = $ AND until > UTC_TIMESTAMP(6)) + (SELECT"
    .. " COUNT(*) FROM dlock_wait WHERE id = $ AND alive > UTC_TIMESTAMP(6))",
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
