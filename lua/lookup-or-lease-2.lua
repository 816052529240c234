-- Reads the entry. If the entry needs a fill and no process is filling it, takes the lease. Both
-- are one atomic step, so only one process gets the lease.
--
-- Fields of a record (a hash): `life` and `frame` are the entry. `token`, `until` and `fence` are
-- the lease. `pass`, `retry` and `failure` are the outcome of the last run. `w:<process>` is a
-- waiting process. The record of a vary group also has `variants`: the ID of the group, and the
-- moment of its last soft purge. The ID is the token and fence of the first lease of a variant, and
-- a hard purge deletes it. When a variant is leased, its record gets a copy of `variants` as
-- `group`.
--
-- KEYS 1 record  2 record of its vary group (only for a variant)
-- ARGV 1 token of the lease to take  2 lease ms (0: read only, take no lease)
--      3 process to wake when the lease of another process ends
--      4 deadline of the caller in server ms (0: none); after it the script does nothing
--      5 keep ms: how long a record without an entry outlives its lease
--      6 1: if the caller has to wait, its wake-up shall carry the entry
--      Most callers omit the following arguments:
--      7 fence of the copy that the caller holds ('': none); its frame is not sent again
--      8 fence of an entry that the caller knows to be purged ('': none)
--      9 what to do with the entry of ARGV 8 (1: make it stale, 0: delete it)
--      10 digest of the caller's request ('': none); a failure with another digest does not apply
--         to this request
-- Reply {status, now, grant, for ms, fence, failure, age ms, fresh for ms, stale-while-revalidate
--        ms, stale-if-error ms, keep ms, frame}; without an entry nothing follows `failure`
--   now    server ms. With LATE, nothing follows it.
--   grant  fence of the lease that the caller was given ('': no lease)
--   fence  fence of the entry ('': no entry). With BUSY: fence of the fill to wait for.
--   frame is nil if the caller's copy is this entry.
--   FRESH   the entry is fresh.
--   STALE   the entry is within stale-while-revalidate. With a grant: refresh it. Without one,
--           `for ms` is the rest of another process's lease (0: the caller only reads).
--   LEASED  the caller has to fill. An entry that follows is for stale-if-error or revalidation.
--   BUSY    another process fills, for `for ms` at most. This process is woken when that lease
--           ends. For a caller that only reads (`for ms` 0), there is no usable entry.
--   PASS    the last response could not be shared. For `for ms`, no request waits for another.
--           With a grant: the response of this run may be stored.
--   FAILED  the last fill failed. For `for ms`, start no run, and share `failure`.
--   LATE    the deadline had passed: nothing was done.

local record, group, token, lease_ms = KEYS[1], KEYS[2] or KEYS[1], ARGV[1], tonumber(ARGV[2])
local time, not_after = redis.call('TIME'), tonumber(ARGV[4])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not_after > 0 and now > not_after then return {'LATE', now} end

local fields = redis.pcall('HMGET', record, 'life', 'token', 'until', 'fence', 'pass', 'retry', 'failure', 'group')
-- No script writes a value of another type. It would block the key, so delete it. Return any other
-- error. NOPERM, for example, says nothing about the record, which other users may be able to read.
if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then return fields end
if fields.err then fields = redis.call('DEL', record) and {} end

-- A variant counts as missing if its group is missing or has another ID. If only the moment of the
-- soft purge differs, the lease has ended and the entry is stale. `% 9e15` reduces a fence that
-- another program wrote and that is too large.
local newest = fields[4] and tonumber(string.match(fields[4], '^%d+$') or 0) % 9e15 or 0
local variants = group ~= record and redis.pcall('HGET', group, 'variants')
if type(variants) == 'table' and string.find(variants.err, 'WRONGTYPE', 1, true) then variants = redis.call('DEL', group) == 0 end
local is_current, group_id, softened_at = group == record or variants and variants == fields[8], string.match(variants or '', '^(.+) (%d+)$')
local is_gone = not is_current and string.match(fields[8] or '', '^(.+) %d+$') ~= (group_id or 0)
if is_gone then fields = (fields[1] or fields[4]) and redis.call('DEL', record) and {} or {} end

-- Parses a moment that is stored as "<moment> <when it was set>". If the clock shows less than
-- <when it was set>, the clock was set back. The moment then counts as over, because it would come
-- too late. Scripts write no moment further from now than `ahead`, so it caps a value of another
-- program.
local function ms(text, ahead)
  if not text then return 0 end -- most records lack the field
  local at, set = string.match(text, '^(%d+) ?(%d*)$')
  return now >= (tonumber(set or '') or 0) and math.min(tonumber(at or '') or 0, now + ahead) or 0
end
local lease_until, pass, retry, failure = ms(fields[3], 864e5), ms(fields[5], 864e5), ms(fields[6], 864e5), fields[7] or ''
-- `life`: the fence of the commit, the moments of the commit and of becoming stale, and three
-- durations.
local entry, made, fresh, swr, sie, keep = string.match(fields[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
made, fresh, swr, sie, keep = ms(made, 1e13), ms(fresh, 1e13), ms(swr, 1e13), ms(sie, 1e13), ms(keep, 1e13)
local softened = entry == ARGV[8] and now or not is_current and math.min(now, tonumber(softened_at or 0))
-- Delete an entry from the future: the clock was set back, so its age is unknown. Also delete an
-- entry that the caller knows to be purged.
if entry and (now < made or entry == ARGV[8] and ARGV[9] ~= '1') then
  entry = redis.call('HDEL', record, 'life', 'frame') and nil
elseif entry and softened and softened < fresh then
  fresh = softened
  -- On a full server, this write fails and no lease is given. The next lookup repeats the write.
  redis.pcall('HSET', record, 'life', string.format('%s' .. (' %.0f'):rep(5), entry, made, fresh, swr, sie, keep))
end

local function reply(status, grant, for_ms)
  local ends = entry and fresh + math.max(swr, sie, status == 'LEASED' and keep or 0)
  if not entry or now >= ends then return {status, now, grant, for_ms, '', failure} end
  local frame = ARGV[7] ~= entry and (redis.call('HGET', record, 'frame') or '')
  return {status, now, grant, for_ms, entry, failure, now - made, fresh - now, swr, sie, keep, frame}
end

local held = fields[2] and now < lease_until and newest > 0 and is_current
local busy, usable = held and fields[2] ~= token, entry and now < fresh + swr
if entry and now < fresh then return reply('FRESH', '', 0) end
if now < pass and (busy or lease_ms == 0) then return {'PASS', now, '', pass - now} end
local like, failed_like = ARGV[10] or '', string.match(failure, '"like":"([%w_-]+)"')
if now >= pass and now < retry and failure ~= '' and (like == '' or (failed_like or like) == like) then return reply('FAILED', '', retry - now) end

if lease_ms == 0 then return usable and reply('STALE', '', 0) or {'BUSY', now, '', 0} end
if busy then
  -- A caller with a usable stale entry does not wait, so its wake-up need not carry the new entry.
  redis.call('HSET', record, 'w:' .. ARGV[3], not usable and ARGV[6] == '1' and token or '')
  return usable and reply('STALE', '', lease_until - now) or {'BUSY', now, '', lease_until - now, fields[4]}
end

local fence = held and fields[4] or string.format('%.0f', math.max(time[1] * 1000000 + time[2], newest + 1))
if not held then -- otherwise the caller repeats its token, and has this lease already
  -- The token is random. So two IDs of a group always differ, even after the clock was set back.
  local joined = group ~= record and (variants or token .. ' ' .. fence .. ' 0')
  local span, more = string.format('%.0f %.0f', now + lease_ms, now), joined and {'group', joined} or {}
  -- Read before the first write: a user that may not run PTTL gets an error, and leaves no record.
  local ttl, group_ttl = redis.call('PTTL', record), joined and redis.call('PTTL', group)
  local set = redis.pcall('HSET', record, 'token', token, 'fence', fence, 'until', span, unpack(more))
  if type(set) == 'table' then return set end
  if fields[5] or fields[6] or fields[7] then redis.call('HDEL', record, 'retry', 'failure', now < pass and 'retry' or 'pass') end
  if joined ~= variants then redis.call('HSET', group, 'variants', joined) end
  for key, left in pairs({[group] = group_ttl or ttl, [record] = ttl}) do
    -- An error: the user may not run PEXPIRE. Without a TTL, new records would live for ever.
    local kept = left < lease_ms + ARGV[5] and redis.pcall('PEXPIRE', key, lease_ms + ARGV[5])
    if type(kept) == 'table' then return (ttl >= 0 or redis.call('DEL', record)) and ((group_ttl or 0) >= 0 or redis.call('DEL', group)) and kept end
  end
end
return now < pass and {'PASS', now, fence, pass - now} or reply(usable and 'STALE' or 'LEASED', fence, 0)
