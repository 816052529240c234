-- Applies an operator's decision on how an attempt ended. A running attempt can no longer finish.
-- Waiters are woken, and a message makes every process drop its copy of the record. Without force,
-- only a record that is uncertain, lapsed or released is settled. The record gets a new fence, so
-- another operator who saw the record before is refused. The script begins with a write that needs
-- no memory, so it also works on a full server.
--
-- KEYS 1 record
-- ARGV 1 new state: completed | released  2 how long to keep the record, ms
--      3 frame of the response, if completed  4 force (1: settle in any state, 0: do not, or the
--      state and the fence that the operator saw: settle only these)  5 key
--      6 prefix of wake-up channels  7 channel for settled keys
-- Reply {status, now}
--   SETTLED  the record has the new state
--   ABSENT   there is no record
--   REFUSED  an attempt runs or has completed, and force was not given; or the operator saw another
--            state or fence; or the record is of another version

local record, as = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields = redis.call('HMGET', record, 'v', 's', 'until', 'fence', 'attempt')
-- Drops the moment at which the lease was set.
fields[3] = string.match(fields[3] or '', '^(%d+) ?%d*$')
local function number(i)
  local value = tonumber(string.match(fields[i] or '', '^%d+$') or '')
  return value and value < 9007199254740991 and value
end
if redis.call('EXISTS', record) == 0 then return {'ABSENT', now} end
if fields[1] ~= '1' then return {'REFUSED', now} end
local lapsed = fields[2] == 'running' and now >= (number(3) or 1 / 0)
local is_idle = lapsed or fields[2] == 'released' or fields[2] == 'uncertain'
local state = lapsed and 'lapsed' or fields[2] or ''
local is_meant = ARGV[4] == '1' or ARGV[4] == '0' and is_idle
if not is_meant and ARGV[4] ~= state .. ' ' .. (fields[4] or '') then return {'REFUSED', now} end

redis.call('HDEL', record, 'token', 'until')
-- begin-record refuses malformed and larger numbers for ever, so write none.
local fence = math.max((number(4) or 0) + 1, time[1] * 1000000 + time[2])
fence = string.format('%.0f', math.min(fence, 9007199254740990))
redis.call('HSET', record, 's', as, 'fence', fence, 'ended', '', 'lost', 0, 'recovery', 0)
if not number(5) then redis.call('HSET', record, 'attempt', 1) end
if as == 'completed' then
  redis.call('HSET', record, 'frame', ARGV[3])
else
  redis.call('HDEL', record, 'frame')
end
redis.call('PEXPIRE', record, ARGV[2])

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[6] .. string.sub(field, 3), ARGV[5])
  end
end
redis.pcall('PUBLISH', ARGV[7], '0' .. ARGV[5])
return {'SETTLED', now}
