-- Removes a process from the queue of a lock, because none of its callers waits for the lock any
-- more.
--
-- KEYS 1 lock
-- ARGV 1 process
-- Reply LEFT | ABSENT (it was not in the queue, or the lock was just granted to it)

local lock, field = KEYS[1], 'p:' .. ARGV[1]
local place = redis.call('HGET', lock, field)
if not place then return 'ABSENT' end
redis.call('HDEL', lock, field, 'q:' .. place)
-- If the process was last, its position becomes free. release-lock skips a gap at any other
-- position.
if tonumber(redis.call('HGET', lock, 'tail') or '') == place + 1 then
  redis.call('HSET', lock, 'tail', place)
end
return 'LEFT'
