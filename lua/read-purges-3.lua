-- Reads the purges since a position. If the log follows on that position, the reply is the events
-- of the log; else it is the newest purge of each subject. A history that is lost starts again. One
-- that is behind its reader, or forked from what the reader knows, lacks purges: everything made
-- before is void.
-- The script begins with a write that changes nothing. A server that may not write refuses it, and
-- so cannot confirm that no purge was missed.
--
-- KEYS 1 meta (hash: last, floor, marks)  2 log (stream)  3 marks (sorted set by position)
-- ARGV 1 newest position that the caller knows (0: none)  2 run_id of the server that told it
--      3 most events in one reply  4 most bytes of their names, unless the first alone is longer
-- Reply {status, now, last, floor, run_id, then position and event in turn}, numbers as text
--   last    newest position. With PART and MORE: of this reply, ask again from there.
--   floor   what was made before this position may have been purged
--   LOG     every purge since ARGV 1, complete
--   PART    the first of them
--   MARKS   every mark since ARGV 1, an event without its leading `m`. Purges of keys may be
--           missing.
--   MORE    the first of these

local meta, log, marks = KEYS[1], KEYS[2], KEYS[3]
redis.call('PERSIST', meta)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- '' where the user may not call INFO
local run = string.match(tostring(redis.pcall('INFO', 'server')), 'run_id:(%w+)') or ''
local function text(number) return string.format('%.0f', number) end
local function number(value)
  local read = tonumber(string.match(value or '', '^%d+$') or '')
  return read and read < 8000000000000000 and read
end
local function is(key, kind) return redis.call('TYPE', key).ok == kind end
local function after(position, count)
  return is(log, 'stream') and redis.call('XRANGE', log, '(' .. text(position), '+', 'COUNT', count) or {}
end

local fields = is(meta, 'hash') and redis.call('HMGET', meta, 'last', 'floor', 'marks') or {}
local known, last, floor = number(ARGV[1]) or 0, number(fields[1]), number(fields[2])
local count = is(marks, 'zset') and redis.call('ZCARD', marks) or 0
local lost = not (last and floor and floor <= last)
if lost then last = now end
local first = known > 0 and after(known, 1)[1]
local prev = first and number(first[2][2])
local forked = known > last or (prev and prev < known)
-- If the log was trimmed past what the caller knows, only the same run of the server certainly has
-- the same history.
local covers = known > 0 and not lost and (prev == known or known == last)
if known > 0 and not (lost or covers) and floor <= known and run ~= ARGV[2] then forked = true end
-- Purges or marks are missing: everything made before is void.
if forked or lost or number(fields[3]) ~= count then
  -- Free memory before using any: Redis then lets the script go on, also when it is full.
  redis.call('DEL', log, lost and marks or log)
  if lost and not is(meta, 'hash') then redis.call('DEL', meta) end
  -- Above every position known here or to the caller: below it, a purge may be missing anywhere.
  if lost then last = math.max(last, known + 1) elseif forked then last = math.max(last, known) + 1 end
  floor = last
  if not is(marks, 'zset') then redis.call('DEL', marks) end
  redis.call('HSET', meta, 'last', text(last), 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
end

-- Builds the reply from the first events that fit; each event is {position, event}.
local function page(whole, partial, events)
  local reply, bytes = {whole, text(now), text(last), text(floor), run}, 0
  for i, event in ipairs(events) do
    bytes = bytes + #event[2]
    if i > 1 and bytes > tonumber(ARGV[4]) then break end
    reply[#reply + 1] = event[1]
    reply[#reply + 1] = event[2]
  end
  local taken = (#reply - 5) / 2
  if taken < #events or taken >= tonumber(ARGV[3]) then reply[1], reply[3] = partial, reply[#reply - 1] end
  return reply
end

local function fromLog()
  local at, events = text(known), {}
  for _, entry in ipairs(after(known, ARGV[3])) do
    local position, values = string.match(entry[1], '^(%d+)-0$'), entry[2]
    if not position or values[1] ~= 'prev' or values[2] ~= at or values[3] ~= 'event' then return nil end
    events[#events + 1] = {position, values[4]}
    at = position
  end
  return (at == text(last) or #events >= tonumber(ARGV[3])) and page('LOG', 'PART', events)
end
local reply = covers and fromLog()
if reply then return reply end

local range = {marks, '(' .. text(known), text(last), 'WITHSCORES', 'LIMIT', 0, ARGV[3]}
local newer, events = is(marks, 'zset') and redis.call('ZRANGEBYSCORE', unpack(range)) or {}, {}
for i = 1, #newer, 2 do events[#events + 1] = {newer[i + 1], newer[i]} end
return page('MARKS', 'MORE', events)
