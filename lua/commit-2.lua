-- Stores the entry, ends the lease and wakes the waiters, in one atomic step. Only the newest grant
-- may commit: after a later grant or a purge, the record has a higher fence or is gone. A variant
-- also needs its group as it was when the lease was given: a purge begins another life of the group,
-- and if the group's record was lost, a purge may be lost with it.
--
-- KEYS 1 record  2 record of its group (a key without variants has none)
-- ARGV 1 token  2 fence  3 frame  4 fresh ms
--      5 stale-while-revalidate ms, stale-if-error ms and keep ms (how long a stale entry is kept to
--        be revalidated), as they stand in `life`
--      6 physical TTL ms  7 key  8 prefix of wake-up channels
-- Reply COMMITTED | FENCED
--   COMMITTED  stored, now or by an earlier call whose reply was lost
--   FENCED     refused: a newer grant or a purge came first, or the lease was ended. Nothing was
--              done.

local record, token, fence = KEYS[1], ARGV[1], ARGV[2]
local group = KEYS[2] or record
local fields = redis.call('HMGET', record, 'fence', 'token', 'life', 'variants', 'group')
if fields[1] ~= fence then return 'FENCED' end
local variants = group ~= record and redis.call('HGET', group, 'variants')
if group ~= record and not (variants and variants == fields[5]) then return 'FENCED' end
if fields[2] ~= token then
  -- The lease is over: by this same commit, whose reply was lost, or because the holder ended it.
  return string.match(fields[3] or '', '^%d+') == fence and 'COMMITTED' or 'FENCED'
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', record, 'frame', ARGV[3], 'life',
  string.format('%s %.0f %.0f %s', fence, now, now + ARGV[4], ARGV[5]))
redis.call('HDEL', record, 'token', 'until', 'pass', 'retry', 'failure')
-- A group's record must outlive all of its variants, so nothing shortens it.
local function lengthen(key)
  if redis.call('PTTL', key) < tonumber(ARGV[6]) then redis.call('PEXPIRE', key, ARGV[6]) end
end
if fields[4] then lengthen(record) else redis.call('PEXPIRE', record, ARGV[6]) end
if group ~= record then lengthen(group) end

-- The entry as a message, built for the first waiter that asks for it: most commits have no waiter.
local function filled()
  local head = {'', fence, string.format('%.0f', now), ARGV[4], ARGV[5], #ARGV[7]}
  return table.concat(head, ' ') .. '\n' .. ARGV[7] .. ARGV[3]
end
-- Waiters look up a frame over 16 KiB, and the entry once this commit has sent 1 MiB: Redis serves
-- no other client meanwhile.
local bytes_left, entry = 1048576, nil
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    -- The field holds the token of the waiting lookup. Sent back with the entry, it shows the
    -- waiter that the message is for this lookup: no other client knows the token. An empty field
    -- asks for a plain wake-up.
    local waiter_token = redis.call('HGET', record, field)
    redis.call('HDEL', record, field)
    if waiter_token ~= '' and #ARGV[3] <= 16384 then entry = entry or filled() end
    local sends_entry = entry and waiter_token ~= '' and #entry <= bytes_left
    local message = sends_entry and '\0' .. waiter_token .. entry or ARGV[7]
    bytes_left = bytes_left - #message
    redis.pcall('PUBLISH', ARGV[8] .. string.sub(field, 3), message)
  end
end
return 'COMMITTED'
