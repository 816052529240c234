-- Takes a lock, or returns how long the holder's lease still lasts. The caller may join the lock
-- queue in the same step, so no release can come in between. A caller never overtakes the queue.
--
-- KEYS 1 lock
-- ARGV 1 token  2 lease ms  3 process that joins the queue ('': do not join)
--      4 keep ms: how long a lock is remembered after its lease
-- Reply {status, now, fence, for ms [, token]}
--   GRANTED  the caller holds the lock for `for ms`, under `fence`
--   BUSY     another caller holds the lock, for `for ms` at most
--   OVERDUE  the holder's lease has run out and others are in the queue. The caller has to hand the
--            lock over (release-lock with this token and fence), then try again.

local lock, token, lease_ms, process = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields = redis.call('HMGET', lock, 'token', 'until', 'fence', 'head', 'tail', 'p:' .. process)
local lease_until, set = string.match(fields[2] or '', '^(%d+) ?(%d*)$')
lease_until, set = tonumber(lease_until or '') or 0, tonumber(set or '') or 0
local fence = fields[3] or ''
if fields[1] and now < set then
  -- The clock was set back, so the rest of the lease is unknown. The lease starts again now. If it
  -- ended now, the lock could have two holders. If it stayed unchanged, a dead holder would keep
  -- the lock for as long as the clock was set back.
  lease_until = now + lease_until - set
  redis.pcall('HSET', lock, 'until', string.format('%.0f %.0f', lease_until, now))
end
local head, tail = tonumber(fields[4] or '') or 0, tonumber(fields[5] or '') or 0
local held = fields[1] and now < lease_until
if held and fields[1] == token then return {'GRANTED', now, fence, lease_until - now} end

local keep, ttl = lease_ms + tonumber(ARGV[4]), redis.call('PTTL', lock)
local function keep_alive(reply)
  local kept = ttl < keep and redis.pcall('PEXPIRE', lock, keep)
  if type(kept) ~= 'table' then return reply end
  -- The user may not run PEXPIRE. Without a TTL, the lock would live for ever.
  return (ttl >= 0 or redis.call('DEL', lock)) and kept
end

if held or head < tail then
  if process ~= '' then
    -- Each process has one position in the queue (`place`). It keeps the position if it tries again
    -- with a new token.
    local place = fields[6] or tail
    local entry = token .. ' ' .. lease_ms .. ' ' .. process
    redis.call(
      'HSET', lock, 'q:' .. place, entry, 'p:' .. process, place,
      'tail', math.max(tail, place + 1), 'head', head
    )
  end
  if held then return keep_alive({'BUSY', now, fence, lease_until - now}) end
  return keep_alive({'OVERDUE', now, fence, 0, fields[1] or ''})
end

-- The first write needs memory. So a full server refuses this write, and grants no lock that it
-- could not renew. If a fence that another program wrote is too large to be exact, it is ignored.
local last = tonumber(fence) or 0
if not (last < 9007199254740991) then last = 0 end
fence = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
lease_until = string.format('%.0f %.0f', now + lease_ms, now)
redis.call('HSET', lock, 'token', token, 'until', lease_until, 'fence', fence)
return keep_alive({'GRANTED', now, fence, lease_ms})
