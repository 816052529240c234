-- Extends a lease, if its grant is the newest. A lease that has run out is extended too, if no
-- other process has taken it.
--
-- KEYS 1 record or lock  2 record of its vary group (only for a variant)
-- ARGV 1 token  2 fence  3 lease ms  4 keep ms: how long the record outlives its lease
-- Reply RENEWED | LOST (another grant, a purge or the end of the lease came first)

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'fence', 'token')
if fields[1] ~= ARGV[2] or fields[2] ~= ARGV[1] then return 'LOST' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- PEXPIRE needs no memory. A script that begins with such a write also works on a full server.
local function lengthen(key) redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[3] + ARGV[4])) end
lengthen(record)
-- A variant cannot be committed without the record of its vary group.
if KEYS[2] and KEYS[2] ~= record then lengthen(KEYS[2]) end
-- The second number is when the lease was set. With it, later scripts notice if the clock was set
-- back.
redis.call('HSET', record, 'until', string.format('%.0f %.0f', now + ARGV[3], now))
return 'RENEWED'
