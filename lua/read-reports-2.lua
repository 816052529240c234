-- Reads the reports that have not expired. The reply is bounded, because Redis serves no other
-- client meanwhile.
--
-- KEYS 1 ends (sorted set: process by the moment at which its report expires)  2 texts (hash)
-- ARGV 1 most reports  2 most bytes of all texts
-- Reply {process, text, process, text, ...}

local time = redis.call('TIME')
local now = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local names = redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[1])
local reply, bytes = {}, 0
for _, name in ipairs(names) do
  local text = redis.call('HGET', KEYS[2], name)
  bytes = bytes + (text and #text or 0)
  if bytes > tonumber(ARGV[2]) then break end
  if text then
    reply[#reply + 1] = name
    reply[#reply + 1] = text
  end
end
return reply
