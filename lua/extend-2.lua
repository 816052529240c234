-- The entry is as it was: gives it new times and puts a patch over its frame, ends the lease and wakes those who wait:
-- one atomic step. Accepted from the newest grant only, as a commit is. The other processes are told, so that their
-- copies live on too; that is a hint, and no part of the log.
--
-- KEYS 1 record  2 record of its group, or the same
-- ARGV 1 token  2 fence  3 patch  4 fresh ms  5 stale-while-revalidate ms  6 stale-if-error ms
--      7 keep ms (to be compared)  8 physical ms  9 key  10 wake-up channel prefix
--      11 channel of the log  12 this process  13 longest patch that is told
-- Reply EXTENDED | FENCED (also where there is no entry; then the lease is over)

local record, group, token, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local fields = redis.call('HMGET', record, 'fence', 'token', 'life')
local stored, entry = string.match(fields[3] or '', '^(%d+) (%d+) ')
if fields[1] ~= fence then return 'FENCED' end
local stamps = group ~= record and redis.call('HMGET', group, 'purged', 'softened') or {}
local purged, softened = tonumber(stamps[1] or '') or 0, tonumber(stamps[2] or '') or 0
if tonumber(fence) <= math.max(purged, softened) then return 'FENCED' end
if fields[2] ~= token then -- ended already: by this very extension, whose reply was lost, or otherwise
  return stored ~= fence and entry == fence and 'EXTENDED' or 'FENCED'
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = (tonumber(stored or '') or 0) > purged and redis.call('HEXISTS', record, 'frame') == 1
if known then
  redis.call('HSET', record, 'patch', ARGV[3], 'life',
    string.format('%s %s %.0f %.0f %.0f %.0f %.0f', stored, fence, now, now + ARGV[4], ARGV[5], ARGV[6], ARGV[7]))
  redis.call('PEXPIRE', record, ARGV[8])
  if group ~= record then -- the stamp of a purge has to outlive what it is about
    redis.call('HSET', group, 'variants', 1)
    if redis.call('PTTL', group) < tonumber(ARGV[8]) then redis.call('PEXPIRE', group, ARGV[8]) end
  end
end
redis.call('HDEL', record, 'token', 'until', 'pass', 'retry', 'failure')

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[10] .. string.sub(field, 3), ARGV[9])
  end
end
if known and #ARGV[3] <= tonumber(ARGV[13]) then
  local times = table.concat({string.format('%.0f', now), ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]}, ' ')
  redis.pcall('PUBLISH', ARGV[11], table.concat({'x', ARGV[12], entry, fence, times, #ARGV[9]}, ' ')
    .. '\n' .. ARGV[9] .. ARGV[3])
end
return known and 'EXTENDED' or 'FENCED'
