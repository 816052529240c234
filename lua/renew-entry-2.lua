-- Extends the lease of a fill, if its grant is the newest. A lease that has run out is extended
-- too, if no other process has taken it.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV 1 token  2 fence  3 lease ms  4 keep ms: how long the record outlives its lease
-- Reply RENEWED | LOST (another grant, a purge or the end of the lease came first)

local record, group = KEYS[1], KEYS[2]
local lease = redis.call('HGET', record, 'lease')
local fence, holder = string.match(lease or '', '^(%d+) ?%d* ?%d* ?(.*)$')
if fence ~= ARGV[2] or holder ~= ARGV[1] then return 'LOST' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- PEXPIRE needs no memory. A script that begins with such a write also works on a full server.
local function lengthen(key)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[3] + ARGV[4]))
end
lengthen(record)
-- A variant cannot be committed without the record of its vary group.
if group then lengthen(group) end
redis.call('HSET', record, 'lease', table.concat({fence, now + ARGV[3], now, holder}, ' '))
return 'RENEWED'
