-- Reads the state of a lock, for an operator. Writes nothing.
--
-- KEYS 1 lock
-- ARGV none
-- Reply {status, token, fence, remaining ms, held for ms, queue}
--   HELD    a caller holds the lock. Only the first characters of its token are sent, because the
--           whole token would allow a release. `held for ms` is -1 if it is unknown.
--   QUEUED  the last lease has ended, and `queue` processes wait
--   FREE    none holds the lock, and none waits; nothing follows

local lock = KEYS[1]
if redis.call('TYPE', lock).ok ~= 'hash' then return {'FREE'} end
local fields = redis.call('HMGET', lock, 'token', 'until', 'fence')
local queue = 0
for _, field in ipairs(redis.call('HKEYS', lock)) do
  if string.sub(field, 1, 2) == 'q:' then queue = queue + 1 end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease_until, set = string.match(fields[2] or '', '^(%d+) ?(%d*)$')
-- If the clock was set back, a full lease is left.
local from = math.max(now, tonumber(set or '') or 0)
local remaining = fields[1] and math.max(0, (tonumber(lease_until or '') or 0) - from) or 0
if remaining == 0 and queue == 0 then return {'FREE'} end
-- A fence is the moment of its grant in microseconds, unless the clock was set back since.
local granted = tonumber(string.match(fields[3] or '', '^%d+$') or '') or 0
local held = now - math.floor(granted / 1000)
if remaining == 0 or held < 0 or held > 1e12 then held = -1 end
local status, token = remaining > 0 and 'HELD' or 'QUEUED', string.sub(fields[1] or '', 1, 6)
return {status, token, fields[3] or '', remaining, held, queue}
