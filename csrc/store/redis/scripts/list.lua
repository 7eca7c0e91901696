-- One step through the names of the database.
-- ARGV: 'locks' | 'queues', cursor, pattern, how many names to look at
-- Returns {next cursor ('0': the last), {the locks' full names}}
-- A lock holds a token of ours, or the marker of shared holders: with a prefix
-- of '' a database may hold other things. A node of a cluster that imports a
-- name's slot, or lacks it already, refuses it to scripts.
local call = redis.call
local function fails(value)
  return type(value) == 'table' and not value.err:find('non local', 1, true)
end
local queues = ARGV[1] == 'queues'
local page = call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4], 'TYPE',
  queues and 'zset' or 'string')
local found = {}
for _, name in ipairs(page[2]) do
  if queues then
    local lock = name:match('^~dlock:{%d+}:q:(.*)$')
    local there = lock and redis.pcall('EXISTS', lock)
    if fails(there) then return there end
    if there == 0 then found[#found + 1] = lock end
  elseif string.sub(name, 1, 7) ~= '~dlock:' then
    local value = redis.pcall('GETRANGE', name, 0, 49)
    if fails(value) then return value end
    if type(value) == 'table' or value:find('^~s%d+$')
        or value:find('^' .. ('%x'):rep(32) .. ':' .. ('%x'):rep(16) .. ':$')
    then
      found[#found + 1] = name
    end
  end
end
return { page[1], found }
