-- Purges a key: deletes its record, or makes the entry stale (soft). Commits of running fills are
-- refused from now on. A variant is valid only while this record has the same `variants` as when
-- the variant was leased. A hard purge deletes `variants`, and the next lease of a variant gives
-- the vary group a new ID. A soft purge changes the moment in `variants`. Waiters are woken and
-- look up again. append-purge runs after this script and publishes the purge. So a process that
-- gets the message finds no old entry here.
--
-- KEYS 1 record of the key, which is also the record of its vary group
-- ARGV 1 soft (1: make stale, 0: delete)  2 key  3 prefix of wake-up channels
-- Reply PURGED | UNSTAMPED (soft purge on a full server: there was no memory for a new fence. The
--   entry stays fresh; only the lease has ended, so running fills are refused.)

local record, soft = KEYS[1], ARGV[1] == '1'
local isHash = redis.call('TYPE', record).ok == 'hash'
local names = isHash and redis.call('HKEYS', record) or {}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = isHash and redis.call('HMGET', record, 'fence', 'variants', 'life') or {}

local written
if soft and (fields[1] or fields[2]) then -- a key that is being filled has a fence, but no entry
  -- `% 9e15` reduces a number that another program wrote and that is too large.
  local newest = tonumber(string.match(fields[1] or '', '^%d+$') or 0) % 9e15
  local stamp = string.format('%.0f', math.max(time[1] * 1000000 + time[2], newest + 1))
  local before, fresh, after = string.match(fields[3] or '', '^(%d+ %d+ )(%d+)(.*)$')
  local set = before and {'life', before .. string.format('%.0f', math.min(tonumber(fresh), now)) .. after} or {}
  if fields[2] then
    -- The moment rises with each soft purge, even within one millisecond or if the clock was set
    -- back. So no two soft purges with the same ID leave the same `variants`.
    local group_id, softened_at = string.match(fields[2], '^(.+) (%d+)$')
    table.insert(set, 'variants')
    table.insert(set, string.format('%s %.0f', group_id or fields[2], math.max(now, (softened_at or 0) % 1e15 + 1)))
  end
  written = redis.pcall('HSET', record, 'fence', stamp, unpack(set))
  redis.call('HDEL', record, 'token', 'until', 'retry', 'failure')
elseif not soft then
  redis.call('DEL', record) -- needs no memory, and a commit that finds no record is refused
end

for _, field in ipairs(names) do
  if string.sub(field, 1, 2) == 'w:' then
    redis.call('HDEL', record, field)
    redis.pcall('PUBLISH', ARGV[3] .. string.sub(field, 3), ARGV[2])
  end
end
return type(written) == 'table' and written.err and 'UNSTAMPED' or 'PURGED'
