-- Purges a key: deletes its entry, or makes it stale (soft). Every fill in flight is refused from
-- now on. The variants of the key are purged by a stamp in this record, above all of their fences
-- (`top`). A record that knows of no variants needs no stamp: without it, variants are void anyway.
-- Waiters are woken and look again. append-purge runs after this script and tells the other
-- processes. So a process that hears of the purge finds no old entry here.
--
-- KEYS 1 record (of the group, if the key has variants)
-- ARGV 1 soft (1: make stale, 0: delete)  2 key  3 prefix of wake-up channels
-- Reply PURGED | UNSTAMPED (soft purge on a full server: there was no memory for the stamp, and
--   nothing was changed)

local record, soft = KEYS[1], ARGV[1] == '1'
local isHash = redis.call('TYPE', record).ok == 'hash'
local names = isHash and redis.call('HKEYS', record) or {}
local ttl = redis.call('PTTL', record)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = isHash and redis.call('HMGET', record, 'fence', 'variants', 'softened', 'top', 'life') or {}
local function number(i)
  local read = tonumber(fields[i] or '') or 0
  return read < 9007199254740991 and read or 0
end
local hasVariants = fields[2]
local stamp = string.format('%.0f',
  math.max(number(1) + 1, number(2) + 1, number(3) + 1, number(4) + 1, time[1] * 1000000 + time[2]))

local written
if soft and (fields[1] or hasVariants) then -- a key that is being filled has a fence, but no entry
  local before, fresh, after = string.match(fields[5] or '', '^(%d+ %d+ %d+ )(%d+)(.*)$')
  local life = before and {'life', before .. string.format('%.0f', math.min(tonumber(fresh), now)) .. after} or {}
  written = redis.pcall('HSET', record, 'fence', stamp, 'softened', stamp, 'softened_at', string.format('%.0f', now),
    unpack(life))
  redis.call('HDEL', record, 'token', 'until', 'retry', 'failure')
elseif not soft then
  redis.call('DEL', record) -- needs no memory, and a commit that finds no record is refused
  if hasVariants then
    redis.pcall('HSET', record, 'variants', stamp, 'fence', stamp)
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
