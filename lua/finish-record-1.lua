-- Ends an attempt and wakes the waiters, in one atomic step. An attempt whose lease has run out may
-- still end, if no other attempt took over. If the record was lost meanwhile (evicted, flushed), a
-- completed attempt is written again, because its work was done. The script begins with a write
-- that needs no memory, so it also works on a full server.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence ('*': any; to release an attempt that never ran its handler)
--      3 new state: completed | released | uncertain  4 how long to keep the record, ms
--      5 frame of the response, if completed  6 exact fingerprint  7 canonical fingerprint
--      8 key  9 prefix of wake-up channels
-- Reply {status, now}
--   FINISHED     the attempt ended now, or by an earlier call whose reply was lost
--   RESURRECTED  the record was missing and was written again
--   STALE        another attempt took over, or the attempt ended in another way: nothing was done

local record, token, fence, as = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields = redis.call('HMGET', record, 'v', 's', 'token', 'fence', 'ended')
if not fields[1] and redis.call('EXISTS', record) == 0 then
  if as ~= 'completed' or fence == '*' then return {'STALE', now} end
  redis.call('PEXPIRE', record, ARGV[4])
  redis.call(
    'HSET', record, 'v', 1, 's', as, 'exact', ARGV[6], 'canonical', ARGV[7],
    'fence', fence, 'attempt', 1, 'lost', 0, 'recovery', 0,
    'created', string.format('%.0f', now), 'ended', token, 'frame', ARGV[5]
  )
  redis.call('PEXPIRE', record, ARGV[4])
  return {'RESURRECTED', now}
end
if fields[1] ~= '1' or (fence ~= '*' and fields[4] ~= fence) then return {'STALE', now} end
local isOpen = fields[2] == 'running' or fields[2] == 'uncertain'
if not isOpen or fields[3] ~= token then
  return {fields[2] == as and fields[5] == token and 'FINISHED' or 'STALE', now}
end

redis.call('HDEL', record, 'token', 'until')
local last = {'s', as, 'ended', token}
if as == 'completed' then last[5], last[6] = 'frame', ARGV[5] end
if as == 'released' and fence ~= '*' then last[5], last[6] = 'lost', 0 end
redis.call('HSET', record, unpack(last))
redis.call('PEXPIRE', record, ARGV[4])

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[9] .. string.sub(field, 3), ARGV[8])
  end
end
return {'FINISHED', now}
