-- Appends purges to the purge log and publishes them, in one atomic step. So the events of the log
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
-- ARGV 1 newest ID that the caller knows (0-0: none)  2 channel of the log
--      3 most events in the log  4 most marks  5 random number
--      6 and more: events: m (of a subject) or k (of a key), then h (hard) or s (soft), then the
--        name
-- Reply {status, now, ID of the last event, ID before the first event}, as text. The positions of
-- the events are consecutive.
--   APPENDED     logged and published
--   UNANNOUNCED  logged, but PUBLISH was refused, so other processes got no message

local meta, log, marks = KEYS[1], KEYS[2], KEYS[3]
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
local known, last, floor = number(ARGV[1]) or 0, number(fields[1]), number(fields[2])
local prev = fields[1]
local lost = not (last and floor and floor <= last)
-- This is the first purge, or the history was lost, or it lacks the caller's newest purge because a
-- replica took over. Purges may be missing, so every older entry is outdated.
local differs = prev ~= ARGV[1] and string.sub(ARGV[1], -2) ~= '-0'
if lost or known > last or (known == last and differs) then
  redis.call('DEL', log, lost and marks or log)
  -- No process knows this position. So each process sees a gap before this purge, and reads the
  -- log.
  last = math.max(lost and now or last, known + 1)
  floor, prev = last, text(last) .. '-' .. ARGV[5]
end
if number(fields[3]) ~= redis.call('ZCARD', marks) then floor = math.max(floor, last) end

redis.call('XTRIM', log, 'MAXLEN', '~', ARGV[3])
local position, id, messages = math.max(now, last + 1), prev, {}
for i = 6, #ARGV do
  local before, event = id, ARGV[i]
  id = text(position + i - 6) .. '-' .. ARGV[5]
  local entry = {'MAXLEN', '~', ARGV[3], id, 'prev', before, 'event', event}
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
    redis.call('ZADD', marks, text(position + i - 6), string.sub(event, 2))
  end
  messages[#messages + 1] = id .. ' ' .. before .. ' ' .. event
end

local dropped = math.min(redis.call('ZCARD', marks) - ARGV[4], 1000)
if dropped > 0 then
  local newest = redis.call('ZRANGE', marks, dropped - 1, dropped - 1, 'WITHSCORES')
  floor = math.max(floor, tonumber(newest[2]))
  redis.call('ZREMRANGEBYRANK', marks, 0, dropped - 1)
end
redis.call('HSET', meta, 'last', id, 'floor', text(floor), 'marks', redis.call('ZCARD', marks))
local status = 'APPENDED'
for _, message in ipairs(messages) do
  local published = redis.pcall('PUBLISH', ARGV[2], message)
  if type(published) == 'table' and published.err then status = 'UNANNOUNCED' end
end
return {status, text(now), id, prev}
