-- Purges a key: deletes its record, or makes the entry stale (soft). Commits of running fills are
-- refused from now on. A variant is valid only while this record has the same `variants` as when
-- the variant was leased. A hard purge deletes `variants`, and the next lease of a variant gives
-- the vary group a new ID. A soft purge changes the moment in `variants`. Waiters are woken and
-- look up again. append-purge runs after this script and publishes the purge. So a process that
-- gets the message finds no old entry here.
--
-- KEYS 1 record of the key, which is also the record of its vary group
-- ARGV 1 soft (1: make stale, 0: delete)  2 key  3 prefix of wake-up channels
-- Reply PURGED

local record, soft = KEYS[1], ARGV[1] == '1'
local is_hash = redis.call('TYPE', record).ok == 'hash'
local names = is_hash and redis.call('HKEYS', record) or {}
if not soft then
  redis.call('DEL', record) -- a commit that finds no record is refused
elseif is_hash then
  local fields = redis.call('HMGET', record, 'lease', 'variants', 'life')
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  -- HDEL needs no memory. A script that begins with such a write also works on a full server.
  redis.call('HDEL', record, 'last', 'waiting')
  -- `% 9e15` reduces a number that another program wrote and that is too large.
  local newest = (string.match(fields[1] or '', '^%d+') or 0) % 9e15
  local fence = math.max(time[1] * 1000000 + time[2], newest + 1)
  redis.call('HSET', record, 'lease', string.format('%.0f', fence))
  local before, fresh, after = string.match(fields[3] or '', '^(%d+ %d+ )(%d+)(.*)$')
  if before then
    redis.call('HSET', record, 'life', before .. math.min(tonumber(fresh), now) .. after)
  end
  if fields[2] then
    -- The moment rises with each soft purge, even within one millisecond or if the clock was set
    -- back. So no two soft purges with the same ID leave the same `variants`.
    local id, softened_at = string.match(fields[2], '^(.+) (%d+)$')
    local moment = math.max(now, (softened_at or 0) % 1e15 + 1)
    redis.call('HSET', record, 'variants', string.format('%s %.0f', id or fields[2], moment))
  end
end

for _, field in ipairs(names) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[3] .. string.sub(field, 3), ARGV[2])
  end
end
return 'PURGED'
