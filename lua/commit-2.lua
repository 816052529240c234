-- Stores the entry, ends the lease and wakes the waiters, in one atomic step. Only the newest grant
-- may commit: after a newer grant or a purge, the record has a higher fence or is gone. A variant
-- may be committed only if `variants` of its vary group equals `group` in its own record. Each
-- purge changes `variants`. If the group's record is missing, a purge may be lost with it.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV 1 fence, deadline of the caller in server ms (0: none; after it the script does nothing), ms
--        since the times began to count (the wait before the command was sent), physical TTL ms,
--        fresh ms, three durations as the end of `life` (stale-while-revalidate ms, stale-if-error
--        ms, keep ms: how long a stale entry is kept for revalidation), token
--      2 frame  3 key  4 prefix of wake-up channels
-- Reply {status, server ms}
--   COMMITTED  stored, now or by an earlier call whose reply was lost
--   FENCED     refused: a newer grant or a purge came first, or the lease was ended. Nothing was
--              done.
--   LATE       the deadline had passed: nothing was done, because the entry has aged meanwhile

local record, group, frame, key = KEYS[1], KEYS[2] or KEYS[1], ARGV[2], ARGV[3]
local fence, not_after, waited_ms, ttl_ms, fresh_ms, windows, token =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+ %S+ %S+) (.*)$')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = redis.call('HMGET', record, 'lease', 'life', 'group', 'variants', 'waiting', 'last')
local newest, holder = string.match(fields[1] or '', '^(%d+) ?%d* ?%d* ?(.*)$')
if newest ~= fence then return {'FENCED', now} end
local variants = group ~= record and redis.call('HGET', group, 'variants')
if group ~= record and not (variants and variants == fields[3]) then return {'FENCED', now} end
if holder ~= token then
  -- The lease is over. Either an earlier call made this commit and its reply was lost, or the
  -- holder ended the lease.
  return {string.match(fields[2] or '', '^%d+') == fence and 'COMMITTED' or 'FENCED', now}
end
if tonumber(not_after) > 0 and now > tonumber(not_after) then return {'LATE', now} end

local made = now - waited_ms
local life = fence .. ' ' .. made .. ' ' .. made + fresh_ms .. ' ' .. windows
redis.call('HSET', record, 'frame', frame, 'life', life, 'lease', fence)
if fields[6] then redis.call('HDEL', record, 'last') end
-- The record of a vary group must outlive its variants, so its TTL is never shortened.
local function lengthen(name)
  if redis.call('PTTL', name) < tonumber(ttl_ms) then redis.call('PEXPIRE', name, ttl_ms) end
end
if fields[4] then lengthen(record) else redis.call('PEXPIRE', record, ttl_ms) end
if group ~= record then lengthen(group) end
if not fields[5] then return {'COMMITTED', now} end

-- The message with the entry. A wake-up carries no frame over 16 KiB, and none after this commit
-- has sent 1 MiB, because Redis serves no other client meanwhile. Waiters without the frame look up
-- the entry.
local head = {'', fence, string.format('%.0f', made), fresh_ms, windows, #key}
local filled = #frame <= 16384 and table.concat(head, ' ') .. '\n' .. key .. frame
local bytes_left = 1048576
redis.call('HDEL', record, 'waiting')
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    -- The field has the token of the waiting lookup, and the message repeats it. No other client
    -- knows the token, so the waiter can trust the message. An empty field asks for a plain
    -- wake-up.
    local asked = redis.call('HGET', record, field)
    redis.call('HDEL', record, field)
    local sends_entry = filled and asked ~= '' and #filled <= bytes_left
    local message = sends_entry and '\0' .. asked .. filled or key
    bytes_left = bytes_left - #message
    redis.pcall('PUBLISH', ARGV[4] .. string.sub(field, 3), message)
  end
end
return {'COMMITTED', now}
