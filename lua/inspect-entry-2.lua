-- Reads the record of a cache key for an operator, as lookup-or-lease would read it. Writes
-- nothing.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV none
-- Reply {status, fence, bytes, deleted in ms, lease ms, waiters, pass ms, retry ms, failure,
--        variants (0 or 1), age ms, fresh for ms, stale-while-revalidate ms, stale-if-error ms,
--        keep ms, frame};
--        without an entry nothing follows `variants`
--   FOUND   the record. `retry ms` is the rest of the back-off after a failure. `variants` is 1 for
--           the record of a vary group.
--   ABSENT  there is no record, or it is a variant of an earlier life of its group; nothing follows

local record, group = KEYS[1], KEYS[2] or KEYS[1]
if redis.call('TYPE', record).ok ~= 'hash' then return {'ABSENT'} end
local fields, bytes, waiters = {}, #record, 0
local all = redis.call('HGETALL', record)
for i = 1, #all, 2 do
  fields[all[i]] = all[i + 1]
  bytes = bytes + #all[i] + #all[i + 1]
  if string.sub(all[i], 1, 2) == 'w:' then waiters = waiters + 1 end
end

local is_group = group ~= record and redis.call('TYPE', group).ok == 'hash'
local variants = is_group and redis.call('HGET', group, 'variants')
local is_current = group == record or variants and variants == fields.group
local id, softened_at = string.match(variants or '', '^(.+) (%d+)$')
if not is_current and string.match(fields.group or '', '^(.+) %d+$') ~= (id or 0) then
  return {'ABSENT'}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A moment, and when it was set. If the clock is before that, the clock was set back, and the
-- moment counts as over.
local function left(at, set)
  if now < (tonumber(set) or 0) then return 0 end
  return math.min(math.max((tonumber(at) or 0) - now, 0), 864e5)
end
local fence, lease_end, lease_set =
  string.match(fields.lease or '', '^(%d+) ?(%d*) ?(%d*)')
local pass, pass_set, retry, retry_set, failure =
  string.match(fields.last or '', '^(%d+) (%d+) (%d+) (%d+) (.*)$')
local reply = {
  'FOUND', fence or '', bytes, math.max(0, redis.call('PTTL', record)),
  is_current and left(lease_end, lease_set) or 0, waiters,
  left(pass, pass_set), left(retry, retry_set), failure or '', fields.variants and 1 or 0,
}

local made, fresh, swr, sie, keep =
  string.match(fields.life or '', '^%d+ (%d+) (%d+) (%d+) (%d+) (%d+)$')
if not made then return reply end
made, fresh, swr = tonumber(made), tonumber(fresh), tonumber(swr)
sie, keep = tonumber(sie), tonumber(keep)
if not is_current then fresh = math.min(fresh, tonumber(softened_at)) end
if now < made or now >= fresh + math.max(swr, sie, keep) then return reply end
for _, value in ipairs({now - made, fresh - now, swr, sie, keep, fields.frame or ''}) do
  reply[#reply + 1] = value
end
return reply
