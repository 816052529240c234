-- Writes the entry, ends the lease and wakes those who wait: one atomic step. Accepted from the newest
-- grant only: a later grant or a purge has raised the fence, or the record is gone.
--
-- KEYS 1 record  2 record of its group, or the same
-- ARGV 1 token  2 fence  3 frame  4 fresh ms  5 stale-while-revalidate ms  6 stale-if-error ms
--      7 keep ms (to be compared)  8 physical ms  9 key  10 wake-up channel prefix
--      11 longest frame that those who wait are given with the word that wakes them  12 bytes for all of them; the rest ask
-- Reply COMMITTED | FENCED

local record, token, fence = KEYS[1], ARGV[1], ARGV[2]
local group = KEYS[2]
local fields = redis.call('HMGET', record, 'fence', 'token', 'life')
if fields[1] ~= fence then return 'FENCED' end
if group ~= record then
  local stamps = redis.call('HMGET', group, 'purged', 'softened')
  local stamp = math.max(tonumber(stamps[1] or '') or 0, tonumber(stamps[2] or '') or 0)
  if tonumber(fence) <= stamp then return 'FENCED' end
end
if fields[2] ~= token then
  -- Ended already: by this very commit, whose reply was lost, or by the holder's own failure.
  return string.match(fields[3] or '', '^%d+') == fence and 'COMMITTED' or 'FENCED'
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', record, 'frame', ARGV[3], 'life',
  string.format('%s %s %.0f %.0f %.0f %.0f %.0f', fence, fence, now, now + ARGV[4], ARGV[5], ARGV[6], ARGV[7]))
redis.call('HDEL', record, 'token', 'until', 'pass', 'retry', 'failure', 'patch')
redis.call('PEXPIRE', record, ARGV[8])
if group ~= record then -- the stamp of a purge has to outlive what it is about
  redis.call('HSET', group, 'variants', 1)
  if redis.call('PTTL', group) < tonumber(ARGV[8]) then redis.call('PEXPIRE', group, ARGV[8]) end
end

local head = {'', fence, string.format('%.0f', now), ARGV[4], ARGV[5], ARGV[6], ARGV[7], #ARGV[9]}
local left = tonumber(ARGV[12])
local made = #ARGV[3] <= tonumber(ARGV[11]) and table.concat(head, ' ') .. '\n' .. ARGV[9] .. ARGV[3]
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 'w:' then
    -- With it goes by what name they asked, so that nobody else can tell them what was made. None: only woken.
    local name = redis.call('HGET', record, field)
    redis.call('HDEL', record, field)
    local word = made and name ~= '' and #made <= left and '\0' .. name .. made or ARGV[9]
    left = left - #word
    redis.pcall('PUBLISH', ARGV[10] .. string.sub(field, 3), word)
  end
end
return 'COMMITTED'
