-- Appends a purge to the log of the fleet, remembers it if it is of a subject (a mark), and announces it: one atomic
-- step, so that the order of the log is the order of the positions. Marks are bounded by number and age; of what was
-- made before one that was dropped nothing is known any more, which `floor` says.
-- Freeing comes first and needs no memory; then Redis lets the script go on, also on a server that is full.
--
-- KEYS 1 meta  2 log  3 marks
-- ARGV 1 event (m: of a subject, k: of a key; h: hard, s: soft; then its name)  2 position known to the caller
--      3 channel of the log  4 longest log  5 most marks  6 a mark's longest age (ms)
-- Reply {status, now, position, position before}, in microseconds of this server, as text
--   APPENDED | UNANNOUNCED (it is in the log; other processes could not be told)

local meta, log, marks, event = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function number(value)
  local read = tonumber(string.match(value or '', '^%d+$') or '')
  return read and read < 8000000000000000 and read
end
for key, kind in pairs({[meta] = 'hash', [log] = 'stream', [marks] = 'zset'}) do -- what is not ours is in our way
  if redis.call('TYPE', key).ok ~= kind then redis.call('DEL', key) end
end

local fields = redis.call('HMGET', meta, 'last', 'floor', 'marks')
local known, last, floor = number(ARGV[2]) or 0, number(fields[1]), number(fields[2])
local lost = not (last and floor and floor <= last)
if lost or known > last then -- first use, lost, or behind its caller (a replica took over): what was made before is void
  redis.call('DEL', log, lost and marks or log)
  last = math.max(lost and now or last, known + 1) -- one that nobody knows: who heard of all has to hear of this, too
  floor = last
end
if number(fields[3]) ~= redis.call('ZCARD', marks) then floor = math.max(floor, last) end
local position = math.max(now, last + 1)

local entry = {'MAXLEN', '~', ARGV[4], text(position) .. '-0', 'prev', text(last), 'event', event}
redis.call('XTRIM', log, 'MAXLEN', '~', ARGV[4])
local added = redis.pcall('XADD', log, unpack(entry))
if type(added) == 'table' and string.find(added.err, 'equal or smaller', 1, true) then
  redis.call('DEL', log) -- planted: with it gone, whoever has not read it yet forgets everything
  redis.call('XADD', log, unpack(entry))
elseif type(added) == 'table' and added.err then
  return added
end
if string.sub(event, 1, 1) == 'm' then redis.call('ZADD', marks, text(position), string.sub(event, 2)) end

local old = redis.call('ZCOUNT', marks, '-inf', text(now - ARGV[6] * 1000))
local dropped = math.min(math.max(old, redis.call('ZCARD', marks) - ARGV[5]), 1000)
if dropped > 0 then
  floor = math.max(floor, tonumber(redis.call('ZRANGE', marks, dropped - 1, dropped - 1, 'WITHSCORES')[2]))
  redis.call('ZREMRANGEBYRANK', marks, 0, dropped - 1)
end
redis.call('HSET', meta, 'last', text(position), 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
local told = redis.pcall('PUBLISH', ARGV[3], text(position) .. ' ' .. text(last) .. ' ' .. event)
local status = type(told) == 'table' and told.err and 'UNANNOUNCED' or 'APPENDED'
return {status, text(now), text(position), text(last)}
