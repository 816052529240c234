-- Takes a lock, or says how long its holder's lease has left; the caller may register its process in the
-- queue in the same step, so that no release can come in between. Nobody overtakes those who queue.
--
-- KEYS 1 lock
-- ARGV 1 token  2 lease ms  3 process to queue ('': do not queue)  4 not after (server ms, 0: any time)
--      5 keep ms
-- Reply {status, now, fence, for ms [, token]}
--   GRANTED for that long                      BUSY    for that long at most
--   OVERDUE the holder's lease is over, and others queue: pass its lock on (release-lock), then look again
--   LATE    the caller gave up before this ran: nothing was done

local lock, token, lease_ms, process = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[4])
if not_after > 0 and now > not_after then return {'LATE', now, '', 0} end

local fields = redis.call('HMGET', lock, 'token', 'until', 'fence', 'head', 'tail', 'p:' .. process)
local lease_until, fence = tonumber(fields[2] or '') or 0, fields[3] or ''
local head, tail = tonumber(fields[4] or '') or 0, tonumber(fields[5] or '') or 0
local held = fields[1] and now < lease_until
if held and fields[1] == token then return {'GRANTED', now, fence, lease_until - now} end

local keep = lease_ms + tonumber(ARGV[5])
local function keep_alive()
  if redis.call('PTTL', lock) < keep then redis.call('PEXPIRE', lock, keep) end
end

if held or head < tail then
  if process ~= '' then -- one place per process; asked again under another name, it is known by that
    local place = fields[6] or tail
    redis.call('HSET', lock, 'q:' .. place, token .. ' ' .. lease_ms .. ' ' .. process, 'p:' .. process, place,
      'tail', math.max(tail, place + 1), 'head', head)
  end
  keep_alive()
  if held then return {'BUSY', now, fence, lease_until - now} end
  return {'OVERDUE', now, fence, 0, fields[1] or ''}
end

-- A write that needs memory comes first: a server that is full refuses, and gives no lock it could not renew.
-- Whatever was planted there: a number that can still be counted on, or none.
local last = tonumber(fence) or 0
if not (last < 9007199254740991) then last = 0 end
fence = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
redis.call('HSET', lock, 'token', token, 'until', string.format('%.0f', now + lease_ms), 'fence', fence)
keep_alive()
return {'GRANTED', now, fence, lease_ms}
