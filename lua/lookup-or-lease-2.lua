-- Reads the entry and, if it needs filling and nobody is at it, takes the lease: one atomic step, so
-- there is no moment in which two processes both think that they were first.
--
-- KEYS 1 record  2 record of the group: of the same key, or of that which it is a variant of
-- ARGV 1 token  2 lease ms (0: only read)  3 process to wake  4 fence of a copy the caller has
--      5 fence of an entry the caller must not use  6 softly (1: make it stale; 0: drop it)
--      7 early (1: lease it although it is fresh)  8 not after (server ms, 0: any time)  9 keep ms
--      10 told (1: who has to wait is to be woken with what was made)
-- Reply {status, now, grant fence, for ms, fence, age ms, fresh for ms, swr ms, sie ms, keep ms, failure, frame, patch}
--   frame and patch are nil where the caller has them; LATE comes without all that follows `now`
--   FRESH  use it; with a grant: refresh it early   STALE   in its window; with a grant: refresh it
--   LEASED fill it                                  BUSY    another fills, under the fence that follows; this process will be woken
--   PASS   not shareable for that long              FAILED  the last fill failed; no attempt for that long
--   LATE   the caller gave up before this ran: nothing was done

local record, group, token, lease_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[8])
if not_after > 0 and now > not_after then return {'LATE', now} end

local read = {'HMGET', record, 'life', 'token', 'until', 'fence', 'pass', 'retry', 'failure'}
local fields = redis.pcall(unpack(read))
-- What is no hash is not ours, and in our way. Any other error is the caller's: it may not read what others may.
local is_foreign = string.find(fields.err or '', 'WRONGTYPE', 1, true)
if is_foreign then fields = redis.call('DEL', record) and redis.call(unpack(read)) elseif fields.err then return fields end

-- A purge of the group leaves a stamp there: what has an older fence is gone (hard), or stale (soft).
local stamps = group ~= record and redis.call('HMGET', group, 'purged', 'softened', 'softened_at') or {}
local purged, softened = tonumber(stamps[1] or '') or 0, tonumber(stamps[2] or '') or 0
local newest = tonumber(fields[4] or '') or 0
if not (newest < 9007199254740991) then newest = 0 end
if newest > 0 and newest <= purged then fields = redis.call('DEL', record) and {} end
-- Whatever was planted there: no mark or lease of ours reaches further than a day.
local function ms(text, ahead) return math.min(tonumber(text or '') or 0, now + ahead) end
local lease_until, pass, retry, failure = ms(fields[3], 864e5), ms(fields[5], 864e5), ms(fields[6], 864e5), fields[7] or ''
-- The fence it was stored with, that which it has since its last extension, two moments and three durations.
local stored, entry, made, fresh, swr, sie, keep = string.match(fields[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
made, fresh, swr, sie, keep = ms(made, 1e13), ms(fresh, 1e13), ms(swr, 1e13), ms(sie, 1e13), ms(keep, 1e13)
if stored and tonumber(stored) <= purged then stored, entry = nil, nil end
if entry and tonumber(entry) <= softened then fresh = math.min(fresh, tonumber(stamps[3]) or 0) end
if entry and entry == ARGV[5] and ARGV[6] ~= '1' then
  redis.call('HDEL', record, 'life', 'frame', 'patch')
  entry = nil
elseif entry and entry == ARGV[5] and now < fresh then
  fresh = now
  local life = string.format('%s %s %.0f %.0f %.0f %.0f %.0f', stored, entry, made, fresh, swr, sie, keep)
  redis.pcall('HSET', record, 'life', life) -- without memory, the next one does it
end

local function reply(status, grant, for_ms)
  if not entry or now >= fresh + math.max(swr, sie, status == 'LEASED' and keep or 0) then
    return {status, now, grant, for_ms, '', 0, 0, 0, 0, 0, failure, false, false}
  end
  local frame = ARGV[4] ~= stored and ARGV[4] ~= entry and (redis.call('HGET', record, 'frame') or '')
  local patch = entry ~= stored and ARGV[4] ~= entry and (redis.call('HGET', record, 'patch') or '')
  return {status, now, grant, for_ms, entry, now - made, fresh - now, swr, sie, keep, failure, frame, patch}
end

local held = fields[2] and now < lease_until and newest > softened
local busy, is_fresh = held and fields[2] ~= token, entry and now < fresh
if is_fresh and (ARGV[7] ~= '1' or lease_ms == 0 or busy or now < retry) then return reply('FRESH', '', 0) end
if now < pass then return {'PASS', now, '', pass - now} end
if now < retry and failure ~= '' then return reply('FAILED', '', retry - now) end

local usable = entry and now < fresh + swr
if lease_ms == 0 then return usable and reply('STALE', '', 0) or {'BUSY', now, '', 0} end
if busy then
  -- Whoever has an answer is not told what was made.
  redis.call('HSET', record, 'w:' .. ARGV[3], not usable and ARGV[10] == '1' and token or '')
  return usable and reply('STALE', '', lease_until - now) or {'BUSY', now, '', lease_until - now, fields[4]}
end

local fence = fields[4]
if not held then -- else: our own lease, asked for twice
  fence = string.format('%.0f', math.max(newest + 1, purged + 1, softened + 1, time[1] * 1000000 + time[2]))
  local lease_until = string.format('%.0f', now + lease_ms)
  local set = redis.pcall('HSET', record, 'token', token, 'until', lease_until, 'fence', fence)
  if type(set) == 'table' then return is_fresh and reply('FRESH', '', 0) or set end
  redis.call('HDEL', record, 'pass', 'retry', 'failure')
  -- So that a purge finds that there is something to stamp.
  if group ~= record then redis.call('HSET', group, 'variants', 1) end
  for _, key in ipairs(group ~= record and {record, group} or {record}) do
    if redis.call('PTTL', key) < lease_ms + ARGV[9] then redis.call('PEXPIRE', key, lease_ms + ARGV[9]) end
  end
end
return reply(is_fresh and 'FRESH' or usable and 'STALE' or 'LEASED', fence, 0)
