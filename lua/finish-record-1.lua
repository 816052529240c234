-- Ends an attempt and wakes those who wait: one atomic step. A lease that is over is no obstacle as long as nobody
-- took over. A completed record that was lost meanwhile (evicted, flushed) is written again, because it was done.
-- Freeing comes first and needs no memory; then Redis lets the script go on, also on a server that is full.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence (*: any, and the attempt is taken back: it never ran)  3 completed | released | uncertain
--      4 keep ms  5 frame  6 exact fingerprint  7 canonical fingerprint  8 key  9 wake-up channel prefix
--      10 not after (server ms, 0: any time)
-- Reply {status, now}
--   FINISHED also if this same finish was made before   RESURRECTED written again
--   STALE    another has it, or has finished it         LATE        the caller gave up before this: nothing was done

local record, token, fence, as = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[10])
if not_after > 0 and now > not_after then return {'LATE', now} end

local fields = redis.call('HMGET', record, 'v', 's', 'token', 'fence', 'ended')
if redis.call('EXISTS', record) == 0 then
  if as ~= 'completed' or fence == '*' then return {'STALE', now} end
  redis.call('PEXPIRE', record, ARGV[4])
  redis.call('HSET', record, 'v', 1, 's', as, 'exact', ARGV[6], 'canonical', ARGV[7], 'fence', fence, 'attempt', 1,
    'lost', 0, 'recovery', 0, 'created', string.format('%.0f', now), 'ended', token, 'frame', ARGV[5])
  redis.call('PEXPIRE', record, ARGV[4])
  return {'RESURRECTED', now}
end
if fields[1] ~= '1' or (fence ~= '*' and fields[4] ~= fence) then return {'STALE', now} end
local isOpen = fields[2] == 'running' or fields[2] == 'uncertain'
if not isOpen or fields[3] ~= token then
  return {fields[2] == as and fields[5] == token and 'FINISHED' or 'STALE', now}
end

redis.call('HDEL', record, 'token', 'until')
redis.call('HSET', record, 's', as, 'ended', token)
if as == 'completed' then redis.call('HSET', record, 'frame', ARGV[5]) end
if as == 'released' and fence ~= '*' then redis.call('HSET', record, 'lost', 0) end
redis.call('PEXPIRE', record, ARGV[4])

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[9] .. string.sub(field, 3), ARGV[8])
  end
end
return {'FINISHED', now}
