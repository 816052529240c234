-- Reads the state of an idempotency key, for an operator. Writes nothing.
--
-- KEYS 1 record
-- ARGV 1 with the frame (1) or without it (0)
-- Reply {state, attempt, fence, lease for ms, age ms, keep for ms, frame, name of each step}
--   running    an attempt holds the lease, for `lease for ms`
--   lapsed     the lease of the last attempt has run out
--   completed  the work was done; `frame` is the response
--   released   the work was not done, and a new attempt may begin
--   uncertain  it is unknown whether the work was done
--   ABSENT     there is no record; nothing follows
--   UNKNOWN    the record is malformed or of another version; nothing follows

local record = KEYS[1]
local names = {'v', 's', 'attempt', 'fence', 'until', 'created'}
local fields = redis.call('HMGET', record, unpack(names))
if redis.call('EXISTS', record) == 0 then return {'ABSENT'} end
local state = fields[2]
local is_open = state == 'running' or state == 'uncertain'
local is_state = is_open or state == 'completed' or state == 'released'
local attempt = string.match(fields[3] or '', '^%d+$')
local fence = string.match(fields[4] or '', '^%d+$')
if fields[1] ~= '1' or not (is_state and attempt and fence) then return {'UNKNOWN'} end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(i, otherwise)
  return tonumber(string.match(fields[i] or '', '^%d+$') or '') or otherwise
end
-- If the end of a lease is malformed, the record never lapses: begin-record begins no attempt, and
-- an operator needs `force` to settle the key.
local set
fields[5], set = string.match(fields[5] or '', '^(%d+) ?(%d*)$')
-- If the clock was set back, a full lease is left.
local from = math.max(now, tonumber(set or '') or 0)
local lease_ms = state == 'running' and math.min(math.max(number(5, 1 / 0) - from, 0), 1e13) or 0
if state == 'running' and lease_ms == 0 then state = 'lapsed' end
-- Only on demand, because a list would copy the frames of hundreds of records into this engine.
local frame = state == 'completed' and ARGV[1] == '1' and redis.call('HGET', record, 'frame') or ''
local age_ms = math.max(now - math.min(number(6, 0), now), 0)
local kept_ms = math.max(0, redis.call('PTTL', record))
local reply = {state, attempt, fence, lease_ms, age_ms, kept_ms, frame}
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 's:' then reply[#reply + 1] = string.sub(field, 3) end
end
return reply
