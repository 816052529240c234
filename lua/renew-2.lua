-- Extends the lease of its newest grant. A lease that has run out is extended too, as long as no
-- other process has taken it.
--
-- KEYS 1 record or lock  2 record of its group (a lock or a key without variants has none)
-- ARGV 1 token  2 fence  3 lease ms  4 keep ms: how long the record outlives its lease
-- Reply RENEWED | LOST (another grant, a purge or the end of the lease came first)

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'fence', 'token')
if fields[1] ~= ARGV[2] or fields[2] ~= ARGV[1] then return 'LOST' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- PEXPIRE needs no memory. Redis lets a script that began with such a write go on, also when it is
-- full.
local function lengthen(key) redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ARGV[3] + ARGV[4])) end
lengthen(record)
if KEYS[2] and KEYS[2] ~= record then lengthen(KEYS[2]) end -- a variant without its group cannot be committed
-- The second number is when it was set: a later reader notices if the clock was set back.
redis.call('HSET', record, 'until', string.format('%.0f %.0f', now + ARGV[3], now))
return 'RENEWED'
