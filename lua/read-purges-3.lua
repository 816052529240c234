-- Reads the purges after an event. If the log has all events after it, the reply has these events.
-- Otherwise the reply has the marks: the newest purge of each subject, such as a tag. If the
-- history was lost, it starts again. If the server lacks purges that the caller knows, all entries
-- stored until now are outdated. The script begins with a write that changes nothing. A server
-- that may not write refuses it, and so cannot confirm that no purge was missed.
--
-- KEYS 1 meta (hash: last, floor, marks)  2 log (stream)  3 marks (sorted set by position)
-- ARGV 1 newest ID that the caller knows (0-0: none)  2 run_id of the server that sent it
--      3 most events in one reply  4 most bytes of their names, unless the first alone is longer
--      5 random number, for the ID of a history that starts again
-- Reply {status, now, last, floor, run_id, then ID and event in turn}, numbers as text
--   last    newest ID. With PART and MORE: of this reply, ask again from there.
--   floor   oldest known position: an entry from before it may have been purged
--   LOG     every purge since ARGV 1, complete
--   PART    the first of these purges
--   MARKS   every mark since ARGV 1: the text of its event without the leading `m`. Purges of keys
--           may be missing. Only the position of a mark is stored, so its ID ends in `-0`
--           (unknown).
--   MORE    the first of these marks

local meta, log, marks = KEYS[1], KEYS[2], KEYS[3]
redis.call('PERSIST', meta)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- The run_id is empty if the user may not run INFO.
local run = string.match(tostring(redis.pcall('INFO', 'server')), 'run_id:(%w+)') or ''
local function text(number) return string.format('%.0f', number) end
local function number(value)
  local read = tonumber(string.match(value or '', '^(%d+)%-?%d*$') or '')
  return read and read < 8000000000000000 and read
end
local function is(key, kind) return redis.call('TYPE', key).ok == kind end

local fields = is(meta, 'hash') and redis.call('HMGET', meta, 'last', 'floor', 'marks') or {}
local known, id, last, floor = number(ARGV[1]) or 0, fields[1], number(fields[1]), number(fields[2])
local count = is(marks, 'zset') and redis.call('ZCARD', marks) or 0
local lost = not (last and floor and floor <= last)
local function since(count)
  local after = text(known) .. '-18446744073709551615'
  return is(log, 'stream') and redis.call('XRANGE', log, '(' .. after, '+', 'COUNT', count) or {}
end
-- Whether a history lacks an event that the caller knows: its newest event is before the caller's
-- newest one, or is another event at the same position.
local function lacks(newest)
  local differs = newest ~= ARGV[1] and string.sub(ARGV[1], -2) ~= '-0'
  return (number(newest) or 9e15) < known + (differs and 1 or 0)
end
local prev = known > 0 and (since(1)[1] or {0, {}})[2][2]
local covers = known > 0 and not lost and (known == last or known == number(prev))
-- The log may no longer have the event after the caller's newest. Then only a server with the same
-- run_id certainly has the caller's history.
local is_unsure = known > 0 and not (lost or covers) and floor <= known and run ~= ARGV[2]
local forked = lacks(id) or lacks(prev) or is_unsure
-- Purges or marks are missing, so all entries stored until now are outdated.
if forked or lost or number(fields[3]) ~= count then
  -- The script frees memory before it uses any, so it also works on a full server.
  redis.call('DEL', log, lost and marks or log)
  if lost and not is(meta, 'hash') then redis.call('DEL', meta) end
  -- The new position is above every position that the server or the caller knows. Any purge before
  -- the new position may be missing.
  last = lost and math.max(now, known + 1) or forked and math.max(last, known) + 1 or last
  floor, id = last, (lost or forked) and text(last) .. '-' .. ARGV[5] or id
  if not is(marks, 'zset') then redis.call('DEL', marks) end
  redis.call('HSET', meta, 'last', id, 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
end

-- Builds the reply from the first events that fit. Each event is {ID, event}.
local function page(whole, partial, events)
  local reply, bytes = {whole, text(now), id, text(floor), run}, 0
  for i, event in ipairs(events) do
    bytes = bytes + #event[2]
    if i > 1 and bytes > tonumber(ARGV[4]) then break end
    reply[#reply + 1] = event[1]
    reply[#reply + 1] = event[2]
  end
  local taken = (#reply - 5) / 2
  if taken < #events or taken >= tonumber(ARGV[3]) then
    reply[1], reply[3] = partial, reply[#reply - 1]
  end
  return reply
end

local at, logged = covers and not forked and (prev or id), {}
for _, entry in ipairs(at and since(ARGV[3]) or {}) do
  local values = entry[2]
  at = values[1] == 'prev' and values[2] == at and values[3] == 'event' and entry[1]
  logged[#logged + 1] = {entry[1], values[4]}
end
if at and (at == id or #logged >= tonumber(ARGV[3])) then return page('LOG', 'PART', logged) end

local range = {marks, '(' .. text(known), text(last), 'WITHSCORES', 'LIMIT', 0, ARGV[3]}
local newer, events = is(marks, 'zset') and redis.call('ZRANGEBYSCORE', unpack(range)) or {}, {}
for i = 1, #newer, 2 do events[#events + 1] = {newer[i + 1] .. '-0', newer[i]} end
return page('MARKS', 'MORE', events)
