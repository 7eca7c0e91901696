-- Extends a hold that is still ours; never makes one.
-- KEYS: lock, fence, holders, permits, info
-- ARGV: token, ttl in ms (0: its end stays), its fence, for how many ms we hold
--       it, 1: it ends exactly then (else at the earliest),
--       for how many ms the counter stays
-- Returns the ms that were left | {the same, 1}: somebody wants it
--       | -1 it is not ours
local L, F, H, P, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttl, memory = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])
local fence, since = ARGV[3], ARGV[4]
local young = tonumber(since) < 20
local exactly = ARGV[5] == '1'
local call = redis.call
--@include memory
--@include renewal
