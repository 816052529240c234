-- Stores the entry, ends the lease and wakes the waiters, in one atomic step. Only the newest grant
-- may commit: after a newer grant or a purge, the record has a higher fence or is gone. A variant
-- may be committed only if `variants` of its vary group equals `group` in its own record. Each
-- purge changes `variants`. If the group's record is missing, a purge may be lost with it.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV 1 token  2 fence  3 frame  4 fresh ms
--      5 stale-while-revalidate ms, stale-if-error ms and keep ms (how long a stale entry is kept
--        for revalidation), as one text, which becomes the end of `life`
--      6 physical TTL ms  7 key  8 prefix of wake-up channels
--      9 deadline of the caller in server ms (0: none); after it the script does nothing
--      10 ms since ARGV 4 to 6 began to count: the wait before the command was sent
-- Reply {status, now}
--   COMMITTED  stored, now or by an earlier call whose reply was lost
--   FENCED     refused: a newer grant or a purge came first, or the lease was ended. Nothing was
--              done.
--   LATE       the deadline had passed: nothing was done, because the entry has aged meanwhile

local record, token, fence = KEYS[1], ARGV[1], ARGV[2]
local group = KEYS[2] or record
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = redis.call('HMGET', record, 'fence', 'token', 'life', 'variants', 'group')
if fields[1] ~= fence then return {'FENCED', now} end
local variants = group ~= record and redis.call('HGET', group, 'variants')
if group ~= record and not (variants and variants == fields[5]) then return {'FENCED', now} end
if fields[2] ~= token then
  -- The lease is over. Either an earlier call made this commit and its reply was lost, or the
  -- holder ended the lease.
  return {string.match(fields[3] or '', '^%d+') == fence and 'COMMITTED' or 'FENCED', now}
end
local not_after = tonumber(ARGV[9])
if not_after > 0 and now > not_after then return {'LATE', now} end

local made = now - ARGV[10]
redis.call('HSET', record, 'frame', ARGV[3], 'life',
  string.format('%s %.0f %.0f %s', fence, made, made + ARGV[4], ARGV[5]))
redis.call('HDEL', record, 'token', 'until', 'pass', 'retry', 'failure')
-- The record of a vary group must outlive its variants, so its TTL is never shortened.
local function lengthen(key)
  if redis.call('PTTL', key) < tonumber(ARGV[6]) then redis.call('PEXPIRE', key, ARGV[6]) end
end
if fields[4] then lengthen(record) else redis.call('PEXPIRE', record, ARGV[6]) end
if group ~= record then lengthen(group) end

-- Builds the message with the entry. Most commits have no waiter, so it is built only for the first
-- waiter that asks for the entry.
local function filled()
  local head = {'', fence, string.format('%.0f', made), ARGV[4], ARGV[5], #ARGV[7]}
  return table.concat(head, ' ') .. '\n' .. ARGV[7] .. ARGV[3]
end
-- A wake-up carries no frame over 16 KiB, and none after this commit has sent 1 MiB, because Redis
-- serves no other client meanwhile. Waiters without the frame look up the entry.
local bytes_left, entry = 1048576, nil
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    -- The field has the token of the waiting lookup, and the message repeats it. No other client
    -- knows the token, so the waiter can trust the message. An empty field asks for a plain
    -- wake-up.
    local waiter_token = redis.call('HGET', record, field)
    redis.call('HDEL', record, field)
    if waiter_token ~= '' and #ARGV[3] <= 16384 then entry = entry or filled() end
    local sends_entry = entry and waiter_token ~= '' and #entry <= bytes_left
    local message = sends_entry and '\0' .. waiter_token .. entry or ARGV[7]
    bytes_left = bytes_left - #message
    redis.pcall('PUBLISH', ARGV[8] .. string.sub(field, 3), message)
  end
end
return {'COMMITTED', now}
