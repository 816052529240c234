-- Extends the lease of a lock or idempotency key, if its grant is the newest. A lease that has run
-- out is extended too, if no other process has taken it.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence  3 lease ms  4 keep ms: how long the record outlives its lease
-- Reply RENEWED | LOST (another grant or the end of the lease came first)

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'fence', 'token')
if fields[1] ~= ARGV[2] or fields[2] ~= ARGV[1] then return 'LOST' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- PEXPIRE needs no memory. A script that begins with such a write also works on a full server.
redis.call('PEXPIRE', record, math.max(redis.call('PTTL', record), ARGV[3] + ARGV[4]))
-- The second number is when the lease was set. With it, later scripts notice if the clock was set
-- back.
redis.call('HSET', record, 'until', string.format('%.0f %.0f', now + ARGV[3], now))
return 'RENEWED'
