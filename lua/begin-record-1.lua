-- Begins an attempt for an idempotency key, or returns why it cannot begin. This is one atomic
-- step, so only one of all callers begins. The record outlives its lease, so a later caller knows
-- of earlier attempts. If a field is malformed, or was written by another version, no attempt
-- begins.
--
-- KEYS 1 record
-- ARGV 1 token  2 exact fingerprint  3 canonical fingerprint  4 lease ms  5 retention ms
--      6 most attempts in a row whose lease ran out; then the key is uncertain
--      7 how long an uncertain record is kept, ms
--      8 process to wake when the running attempt ends ('': none)
-- Reply {status, now, ...}
--   BEGUN      then fence, number of this attempt, 1 if an earlier lease ran out (else 0),
--              then name and value of each stored step. A caller that repeats its token gets
--              this reply again.
--   MISMATCH   the key is in use for a request with other fingerprints
--   BUSY       then ms: another attempt runs, for that long at most
--   COMPLETED  then ms and frame: how long the record is still kept, and the response
--   UNCERTAIN  it is unknown whether the work of an attempt was done: its lease ran out, or its
--              handler said so

local record, token = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields = redis.call(
  'HMGET', record, 'v', 's', 'exact', 'canonical', 'token', 'until', 'fence', 'attempt', 'lost',
  'recovery', 'created'
)
-- A record without the field `v` is of another version.
local known, state = fields[1] or redis.call('EXISTS', record) == 1, fields[2]
local function number(i) -- nil if it is no whole number or too large to be exact
  local value = tonumber(string.match(fields[i] or '', '^%d+$') or '')
  return value and value < 9007199254740991 and value
end
local set -- the moment at which the lease was given
fields[6], set = string.match(fields[6] or '', '^(%d+) ?(%d*)$')
local lease_until, fence, attempt, lost = number(6), number(7), number(8), number(9)
local frame = state == 'completed' and redis.call('HGET', record, 'frame')
if known then
  local is_running = state == 'running' and fields[5] and lease_until
  local is_state = frame or is_running or state == 'released' or state == 'uncertain'
  if fields[1] ~= '1' or not (is_state and fence and attempt and lost) then
    return {'BUSY', now, 1000}
  end
  local function same(i, given) return given ~= '' and fields[i] == given end
  if not same(3, ARGV[2]) and not same(4, ARGV[3]) then return {'MISMATCH', now} end
end
if frame then return {'COMPLETED', now, math.max(0, redis.call('PTTL', record)), frame} end
if state == 'uncertain' then return {'UNCERTAIN', now} end

local function begun(text, count, recovery)
  local reply = {'BEGUN', now, text, count, recovery}
  local all = known and redis.call('HGETALL', record) or {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 's:' then
      reply[#reply + 1] = string.sub(all[i], 3)
      reply[#reply + 1] = all[i + 1]
    end
  end
  return reply
end

local recovery = fields[10] or 0
if state == 'running' then
  if now < (tonumber(set) or 0) then
    -- The clock was set back, so the rest of the lease is unknown. The lease starts again now. If
    -- it ended now, two attempts could run at once.
    lease_until = now + lease_until - set
    redis.pcall('HSET', record, 'until', string.format('%.0f %.0f', lease_until, now))
  end
  if now < lease_until then
    if fields[5] == token then return begun(fields[7], attempt, recovery) end
    -- On a full server, this write fails. Then the waiter tries again at the end of the lease.
    if ARGV[8] ~= '' then redis.pcall('HSET', record, 'w:' .. ARGV[8], 1) end
    return {'BUSY', now, lease_until - now}
  end
  lost, recovery = lost + 1, 1
  if lost >= tonumber(ARGV[6]) then
    -- The token stays, because its holder may still finish the attempt.
    redis.call('HSET', record, 's', 'uncertain', 'lost', lost, 'recovery', recovery)
    redis.call('PEXPIRE', record, ARGV[7])
    return {'UNCERTAIN', now}
  end
end

-- The first write needs memory. So a full server refuses it, and no attempt begins.
local text = string.format('%.0f', math.max((fence or 0) + 1, time[1] * 1000000 + time[2]))
attempt = (attempt or 0) + 1
redis.call(
  'HSET', record, 'v', 1, 's', 'running',
  'exact', fields[3] or ARGV[2], 'canonical', fields[4] or ARGV[3],
  'token', token, 'until', string.format('%.0f %.0f', now + ARGV[4], now),
  'fence', text, 'attempt', attempt, 'lost', lost or 0, 'recovery', recovery,
  'created', fields[11] or string.format('%.0f', now), 'ended', ''
)
local kept = redis.pcall('PEXPIRE', record, math.max(ARGV[5], ARGV[4]))
-- The user may not run PEXPIRE. Without a TTL, the record would live for ever.
if type(kept) ~= 'table' then return begun(text, attempt, recovery) end
return (known or redis.call('DEL', record)) and kept
