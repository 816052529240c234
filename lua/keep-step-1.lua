-- Remembers the result of a part of a running attempt, for the attempt that takes over.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence  3 name  4 value  5 keep ms, where nothing else says how long
-- Reply KEPT | STALE (another has it, or it has ended)

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'v', 'token', 'fence')
if fields[1] ~= '1' or fields[2] ~= ARGV[1] or fields[3] ~= ARGV[2] then return 'STALE' end

-- A write that needs no memory comes first: then Redis lets the script go on, also on a server that is full. What
-- was done and is not remembered would be done again.
local ttl = redis.call('PTTL', record)
redis.call('PEXPIRE', record, ttl > 0 and ttl or ARGV[5])
redis.call('HSET', record, 's:' .. ARGV[3], ARGV[4])
return 'KEPT'
