-- Stores the report of one process for the dashboard and the command line, and drops the reports
-- that have expired. So one command per process and interval is the whole cost.
--
-- KEYS 1 ends (sorted set: process by the moment at which its report expires)  2 texts (hash)
-- ARGV 1 process  2 text  3 ms until the report expires  4 longest value of ARGV 3
-- Reply number of processes with a report

local ends, texts, ttl = KEYS[1], KEYS[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A moment this far ahead shows that the clock was set back. If one of the keys was evicted, the
-- other has processes that never expire. In both cases, all processes report again.
local is_ahead = redis.call('ZCOUNT', ends, string.format('(%.0f', now + ARGV[4]), '+inf') > 0
if is_ahead or redis.call('EXISTS', ends, texts) == 1 then redis.call('DEL', ends, texts) end

-- A bound on one call. The next calls drop the rest.
local until_now = {'-inf', string.format('%.0f', now), 'LIMIT', 0, 1000}
local expired = redis.call('ZRANGEBYSCORE', ends, unpack(until_now))
if #expired > 0 then
  redis.call('HDEL', texts, unpack(expired))
  redis.call('ZREMRANGEBYRANK', ends, 0, #expired - 1)
end
redis.call('ZADD', ends, string.format('%.0f', now + ttl), ARGV[1])
redis.call('HSET', texts, ARGV[1], ARGV[2])
for _, key in ipairs({ends, texts}) do
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end
return redis.call('ZCARD', ends)
