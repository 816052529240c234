-- Stores the result of one step of a running attempt. An attempt that takes over uses the result.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence  3 name of the step  4 its result
--      5 keep ms: TTL of a record that has none
-- Reply KEPT | STALE (another attempt took over, or this one has ended; nothing was done)

local record = KEYS[1]
local fields = redis.call('HMGET', record, 'v', 'token', 'fence')
if fields[1] ~= '1' or fields[2] ~= ARGV[1] or fields[3] ~= ARGV[2] then return 'STALE' end

-- PEXPIRE needs no memory. A script that begins with such a write also works on a full server. If a
-- full server refused the step, an attempt that takes over would do its work again.
local ttl = redis.call('PTTL', record)
redis.call('PEXPIRE', record, ttl > 0 and ttl or ARGV[5])
redis.call('HSET', record, 's:' .. ARGV[3], ARGV[4])
return 'KEPT'
