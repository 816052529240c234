// Parts of the protocol, each with a way to break it. The simulation has to notice every one.

import type { Edit, Mutation } from '../fuzz/leaks/mutation.ts'
import { STORING } from '../fuzz/leaks/mutations-storing.ts'

const LOOKUP = 'lua/lookup-or-lease-2.lua'
const COMMIT = 'lua/commit-2.lua'
const PURGE = 'lua/purge-1.lua'
const READ_PURGES = 'lua/read-purges-3.lua'
const BEGIN = 'lua/begin-record-1.lua'
const FINISH = 'lua/finish-record-1.lua'
const L1_PURGES = 'core/src/l1/purges.ts'
const CONTENDER = 'locks/src/contender.ts'
const ENGINE = 'core/src/engine/engine.ts'
const AWAITED = 'redis/src/delivery/pending-deliveries.ts'
const READ_FIRST = 'redis/src/stores/redis-lookups.ts'

function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

const OF_PRESENT_LIFE = 'variants and variants == fields[4]'
const OF_GROUP = 'not (variants and variants == fields[3])'
const READ_OF_GROUP =
  'Buffer.isBuffer(group) && Buffer.isBuffer(variants) && group.equals(variants)'

const WITHOUT_GROUP: readonly Edit[] = [
  { file: LOOKUP, from: OF_PRESENT_LIFE, to: '(not variants or variants == fields[4])' },
  { file: COMMIT, from: OF_GROUP, to: '(variants and variants ~= fields[3])' },
  { file: READ_FIRST, from: READ_OF_GROUP, to: `variants === null || (${READ_OF_GROUP})` },
]

/**
 * Both `variants` have the same moment of a soft purge, and the life began before the fence of the
 * record.
 */
const byFence = (own: string, fence: string): string =>
  `(variants and string.match(variants, '%d+$') == string.match(${own} or '', '%d+$') and tonumber(string.match(variants, '(%d+) %d+$')) <= (tonumber(${fence} or '') or 0))`

/**
 * A mutation that distinguishes lives by fences, whose order depends on the clock
 * (docs/decisions/0009).
 */
const BY_FENCE: readonly Edit[] = [
  {
    file: LOOKUP,
    from: OF_PRESENT_LIFE,
    to: byFence('fields[4]', "string.match(fields[2] or '', '^%d+')"),
  },
  { file: COMMIT, from: OF_GROUP, to: `not ${byFence('fields[3]', 'newest')}` },
]

/** Mutations shared with the leak fuzzer, which has far more of this kind. */
const SHARED_WITH_FUZZER = new Set([
  'a response with Set-Cookie is stored',
  'private is ignored',
  'waiters get a response that is not shareable',
])

export const MUTATIONS: readonly Mutation[] = [
  ...STORING.filter(({ name }) => SHARED_WITH_FUZZER.has(name)),
  drop(
    'a purge by path is ignored',
    L1_PURGES,
    'named.push(pathSubject(path, undefined), pathSubject(path, host))',
    'void pathSubject(path, host)',
  ),
  drop(
    'a purge by route is ignored',
    L1_PURGES,
    'if (isLater && matchesPattern(subject.slice(1), path)) yield last',
    'if (isLater && matchesPattern(subject.slice(1), path)) void last',
  ),
  {
    name: 'a commit is accepted without a check of its fence and token',
    edits: [
      {
        file: COMMIT,
        from: "if newest ~= fence then return {'FENCED', now} end",
        to: "if not newest then return {'FENCED', now} end",
      },
      { file: COMMIT, from: 'if group ~= record and not (', to: 'if false and not (' },
      { file: COMMIT, from: 'if holder ~= token then', to: 'if false then' },
    ],
  },
  drop(
    'a waiter is not registered',
    LOOKUP,
    "redis.call('HSET', record, 'waiting', 1, 'w:' .. ARGV[4], asked)",
  ),
  drop(
    'a purge leaves the lease, so a fill in flight commits after it',
    PURGE,
    "redis.call('DEL', record)",
    "redis.call('HDEL', record, 'life', 'frame')",
  ),
  drop(
    'a lease is renewed for any process, also after it was lost',
    'lua/renew-entry-2.lua',
    'if fence ~= ARGV[2] or holder ~= ARGV[1] then',
    'if not fence then',
  ),
  drop(
    'a lease is granted while another process has it',
    LOOKUP,
    'local held = now < lease_end and',
    'local held = now < lease_end - 400 and',
  ),
  drop(
    'purges by tag and of everything are ignored',
    L1_PURGES,
    "if (last.hard > provenance.asOf) return 'purged'",
  ),
  {
    name: 'after the purge history was lost, older copies and entries are still used',
    edits: [
      { file: L1_PURGES, from: "if (provenance.asOf < this.#oldestKnown) return 'purged'", to: '' },
      { file: 'core/src/engine/messages.ts', from: 'rt.l1.flush()', to: '' },
    ],
  },
  drop(
    'a fill claims to know all future purges',
    'core/src/engine/fill.ts',
    'this.asOf = rt.store.position',
    'this.asOf = Number.MAX_SAFE_INTEGER',
  ),
  drop(
    'copies are used without a recent confirmation of the purges',
    L1_PURGES,
    'return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS',
    'return since < Number.POSITIVE_INFINITY',
  ),
  drop(
    'a copy that was read before a purge is kept after it',
    'core/src/l1/l1.ts',
    'if (this.isPurgedSince(key, since)) return false',
    '',
  ),
  {
    name: 'an older value is served for an error, also if it was purged',
    edits: [
      { file: L1_PURGES, from: ' || rt.l1.wasPurgedSince(key, since)', to: '' },
      { file: L1_PURGES, from: 'return afterPurges(rt, previous)', to: 'return previous' },
    ],
  },
  drop(
    'processes that ask for a key during its fill also fill it',
    ENGINE,
    'const present = rt.flights.get(key)',
    'const present = undefined as Flight | undefined',
  ),
  {
    name: 'a wake-up is lost, and no waiter looks up again when the lease ends',
    edits: [
      {
        file: COMMIT,
        from: "redis.pcall('PUBLISH', ARGV[4] .. string.sub(field, 3), message)",
        to: '',
      },
      { file: ENGINE, from: "() => end('lease-end')", to: '() => {}' },
    ],
  },
  {
    name: 'a variant is used and committed without the record of its group',
    edits: WITHOUT_GROUP,
  },
  {
    name: 'lives of a group are distinguished by the order of their fences',
    edits: BY_FENCE,
  },
  drop(
    'all lives of a vary group have the same name',
    LOOKUP,
    "variants or token .. ' ' .. fence .. ' 0'",
    "'begun 0 0'",
  ),
  drop(
    'a soft purge does not end the leases of variants',
    PURGE,
    'math.max(now, (softened_at or 0) % 1e15 + 1)',
    '(softened_at or 0) % 1e15',
  ),
  drop(
    'a fence is taken from the clock alone',
    LOOKUP,
    'math.max(time[1] * 1000000 + time[2], newest + 1)',
    'time[1] * 1000000 + time[2]',
  ),
  drop('a marker from the future counts', LOOKUP, 'now >= (tonumber(set) or 0) and', 'now > 0 and'),
  drop(
    'an entry from the future is used',
    LOOKUP,
    'if entry and (now < made or',
    'if entry and (now + made < 0 or',
  ),
  drop(
    'a lock from the future is left as it is',
    'lua/acquire-lock-1.lua',
    'if fields[1] and now < set then',
    'if fields[1] and now + set < 0 then',
  ),
  drop(
    'a forked purge history is not detected',
    READ_PURGES,
    // Either check alone notices the loss: the first new event, and the run of the server.
    'local forked = lacks(id) or lacks(prev) or is_unsure',
    'local forked = (last or 9e15) < known',
  ),
  drop(
    'a forked purge history that was trimmed afterwards is not detected',
    READ_PURGES,
    'local forked = lacks(id) or lacks(prev) or is_unsure',
    'local forked = lacks(id) or lacks(prev)',
  ),
  drop(
    'a read-only server confirms that no purge was missed',
    'redis/src/stores/purge-commands.ts',
    "this.#link.ask('PERSIST', meta)",
    'Promise.resolve(meta)',
  ),
  drop(
    'an older value is served for an error, also if its key was purged',
    L1_PURGES,
    ' || rt.l1.wasPurgedSince(key, since)',
  ),
  drop(
    'the clock of a process stops while its machine is suspended',
    'core/src/ports/clock.ts',
    'if (changeMs > 0) missedMs += Math.ceil(changeMs)',
  ),
  drop(
    'a lease whose reply was lost is not given back',
    'core/src/engine/lookup.ts',
    'const lease = mayHaveRun(error) ? { key, token, fence: ANY_FENCE } : this.#granted',
    'const lease = this.#granted',
  ),
  drop(
    'no waiter looks up again when the lease ends',
    ENGINE,
    "() => end('lease-end')",
    '() => {}',
  ),
  drop(
    'a delivered entry counts as made at the time of its use',
    AWAITED,
    'freshMs - Math.max(0, agoMs)',
    'freshMs * 20 - Math.max(0, agoMs)',
  ),
  drop(
    'a plain read is used without a check of the purges of its group',
    READ_FIRST,
    READ_OF_GROUP,
    'Buffer.isBuffer(group) || Buffer.isBuffer(variants)',
  ),
  drop(
    'a plain read is used also if the entry is stale',
    READ_FIRST,
    'fence === 0 || !(serverNow < fresh)',
    'Number.isNaN(serverNow + fresh)',
  ),
  drop(
    "the server's time is read once, and never again",
    'redis/src/protocol/run-script.ts',
    'turns.delete(connection)',
  ),
  drop(
    'a lock that is announced twice counts as another lock, and is given back',
    CONTENDER,
    'if (grant.token === this.#held?.token) return',
  ),
  drop(
    'a holder trusts its lock for three times its lease',
    'locks/src/lease.ts',
    'forMs - LeaseKeeper.driftMs(forMs) - (this.#backend.clock.now() - from)',
    '3 * forMs - (this.#backend.clock.now() - from)',
  ),
  drop(
    'a lock continues after a refused renewal',
    'locks/src/create-lease.ts',
    'lost: () => lease.revoke(NOT_OURS),',
    'lost: () => lease.extend({ from: clock.now(), forMs: leaseMs }),',
  ),
  drop(
    'the end of a job is accepted without a check of its token',
    FINISH,
    'if not isOpen or fields[3] ~= token then',
    'if not isOpen then',
  ),
  drop('a completed job begins again', BEGIN, 'if frame then', 'if frame and now % 2 == 0 then'),
  drop(
    'a job begins inside the lease of another attempt',
    BEGIN,
    'if now < lease_until then',
    'if now < lease_until - 200 then',
  ),
  {
    name: 'work continues after its lease has run out',
    edits: [
      {
        file: 'core/src/idempotency/running.ts',
        from: 'if (now >= this.#leaseEndsAt) this.#lose(LATE)',
        to: '',
      },
      {
        file: 'core/src/idempotency/running.ts',
        from: 'if (this.#rt.clock.now() >= this.#leaseEndsAt) this.#lose(LATE)',
        to: '',
      },
    ],
  },
  drop(
    'a call waits without a limit',
    'core/src/engine/waiters.ts',
    'if (this.#isCounting) this.#startClock(waiter)',
  ),
]
