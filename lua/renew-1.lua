-- Extends a lease that is still the newest grant, also one that has run out while nobody wanted it.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence  3 lease ms  4 keep ms
-- Reply RENEWED | LOST

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'fence', 'token')
if fields[1] ~= ARGV[2] or fields[2] ~= ARGV[1] then return 'LOST' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A write that needs no memory comes first: then Redis lets the script go on, also on a server that is full.
redis.call('PEXPIRE', record, math.max(redis.call('PTTL', record), ARGV[3] + ARGV[4]))
redis.call('HSET', record, 'until', string.format('%.0f', now + ARGV[3]))
return 'RENEWED'
