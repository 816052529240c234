-- What was purged since a position: from the log if it covers everything after it, else the newest purge of each
-- subject. A history that is lost begins anew; one that is behind its reader (a replica took over) is raised to it.
--
-- KEYS 1 meta  2 log  3 marks
-- ARGV 1 position known to the caller (0: none)  2 most marks in one reply
-- Reply {status, now, last, floor, then position and event by turns}, numbers as text
--   LOG   every purge since          MARKS  marks without `m`; purges of keys may have been missed
--   MORE  as MARKS, up to `last`: ask again from there

local meta, log, marks = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function number(value)
  local read = tonumber(string.match(value or '', '^%d+$') or '')
  return read and read < 9000000000000000 and read
end
local function is(key, kind) return redis.call('TYPE', key).ok == kind end

local fields = is(meta, 'hash') and redis.call('HMGET', meta, 'last', 'floor', 'marks') or {}
local known, last, floor = number(ARGV[1]) or 0, number(fields[1]), number(fields[2])
local count = is(marks, 'zset') and redis.call('ZCARD', marks) or 0
local lost = not (last and floor)
if lost then last = now end
local covers = known > 0 and known <= last and not lost
if known > last or lost or number(fields[3]) ~= count then -- of what was made before, nothing is known any more
  -- Freeing comes first and needs no memory; then Redis lets the script go on, also on a server that is full.
  redis.call('DEL', log, lost and marks or log)
  if lost and not is(meta, 'hash') then redis.call('DEL', meta) end
  if known > last then last = known + 1 end -- a position that nobody knows: who heard of all has to hear of this, too
  floor = last
  if not is(marks, 'zset') then redis.call('DEL', marks) end
  redis.call('HSET', meta, 'last', text(last), 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
end

local function fromLog()
  local reply, at = {'LOG', text(now), text(last), text(floor)}, text(known)
  for _, entry in ipairs(is(log, 'stream') and redis.call('XRANGE', log, '(' .. at, '+') or {}) do
    local position, values = string.match(entry[1], '^(%d+)-0$'), entry[2]
    if not position or values[1] ~= 'prev' or values[2] ~= at or values[3] ~= 'event' then return nil end
    reply[#reply + 1] = position
    reply[#reply + 1] = values[4]
    at = position
  end
  return at == text(last) and reply
end
local reply = covers and fromLog()
if reply then return reply end

local range = {marks, '(' .. text(known), text(last), 'WITHSCORES', 'LIMIT', 0, ARGV[2]}
local newer = is(marks, 'zset') and redis.call('ZRANGEBYSCORE', unpack(range)) or {}
local status = #newer >= 2 * ARGV[2] and 'MORE' or 'MARKS'
reply = {status, text(now), status == 'MORE' and newer[#newer] or text(last), text(floor)}
for i = 1, #newer, 2 do
  reply[#reply + 1] = newer[i + 1]
  reply[#reply + 1] = newer[i]
end
return reply
