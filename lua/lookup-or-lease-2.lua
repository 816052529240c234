-- Reads the entry. If the entry needs a fill and no process is filling it, takes the lease. Both
-- are one atomic step, so only one process gets the lease. ARCHITECTURE.md lists the fields.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV 1 token of the lease to take  2 lease ms (0: read only, take no lease)
--      3 keep ms: how long a record without an entry outlives its lease
--      4 process to wake when the lease of another process ends
--      5 1: if the caller has to wait, its wake-up shall carry the entry
--      Most callers omit the following arguments:
--      6 fence of the copy that the caller holds ('': none); its frame is not sent again
--      7 fence of an entry that the caller knows to be purged ('': none)
--      8 what to do with the entry of ARGV 7 (1: make it stale, 0: delete it)
--      9 digest of the caller's request ('': none); a failure with another digest does not apply
-- Reply a text, or {text, frame, failure} if there is a frame to send or with FAILED. The text:
--        status, server ms, grant, for ms, fence, and with an entry also age ms, fresh for ms,
--        stale-while-revalidate ms, stale-if-error ms, keep ms
--   grant  fence of the lease that the caller was given (0: no lease)
--   fence  fence of the entry (0: no entry). With BUSY: fence of the fill to wait for.
--   FRESH   the entry is fresh.
--   STALE   the entry is within stale-while-revalidate. With a grant: refresh it. Without one,
--           `for ms` is the rest of another process's lease (0: the caller only reads), or of the
--           time in which no process refreshes the entry, because the last value was not stored.
--   LEASED  the caller has to fill. An entry that follows is for stale-if-error or revalidation.
--   BUSY    another process fills, for `for ms` at most. This process is woken when the holder ends
--           the lease. If the holder died, the caller asks again after `for ms`. For a caller that
--           only reads (`for ms` 0), there is no usable entry.
--   PASS    the last response could not be shared. For `for ms`, no request waits for another.
--           With a grant: the response of this run may be stored. An entry that follows is as for
--           LEASED.
--   FAILED  the last fill failed. For `for ms`, start no run, and share `failure`.

local record, group, token, lease_ms = KEYS[1], KEYS[2] or KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields = redis.pcall('HMGET', record, 'life', 'lease', 'last', 'group', 'variants')
-- No script writes a value of another type. It would block the key, so delete it. Return any other
-- error. NOPERM, for example, says nothing about the record, which other users may be able to read.
if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then return fields end
if fields.err then fields = redis.call('DEL', record) and {} end
local exists = fields[1] or fields[2] or fields[3] or fields[4] or fields[5]
-- `% 9e15` reduces a fence that another program wrote and that is too large.
local newest = fields[2] and (string.match(fields[2], '^%d+') or 0) % 9e15 or 0

-- A variant counts as missing if its group is missing or has another ID. If only the moment of the
-- soft purge differs, the lease has ended and the entry is stale.
local is_current, variants, softened = group == record, nil, nil
if group ~= record then
  variants = redis.pcall('HGET', group, 'variants')
  if type(variants) == 'table' and string.find(variants.err, 'WRONGTYPE', 1, true) then
    variants = redis.call('DEL', group) == 0
  end
  is_current = variants and variants == fields[4]
  local id, softened_at = string.match(variants or '', '^(.+) (%d+)$')
  if not is_current and string.match(fields[4] or '', '^(.+) %d+$') ~= (id or 0) then
    fields = (fields[1] or fields[2]) and redis.call('DEL', record) and {} or {}
  end
  softened = not is_current and math.min(now, tonumber(softened_at or 0))
end

-- Caps a value that another program wrote. If the clock shows less than `set`, it was set back. The
-- moment then counts as over, because it would come too late.
local function ms(at, set, ahead)
  return now >= (tonumber(set) or 0) and math.min(tonumber(at) or 0, now + ahead) or 0
end
local DAY, ALL = 864e5, 1e13
local entry, made, fresh, swr, sie, keep
if fields[1] then
  entry, made, fresh, swr, sie, keep =
    string.match(fields[1], '^([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  made, fresh, swr = ms(made, 0, ALL), ms(fresh, 0, ALL), ms(swr, 0, ALL)
  sie, keep = ms(sie, 0, ALL), ms(keep, 0, ALL)
end
local fence, lease_end, holder, lease_set = nil, 0, nil, nil
if fields[2] then
  fence, lease_end, lease_set, holder = string.match(fields[2], '^(%d+) ?(%d*) ?(%d*) ?(.*)$')
  lease_end = ms(lease_end, lease_set, DAY)
end
local pass, retry, pass_set, retry_set, failure = 0, 0, nil, nil, nil
if fields[3] then
  pass, pass_set, retry, retry_set, failure =
    string.match(fields[3], '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  pass, retry = ms(pass, pass_set, DAY), ms(retry, retry_set, DAY)
end

if entry == ARGV[7] then softened = now end
-- Delete an entry from the future: the clock was set back, so its age is unknown. Also delete an
-- entry that the caller knows to be purged.
if entry and (now < made or entry == ARGV[7] and ARGV[8] ~= '1') then
  entry = redis.call('HDEL', record, 'life', 'frame') and nil
elseif entry and softened and softened < fresh then
  fresh = softened
  -- On a full server, this write fails and no lease is given. The next lookup repeats the write.
  redis.pcall('HSET', record, 'life', table.concat({entry, made, fresh, swr, sie, keep}, ' '))
end

local function reply(status, grant, for_ms, fence_of)
  local text, frame = status .. ' ' .. now .. ' ' .. grant .. ' ' .. for_ms .. ' ', false
  local kept_ms = entry and math.max(swr, sie, status ~= 'FAILED' and keep or 0)
  if fence_of or not entry or now >= fresh + kept_ms then
    text = text .. (fence_of or 0)
  else
    text = text .. table.concat({entry, now - made, fresh - now, swr, sie, keep}, ' ')
    frame = ARGV[6] ~= entry and (redis.call('HGET', record, 'frame') or '')
  end
  return (frame or status == 'FAILED') and {text, frame, failure} or text
end

local held = now < lease_end and newest > 0 and is_current
local busy, usable = held and holder ~= token, entry and now < fresh + swr
if entry and now < fresh then return reply('FRESH', 0, 0) end
if now < pass and usable then return reply('STALE', 0, pass - now) end
if now < pass and (busy or lease_ms == 0) then return reply('PASS', 0, pass - now) end
if now >= pass and now < retry and failure ~= '' then
  local like, failed_like = ARGV[9] or '', string.match(failure, '"like":"([%w_-]+)"')
  if like == '' or (failed_like or like) == like then return reply('FAILED', 0, retry - now) end
end

if lease_ms == 0 then return usable and reply('STALE', 0, 0) or reply('BUSY', 0, 0, 0) end
if busy then
  -- A caller with a usable stale entry does not wait, so its wake-up need not carry the new entry.
  local asked = not usable and ARGV[5] == '1' and token or ''
  redis.call('HSET', record, 'waiting', 1, 'w:' .. ARGV[4], asked)
  if usable then return reply('STALE', 0, lease_end - now) end
  return reply('BUSY', 0, lease_end - now, fence)
end
if not held then -- otherwise the caller repeats its token, and has this lease already
  fence = string.format('%.0f', math.max(time[1] * 1000000 + time[2], newest + 1))
  local set = {'lease', fence .. ' ' .. now + lease_ms .. ' ' .. now .. ' ' .. token}
  if fields[3] then
    set[3], set[4] = 'last', pass > 0 and table.concat({pass, pass_set, '0 0 '}, ' ') or ''
  end
  -- Read before the first write: a user that may not run PTTL gets an error, and leaves no record.
  local ttl, group_ttl = exists and redis.call('PTTL', record) or -2, nil
  if group ~= record then
    group_ttl = redis.call('PTTL', group)
    -- The token is random. So two IDs of a group always differ, even after the clock was set back.
    set[#set + 1], set[#set + 2] = 'group', variants or token .. ' ' .. fence .. ' 0'
  end
  local written = redis.pcall('HSET', record, unpack(set))
  if type(written) == 'table' then return written end
  if group_ttl and not variants then redis.call('HSET', group, 'variants', set[#set]) end
  local for_ms, refused = lease_ms + ARGV[3], nil
  for key, left in pairs({[group] = group_ttl or ttl, [record] = ttl}) do
    -- An error: the user may not run PEXPIRE. Without a TTL, new records would live for ever.
    local kept = left < for_ms and redis.pcall('PEXPIRE', key, for_ms)
    if type(kept) == 'table' then refused = (left >= 0 or redis.call('DEL', key)) and kept end
  end
  if refused then return refused end
end
if now < pass then return reply('PASS', fence, pass - now) end
return reply(usable and 'STALE' or 'LEASED', fence, 0)
