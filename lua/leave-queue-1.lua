-- Takes a process out of the queue of a lock: nobody in it waits any more.
--
-- KEYS 1 lock
-- ARGV 1 process
-- Reply LEFT | ABSENT (it was not queued, or the lock was granted to it just now)

local lock, field = KEYS[1], 'p:' .. ARGV[1]
local place = redis.call('HGET', lock, field)
if not place then return 'ABSENT' end
redis.call('HDEL', lock, field, 'q:' .. place)
-- The last one leaves no gap; any other gap is stepped over when its turn comes.
if tonumber(redis.call('HGET', lock, 'tail') or '') == place + 1 then redis.call('HSET', lock, 'tail', place) end
return 'LEFT'
