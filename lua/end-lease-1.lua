-- Ends a lease without an entry and wakes the waiters. The run ended in one of three ways:
--   not shareable (pass ms > 0): the entry is dropped, and for pass ms no request waits
--     for another request. `last` keeps the end of that time until a commit or a soft purge.
--     With ARGV 8 = 2, the first in a row keeps the entry, for errors and revalidation only.
--     With ARGV 8 = 3, the value was not to be stored, and the entry stays
--   failed (back-off ms > 0): if there were waiters, the failure is shared for the back-off
--   no result (both 0): as if the lease had never been given
-- The script frees memory before it uses any, so it also works on a full server.
--
-- KEYS 1 record
-- ARGV 1 token  2 fence ('*': any; the token alone decides)  3 pass ms  4 back-off ms
--      5 failure (JSON)  6 key  7 prefix of wake-up channels
--      8 1: with a back-off, requests in the holder's own process waited. With pass ms (1 or 2),
--        the holder knows of no earlier response that was not shareable. One request may be the
--        reason for one such response, so the first in a row sets no time
-- Reply ENDED
--   FIRST   with ARGV 8: not shareable, the first in a row
--   FENCED  the caller no longer had the lease, and nothing was done

local record, pass_ms, backoff_ms = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local fields = redis.call('HMGET', record, 'lease', 'waiting', 'last', 'life')
local fence, holder = string.match(fields[1] or '', '^(%d+) ?%d* ?%d* ?(.*)$')
if ARGV[2] ~= '*' and fence ~= ARGV[2] or holder ~= ARGV[1] then return 'FENCED' end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The end of hit-for-miss stays: a failed run does not show whether responses can be shared now.
local pass, retry = string.match(fields[3] or '', '^%d+ %d+ ') or '0 0 ', '0 0 '
local may_be_first = ARGV[8] == '1' or ARGV[8] == '2'
local is_first = pass_ms > 0 and may_be_first and pass == '0 0 '
local set = {'lease', fence}
local entry, fresh, swr, sie, keep_ms =
  string.match(fields[4] or '', '^(%d+ %d+ )(%d+) (%d+) (%d+) (%d+)$')
if pass_ms > 0 then
  if is_first and ARGV[8] == '2' and entry then
    local errors_ms = math.max(tonumber(swr), tonumber(sie))
    local times = table.concat({math.min(tonumber(fresh), now), 0, errors_ms, keep_ms}, ' ')
    set[3], set[4] = 'life', entry .. times
  elseif ARGV[8] ~= '3' then
    redis.call('HDEL', record, 'life', 'frame')
  end
  pass = table.concat({is_first and now or now + pass_ms, now, ''}, ' ')
elseif backoff_ms > 0 and (fields[2] or ARGV[8] == '1') then
  retry = table.concat({now + backoff_ms, now, ARGV[5]}, ' ')
end
redis.call('HDEL', record, 'waiting')
set[#set + 1], set[#set + 2] = 'last', pass .. retry
redis.call('HSET', record, unpack(set))
local keep = math.max(pass_ms, backoff_ms) + 1000
if redis.call('PTTL', record) < keep then redis.call('PEXPIRE', record, keep) end
local reply = is_first and 'FIRST' or 'ENDED'
if not fields[2] then return reply end

for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[7] .. string.sub(field, 3), ARGV[6])
  end
end
return reply
