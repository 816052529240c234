-- An operator's word on how it ended: voids the attempt that runs, wakes those who wait, and tells every process to
-- forget its copy. Without force only of a record that is uncertain, lapsed or released.
-- Freeing comes first and needs no memory; then Redis lets the script go on, also on a server that is full.
--
-- KEYS 1 record
-- ARGV 1 completed | released  2 keep ms  3 frame  4 force (1 or 0)  5 key  6 wake-up channel prefix
--      7 channel of what was settled  8 not after (server ms, 0: any time)
-- Reply {status, now}
--   SETTLED   ABSENT   REFUSED it runs, has completed, or is not of this layout
--   LATE      the caller gave up before this ran: nothing was done

local record, as = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[8])
if not_after > 0 and now > not_after then return {'LATE', now} end

local fields = redis.call('HMGET', record, 'v', 's', 'until', 'fence', 'attempt')
local function number(i)
  local value = tonumber(string.match(fields[i] or '', '^%d+$') or '')
  return value and value < 9007199254740991 and value
end
if redis.call('EXISTS', record) == 0 then return {'ABSENT', now} end
if fields[1] ~= '1' then return {'REFUSED', now} end
local lapsed = fields[2] == 'running' and now >= (number(3) or 1 / 0)
if ARGV[4] ~= '1' and not (lapsed or fields[2] == 'released' or fields[2] == 'uncertain') then return {'REFUSED', now} end

redis.call('HDEL', record, 'token', 'until')
redis.call('HSET', record, 's', as, 'ended', '', 'lost', 0, 'recovery', 0)
-- What was planted there instead of numbers would keep everybody out for good.
if not number(4) then redis.call('HSET', record, 'fence', string.format('%.0f', time[1] * 1000000 + time[2])) end
if not number(5) then redis.call('HSET', record, 'attempt', 1) end
if as == 'completed' then redis.call('HSET', record, 'frame', ARGV[3]) else redis.call('HDEL', record, 'frame') end
redis.call('PEXPIRE', record, ARGV[2])

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[6] .. string.sub(field, 3), ARGV[5])
  end
end
redis.pcall('PUBLISH', ARGV[7], '0' .. ARGV[5])
return {'SETTLED', now}
