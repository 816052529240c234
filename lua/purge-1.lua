-- Removes the entry, or makes it stale (soft), and voids every fill in flight: of this key, and by a stamp of all
-- its variants. Waiters are woken to look again. The other processes are told by append-purge, after this: who hears of
-- it finds nothing old here.
--
-- KEYS 1 record, of a group if it has variants
-- ARGV 1 soft (1 or 0)  2 key  3 wake-up channel prefix
-- Reply PURGED | UNSTAMPED (no memory for the stamp: variants are as they were)

local record, soft = KEYS[1], ARGV[1] == '1'
local isHash = redis.call('TYPE', record).ok == 'hash'
local names = isHash and redis.call('HKEYS', record) or {}
local hasVariants = isHash and redis.call('HEXISTS', record, 'variants') == 1
local ttl = redis.call('PTTL', record)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = isHash and redis.call('HMGET', record, 'fence', 'purged', 'softened', 'life') or {}
local function number(i) return tonumber(fields[i] or '') or 0 end
local stamp = string.format('%.0f',
  math.max(number(1) + 1, number(2) + 1, number(3) + 1, time[1] * 1000000 + time[2]))

local written
if soft and (fields[1] or hasVariants) then -- also a key that is only being filled
  local before, fresh, after = string.match(fields[4] or '', '^(%d+ %d+ %d+ )(%d+)(.*)$')
  local life = before and {'life', before .. string.format('%.0f', math.min(tonumber(fresh), now)) .. after} or {}
  written = redis.pcall('HSET', record, 'fence', stamp, 'softened', stamp, 'softened_at', string.format('%.0f', now),
    unpack(life))
  redis.call('HDEL', record, 'token', 'until', 'retry', 'failure')
elseif not soft then
  redis.call('DEL', record) -- a commit that finds no record is refused, and no memory is needed
  if hasVariants then
    written = redis.pcall('HSET', record, 'purged', stamp, 'fence', stamp, 'variants', 1)
    if ttl > 0 then redis.call('PEXPIRE', record, ttl) end
  end
end
if type(written) == 'table' and written.err then return 'UNSTAMPED' end

for _, field in ipairs(names) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[3] .. string.sub(field, 3), ARGV[2])
  end
end
return 'PURGED'
