-- Names the right that a script was refused: servers before 7.2 do not say.
-- Calls each command of the scripts on names that nobody has. A key that is
-- there is not touched.
-- KEYS: lock, fence, queue, waiters, holders, permits
-- ARGV: our channel
-- Returns 'OK' | the refusal
local L, F, Q, W, H, P =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local calls = {
  { 'DEL', L, F, Q, W, H, P }, { 'TIME' }, { 'GET', L }, { 'PTTL', L },
  { 'SET', L, 'probe', 'PX', 1000 }, { 'PEXPIRE', L, 1000 },
  { 'INCRBY', F, 1 }, { 'PUBSUB', 'NUMSUB', ARGV[1] },
  { 'PUBLISH', ARGV[1], '' },
  { 'ZADD', Q, 1, 'probe' }, { 'ZRANGE', Q, 0, 0 }, { 'ZRANK', Q, 'probe' },
  { 'ZSCORE', Q, 'probe' }, { 'ZREM', Q, 'probe' }, { 'ZPOPMIN', Q },
  { 'ZRANGEBYSCORE', H, 1, 2 }, { 'HSET', W, 'probe', 1 },
  { 'HGET', W, 'probe' }, { 'HDEL', W, 'probe' }, { 'HMGET', P, 'g', 'u' },
  { 'GETRANGE', L, 0, 1 },
  { 'SCAN', '0', 'MATCH', L, 'COUNT', 1, 'TYPE', 'string' },
}
local there = redis.pcall('EXISTS', L, F, Q, W, H, P)
if type(there) == 'table' then return 'EXISTS: ' .. there.err end
if there > 0 then return 'OK' end
local function probe()
  for _, c in ipairs(calls) do
    local r = redis.pcall(unpack(c))
    local text = type(r) == 'table' and r.err
    if text and (text:find('NOPERM') or text:find('ACL failure')
        or text:find("the script can't", 1, true)) then
      return c[1] .. ': ' .. text
    elseif text and (text:find('READONLY') or text:find('MASTERDOWN')
        or text:find('LOADING') or text:find('CLUSTERDOWN')) then
      return r
    end
  end
  return 'OK'
end
local answer = probe()
redis.pcall('DEL', L, F, Q, W, H, P)
return answer
