-- Needs: grant, stand, token, ttl, spare. The ends of join and refresh, where
-- nobody else holds the lock alone.

local function got(f, aside)
  if not aside or aside == 0 then return { 'got', f, 0 } end
  local first = call('ZRANGE', Q, 0, 0, 'WITHSCORES')[2]
  return { 'got', f, aside, first
    and math.max(time[1] * 1000000 + time[2] - first, 0) or -1 }
end

-- It holds already. A late request takes no time away from an extension.
local function had(s)
  local left = s.mode == 'x' and call('PTTL', L)
    or call('ZSCORE', H, token) - now
  ttl = math.max(ttl, left)
  if s.mode == 'x' then
    call('PEXPIRE', L, ttl)
  else
    call('ZADD', H, now + ttl, token)
    keep(ttl)
  end
  local f, aside = fence(1, spare)
  if s.mode ~= 'x' or ARGV[11] then
    call('HSET', I, token, note_of(f, ARGV[11]))
  end
  if s.mode == 'x' then call('PEXPIRE', I, ttl + 1000) end
  return got(f, aside)
end

local function wait(s)
  local f, more, aside = grant(s, token, ttl, spare)
  if f then return got(f, aside) end
  rank = call('ZRANK', Q, token) or 0
  local answer = stand(s, more)
  if answer[1] == 'limit' then grant(s) end
  return answer
end
