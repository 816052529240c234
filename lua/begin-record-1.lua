-- Begins an attempt at what an idempotency key stands for, or says why not: one atomic step, so that of all who
-- ask only one begins. The record is kept beyond its lease, so that whoever comes later knows what was tried.
-- What was planted there, or written by another version, never lets anybody begin.
--
-- KEYS 1 record
-- ARGV 1 token  2 exact fingerprint  3 canonical fingerprint  4 lease ms  5 retention ms
--      6 on a lease that is over (takeover | uncertain)  7 most attempts whose lease ran out
--      8 keep uncertain ms  9 process to wake ('': none)  10 not after (server ms, 0: any time)
-- Reply {status, now, ...}
--   BEGUN     fence, attempt, 1 if an earlier attempt's lease ran out, then name and value of each step kept
--   MISMATCH  the key is known with other fingerprints      BUSY  for ms at most
--   COMPLETED for ms more, frame                            UNCERTAIN nobody knows whether it was done
--   LATE      the caller gave up before this ran: nothing was done

local record, token = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[10])
if not_after > 0 and now > not_after then return {'LATE', now} end

local fields = redis.call('HMGET', record, 'v', 's', 'exact', 'canonical', 'token', 'until', 'fence', 'attempt',
  'lost', 'recovery', 'created')
local known, state = redis.call('EXISTS', record) == 1, fields[2]
local function number(i) -- as we write them: whole, and small enough to be counted on
  local value = tonumber(string.match(fields[i] or '', '^%d+$') or '')
  return value and value < 9007199254740991 and value
end
local lease_until, fence, attempt, lost = number(6), number(7), number(8), number(9)
local frame = state == 'completed' and redis.call('HGET', record, 'frame')
if known then
  local isState = frame or state == 'released' or state == 'uncertain' or (state == 'running' and fields[5] and lease_until)
  if fields[1] ~= '1' or not (isState and fence and attempt and lost) then return {'BUSY', now, 1000} end
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
  if now < lease_until then
    if fields[5] == token then return begun(fields[7], attempt, recovery) end
    -- Without memory for it, nobody is woken: they look again by themselves.
    if ARGV[9] ~= '' then redis.pcall('HSET', record, 'w:' .. ARGV[9], 1) end
    return {'BUSY', now, lease_until - now}
  end
  lost, recovery = lost + 1, 1
  if ARGV[6] ~= 'takeover' or lost >= tonumber(ARGV[7]) then
    -- The token stays: its holder may come back and tell how it ended.
    redis.call('HSET', record, 's', 'uncertain', 'lost', lost, 'recovery', recovery)
    redis.call('PEXPIRE', record, ARGV[8])
    return {'UNCERTAIN', now}
  end
end

-- A write that needs memory comes first: a server that is full refuses, before anybody has begun.
local text = string.format('%.0f', math.max((fence or 0) + 1, time[1] * 1000000 + time[2]))
attempt = (attempt or 0) + 1
redis.call('HSET', record, 'v', 1, 's', 'running', 'exact', fields[3] or ARGV[2], 'canonical', fields[4] or ARGV[3],
  'token', token, 'until', string.format('%.0f', now + ARGV[4]), 'fence', text, 'attempt', attempt,
  'lost', lost or 0, 'recovery', recovery, 'created', fields[11] or string.format('%.0f', now), 'ended', '')
redis.call('PEXPIRE', record, math.max(ARGV[5], ARGV[4]))
return begun(text, attempt, recovery)
