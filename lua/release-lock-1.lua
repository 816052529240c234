-- Frees a lock and grants it to the process at the head of the queue, in the same step. The new
-- holder gets a short lease (the claim), and renews it if it needs longer. So a dead process delays
-- the queue only by the claim. The script frees memory before it uses any, so it also works on a
-- full server.
--
-- KEYS 1 lock
-- ARGV 1 token  2 fence ('*': any; the token alone decides)
--      3 1: the caller hands over the overdue lock of another holder  4 key
--      5 prefix of grant channels  6 claim ms
--      7 1: the reply to PUBLISH counts all receivers (0: not so, in a cluster). A process that
--        receives no messages is then skipped.
--      8 process that joins the queue again ('': none)  9 its token  10 its lease ms
--      11 keep ms: how long a lock is remembered after its lease
-- Reply {status, now, fence, for ms}
--   RELEASED  with a fence: the process of ARGV 8 has the lock again, for `for ms`.
--             Without a fence: another process has it for `for ms`, or none has it (0).
--   LOST      the caller no longer had the lock, and nothing was done

local lock, process = KEYS[1], ARGV[8]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = redis.call('HMGET', lock, 'token', 'until', 'fence', 'head', 'tail', 'p:' .. process)
local head, tail = tonumber(fields[4] or '') or 0, tonumber(fields[5] or '') or 0
local token = fields[1] or ''
if token ~= ARGV[1] or (ARGV[2] ~= '*' and (fields[3] or '') ~= ARGV[2]) then
  return {'LOST', now, '', 0}
end
local lease_until = tonumber(string.match(fields[2] or '', '^%d+') or '') or 0
if ARGV[3] == '1' and token ~= '' and now < lease_until then return {'LOST', now, '', 0} end
redis.call('HDEL', lock, 'token', 'until')

if process ~= '' then
  local place = tonumber(fields[6] or tail)
  local after = math.max(tail, place + 1)
  local entry = ARGV[9] .. ' ' .. ARGV[10] .. ' ' .. process
  local queued = redis.pcall(
    'HSET', lock, 'q:' .. place, entry, 'p:' .. process, place, 'tail', after
  )
  if not (type(queued) == 'table' and queued.err) then tail = after end
end

local fence = tonumber(fields[3] or '') or 0
if not (fence < 9007199254740991) then fence = 0 end
while head < tail do
  local entry = redis.call('HGET', lock, 'q:' .. head)
  redis.call('HDEL', lock, 'q:' .. head)
  head = head + 1
  if entry then
    local next_token, lease_ms, next_process = string.match(entry, '^(%S+) (%d+) (.*)$')
    local claim = math.min(tonumber(lease_ms), tonumber(ARGV[6]))
    fence = math.max(fence + 1, time[1] * 1000000 + time[2])
    local text = string.format('%.0f', fence)
    redis.call('HDEL', lock, 'p:' .. next_process)
    local claimed = string.format('%.0f %.0f', now + claim, now)
    local granted = redis.pcall(
      'HSET', lock, 'token', next_token, 'fence', text, 'head', head, 'until', claimed
    )
    if type(granted) == 'table' and granted.err then return {'RELEASED', now, '', 0} end
    local keep = lease_ms + ARGV[11]
    if redis.call('PTTL', lock) < keep then redis.call('PEXPIRE', lock, keep) end
    if next_process == process then return {'RELEASED', now, text, claim} end
    -- `now` lets the receiver notice a late message, and a wrong estimate of this clock.
    local message = table.concat({next_token, text, claimed, ARGV[4]}, ' ')
    local receivers = redis.call('PUBLISH', ARGV[5] .. next_process, message)
    if receivers > 0 or ARGV[7] ~= '1' then return {'RELEASED', now, '', claim} end
    redis.call('HDEL', lock, 'token', 'until')
  end
end
redis.call('HDEL', lock, 'head', 'tail')
return {'RELEASED', now, '', 0}
