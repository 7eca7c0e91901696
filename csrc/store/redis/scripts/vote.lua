-- One node's vote for a Redlock's hold. The counter counts for one process of
-- the server: another may have loaded an older one (store/redlock/count.c).
-- KEYS: lock, votes' counter, info, news
-- ARGV: token, ttl in ms, the least fence, 1: the node may vote, how many nodes
--       are listed, for how many ms the counter stays, the server's process,
--       what an election publishes (may be missing)
-- Returns {'got', fence, or 0: no counter}
--       | {'busy', what L holds, how many nodes its holder lists} | {'young'}
local L, F, I, N = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, memory = ARGV[1], ARGV[2], tonumber(ARGV[6])
--@include clock
--@include memory
--@include told
local held = call('GET', L)
if held then
  return { 'busy', held, tonumber(call('HGET', I, 'nodes') or 0) }
end
if ARGV[4] ~= '1' then return { 'young' } end
local known, f = call('HMGET', F, 'process', 'fence'), 0
if known[1] == ARGV[7] then
  f = math.max(known[2] + 1, tonumber(ARGV[3]))
  if f >= END then error('~counter~') end -- errors.c knows it
  call('HSET', F, 'fence', digits(f))
  remember()
end
-- A full server refuses SET to a script that has written nothing.
call('SET', L, token, 'PX', ttl)
tell()
call('DEL', I)
call('HSET', I, token, note_of(f, ARGV[8]), 'nodes', ARGV[5])
call('PEXPIRE', I, ttl + 1000)
return { 'got', f }
