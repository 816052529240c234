-- Ends a lease without an entry, and wakes those who wait: as not shareable (hit-for-pass, which also
-- drops the entry), as failed (shared, with a back-off, if somebody waited), or as if it had never been (both 0).
-- Freeing comes first and needs no memory, so that it works on a server that is full.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence  3 pass ms  4 back-off ms  5 failure  6 key  7 wake-up channel prefix
--      8 awaited (1: in the holder's own process somebody waited)
-- Reply ENDED | FENCED

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'fence', 'token')
if fields[1] ~= ARGV[2] or fields[2] ~= ARGV[1] then return 'FENCED' end

redis.call('HDEL', record, 'token', 'until', 'pass', 'retry', 'failure')
local pass_ms, backoff_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local names = redis.call('HKEYS', record)
local awaited = ARGV[8] == '1'
for _, field in ipairs(names) do awaited = awaited or string.sub(field, 1, 2) == 'w:' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if pass_ms > 0 then
  redis.call('HDEL', record, 'life', 'frame', 'patch')
  redis.pcall('HSET', record, 'pass', string.format('%.0f', now + pass_ms))
elseif backoff_ms > 0 and awaited then
  redis.pcall('HSET', record, 'retry', string.format('%.0f', now + backoff_ms), 'failure', ARGV[5])
end
local keep = math.max(pass_ms, backoff_ms) + 1000
if redis.call('PTTL', record) < keep then redis.call('PEXPIRE', record, keep) end

for _, field in ipairs(names) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[7] .. string.sub(field, 3), ARGV[6])
  end
end
return 'ENDED'
