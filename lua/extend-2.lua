-- Extends an entry that the origin found unchanged and wakes the waiters, in one atomic step. It
-- gives the entry new lifetimes and a patch of header fields over its frame, and ends the lease. It
-- is accepted under the same conditions as a commit: from the newest grant, and in the same life
-- of the group. The patch is also published to all processes, so that their copies live on. That message
-- is a hint and not part of the log of purges.
--
-- KEYS 1 record  2 record of its group (of a key without variants: the same record)
-- ARGV 1 token  2 fence  3 patch  4 fresh ms  5 stale-while-revalidate ms  6 stale-if-error ms
--      7 keep ms: how long a stale entry is kept to be revalidated  8 physical TTL ms
--      9 key  10 prefix of wake-up channels  11 channel of the log  12 this process
--      13 longest patch in bytes that is published
-- Reply EXTENDED | FENCED
--   EXTENDED  now, or by an earlier call whose reply was lost
--   FENCED    refused as a commit is, and nothing was done; or the entry is gone, and only the
--             lease was ended

local record, group, token, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local fields = redis.call('HMGET', record, 'fence', 'token', 'life', 'variants', 'group')
local stored, entry = string.match(fields[3] or '', '^(%d+) (%d+) ')
if fields[1] ~= fence then return 'FENCED' end
local variants = group ~= record and redis.call('HGET', group, 'variants')
if group ~= record and not (variants and variants == fields[5]) then return 'FENCED' end
if fields[2] ~= token then
  -- The lease is over: by this same extension, whose reply was lost, or ended by its holder.
  return stored ~= fence and entry == fence and 'EXTENDED' or 'FENCED'
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = stored and redis.call('HEXISTS', record, 'frame') == 1
if known then
  redis.call('HSET', record, 'patch', ARGV[3], 'life',
    string.format('%s %s %.0f %.0f %.0f %.0f %.0f', stored, fence, now, now + ARGV[4], ARGV[5], ARGV[6], ARGV[7]))
  -- A group's record must outlive all of its variants, so nothing shortens it.
  local function lengthen(key)
    if redis.call('PTTL', key) < tonumber(ARGV[8]) then redis.call('PEXPIRE', key, ARGV[8]) end
  end
  if fields[4] then lengthen(record) else redis.call('PEXPIRE', record, ARGV[8]) end
  if group ~= record then lengthen(group) end
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
