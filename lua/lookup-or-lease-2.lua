-- Reads the entry and, if it needs filling and nobody is at it, takes the lease: one atomic step, so
-- there is no moment in which two processes both think that they were first.
--
-- KEYS 1 record  2 record of the group: of the same key, or of that which it is a variant of
-- ARGV 1 token  2 lease ms (0: only read)  3 process to wake  4 fence of a copy the caller has
--      5 fence of a frame the caller cannot read  6 not after (server ms, 0: any time)  7 key  8 keep ms
-- Reply {status, now, grant fence, for ms [, stored fence, age ms, fresh for ms, swr ms, sie ms, failure, frame]}
--   FRESH  use it                             STALE   in its window; with a grant: refresh it
--   LEASED fill it                            BUSY    another fills; this process will be woken
--   PASS   not shareable for that long        FAILED  the last fill failed; no attempt for that long
--   LATE   the caller gave up before this ran: nothing was done

local record, group, token, lease_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[6])
if not_after > 0 and now > not_after then return {'LATE', now} end

local read = {'HMGET', record, 'stored', 'made', 'fresh', 'swr', 'sie', 'token', 'until', 'fence', 'pass', 'retry', 'failure'}
local fields = redis.pcall(unpack(read))
if fields.err then -- not a hash: not ours, and in our way
  redis.call('DEL', record)
  fields = redis.call(unpack(read))
end

-- A purge of the group leaves a stamp there: what has an older fence is gone (hard), or stale (soft).
local stamps = group ~= record and redis.call('HMGET', group, 'purged', 'softened', 'softened_at') or {}
local purged, softened = tonumber(stamps[1] or '') or 0, tonumber(stamps[2] or '') or 0
local newest = tonumber(fields[8] or '') or 0
if not (newest < 9007199254740991) then newest = 0 end
if newest > 0 and newest <= purged then
  redis.call('DEL', record)
  fields = {}
end
local stored, failure = fields[1], fields[11] or ''
-- Whatever was planted there: no mark or lease of ours reaches further than a day.
local function ms(i) return math.min(tonumber(fields[i] or '') or 0, now + (i > 5 and 86400000 or 1e13)) end
if stored and (tonumber(stored) or 0) <= purged then stored = false end
if stored and stored == ARGV[5] then
  redis.call('HDEL', record, 'frame', 'stored')
  stored = false
end
local made, fresh, swr, sie = ms(2), ms(3), ms(4), ms(5)
if stored and (tonumber(stored) or 0) <= softened then fresh = math.min(fresh, tonumber(stamps[3]) or 0) end

local function reply(status, grant, for_ms)
  if not stored or now >= fresh + math.max(swr, sie) then
    return {status, now, grant, for_ms, '', 0, 0, 0, 0, failure, ''}
  end
  local frame = ''
  if stored ~= ARGV[4] then frame = redis.call('HGET', record, 'frame') or '' end
  return {status, now, grant, for_ms, stored, now - made, fresh - now, swr, sie, failure, frame}
end

if stored and now < fresh then return reply('FRESH', '', 0) end
if now < ms(9) then return {'PASS', now, '', ms(9) - now} end
if now < ms(10) then return reply('FAILED', '', ms(10) - now) end

local usable = stored and now < fresh + swr
local held = fields[6] and now < ms(7) and newest > softened
if lease_ms == 0 then return usable and reply('STALE', '', 0) or {'BUSY', now, '', 0} end
if held and fields[6] ~= token then
  redis.call('HSET', record, 'w:' .. ARGV[3], 1)
  if usable then return reply('STALE', '', ms(7) - now) end
  return {'BUSY', now, '', ms(7) - now}
end

local fence = fields[8]
if not held then -- else: our own lease, asked for twice
  fence = string.format('%.0f', math.max(newest + 1, purged + 1, softened + 1, time[1] * 1000000 + time[2]))
  redis.call('HSET', record, 'token', token, 'until', string.format('%.0f', now + lease_ms), 'fence', fence)
  redis.call('HDEL', record, 'pass', 'retry', 'failure')
  local keep = lease_ms + tonumber(ARGV[8])
  if redis.call('PTTL', record) < keep then redis.call('PEXPIRE', record, keep) end
  if group ~= record then -- so that a purge finds that there is something to stamp
    redis.call('HSET', group, 'variants', 1)
    if redis.call('PTTL', group) < keep then redis.call('PEXPIRE', group, keep) end
  end
end
return reply(usable and 'STALE' or 'LEASED', fence, 0)
