-- Appends a purge to the purge log and publishes it, in one atomic step. So the events of the log
-- are in the order of their positions. The newest purge of each subject is also stored as a mark.
-- The number of marks is bounded. `floor` is the oldest known position: a mark up to it may have
-- been dropped, so an entry from before it may have been purged. The script frees memory before it
-- uses any, so it also works on a full server.
--
-- The ID of an event is `<position>-<random>`. Positions are microseconds of this server's clock,
-- and strictly increasing. After a fail-over, another event may get the position of a lost one.
-- Then their random numbers differ.
--
-- KEYS 1 meta (hash: last, floor, marks)  2 log (stream)  3 marks (sorted set by position)
-- ARGV 1 event: m (of a subject) or k (of a key), then h (hard) or s (soft), then the name
--      2 newest ID that the caller knows (0-0: none)  3 channel of the log
--      4 most events in the log  5 most marks  6 random number
-- Reply {status, now, ID, ID of the event before}, as text
--   APPENDED     logged and published
--   UNANNOUNCED  logged, but PUBLISH was refused, so other processes got no message

local meta, log, marks, event = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function number(value)
  local read = tonumber(string.match(value or '', '^(%d+)%-?%d*$') or '')
  return read and read < 8000000000000000 and read
end
for key, kind in pairs({[meta] = 'hash', [log] = 'stream', [marks] = 'zset'}) do
  -- No script writes a key of another type. It would block every purge, so delete it.
  if redis.call('TYPE', key).ok ~= kind then redis.call('DEL', key) end
end

local fields = redis.call('HMGET', meta, 'last', 'floor', 'marks')
local known, last, floor = number(ARGV[2]) or 0, number(fields[1]), number(fields[2])
local prev = fields[1]
local lost = not (last and floor and floor <= last)
-- This is the first purge, or the history was lost, or it lacks the caller's newest purge because a
-- replica took over. Purges may be missing, so every older entry is outdated.
local differs = prev ~= ARGV[2] and string.sub(ARGV[2], -2) ~= '-0'
if lost or known > last or (known == last and differs) then
  redis.call('DEL', log, lost and marks or log)
  -- No process knows this position. So each process sees a gap before this purge, and reads the
  -- log.
  last = math.max(lost and now or last, known + 1)
  floor, prev = last, text(last) .. '-' .. ARGV[6]
end
if number(fields[3]) ~= redis.call('ZCARD', marks) then floor = math.max(floor, last) end
local position = math.max(now, last + 1)
local id = text(position) .. '-' .. ARGV[6]

local entry = {'MAXLEN', '~', ARGV[4], id, 'prev', prev, 'event', event}
redis.call('XTRIM', log, 'MAXLEN', '~', ARGV[4])
local added = redis.pcall('XADD', log, unpack(entry))
if type(added) == 'table' and string.find(added.err, 'equal or smaller', 1, true) then
  -- Another program added an ID above the new one, so delete the log. A process that has not read
  -- all of it reads the marks instead.
  redis.call('DEL', log)
  redis.call('XADD', log, unpack(entry))
elseif type(added) == 'table' and added.err then
  return added
end
if string.sub(event, 1, 1) == 'm' then
  redis.call('ZADD', marks, text(position), string.sub(event, 2))
end

local dropped = math.min(redis.call('ZCARD', marks) - ARGV[5], 1000)
if dropped > 0 then
  local newest = redis.call('ZRANGE', marks, dropped - 1, dropped - 1, 'WITHSCORES')
  floor = math.max(floor, tonumber(newest[2]))
  redis.call('ZREMRANGEBYRANK', marks, 0, dropped - 1)
end
redis.call('HSET', meta, 'last', id, 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
local published = redis.pcall('PUBLISH', ARGV[3], id .. ' ' .. prev .. ' ' .. event)
local status = type(published) == 'table' and published.err and 'UNANNOUNCED' or 'APPENDED'
return {status, text(now), id, prev}
