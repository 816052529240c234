// Parts of the protocol, each with a way to break it. The simulation has to notice every one.

import type { Edit, Mutation } from '../fuzz/leaks/mutation.ts'
import { STORING } from '../fuzz/leaks/mutations-storing.ts'

/** The scripts of lua/, as the simulated server has them. */
const RECORDS = 'simulation/server-records.ts'
const LOCKS = 'simulation/server-locks.ts'
const PURGES = 'simulation/server-purges.ts'
const JOBS = 'core/src/memory/memory-idempotency.ts'
const MARKS = 'core/src/l1/purge-marks.ts'
const CONTENDER = 'locks/src/contender.ts'
const WAIT = 'core/src/flight/wait.ts'
const AWAITED = 'redis/src/delivery/pending-deliveries.ts'
const READ_FIRST = 'redis/src/protocol/plain-read.ts'
const VALIDITY = 'core/src/l1/validity.ts'

function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

const OF_PRESENT_LIFE = 'variants !== undefined && variants === record?.group'
const OF_GROUP = 'return variants !== undefined && variants === record.group'
const READ_OF_GROUP =
  'Buffer.isBuffer(group) && Buffer.isBuffer(variants) && group.equals(variants)'

const WITHOUT_GROUP: readonly Edit[] = [
  {
    file: RECORDS,
    from: OF_PRESENT_LIFE,
    to: 'variants === undefined || variants === record?.group',
  },
  {
    file: RECORDS,
    from: OF_GROUP,
    to: 'return variants === undefined || variants === record.group',
  },
  { file: READ_FIRST, from: READ_OF_GROUP, to: `variants === null || (${READ_OF_GROUP})` },
]

const [BEGAN, SOFTENED] = ["variants?.split(' ').at(-2)", "variants?.split(' ').at(-1)"]
const ENDS_LIKE = `${SOFTENED} === record?.group?.split(' ').at(-1)`

/**
 * A mutation that distinguishes lives by fences, whose order depends on the clock
 * (docs/decisions/0009).
 */
const BY_FENCE: readonly Edit[] = [
  { file: RECORDS, from: OF_PRESENT_LIFE, to: `${ENDS_LIKE} && Number(${BEGAN}) <= newest` },
  { file: RECORDS, from: OF_GROUP, to: `return ${ENDS_LIKE} && Number(${BEGAN}) <= record.fence` },
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
    MARKS,
    'named.push(pathSubject(path, undefined), pathSubject(path, host))',
    'void pathSubject(path, host)',
  ),
  drop(
    'a purge by route is ignored',
    MARKS,
    'if (isLater && matchesPattern(subject.slice(1), path)) yield last',
    'if (isLater && matchesPattern(subject.slice(1), path)) void last',
  ),
  {
    name: 'a commit is accepted without a check of its fence and token',
    edits: [
      {
        file: RECORDS,
        from: "if (record === undefined || record.fence !== fence) return 'FENCED'\n    if (group !== key && !this.#isOfGroup(record, group)) return 'FENCED'\n    if (record.token",
        to: "if (record === undefined) return 'FENCED'\n    if (record.fence < 0 && record.token",
      },
    ],
  },
  drop(
    'a waiter is not registered',
    RECORDS,
    "record.waiters.set(process, !usable && isTold === '1' ? token : '')",
  ),
  drop(
    'a purge leaves the lease, so a fill in flight commits after it',
    RECORDS,
    '} else if (!soft) {\n      this.#all.delete(key)',
    '} else if (!soft) {\n      dropEntry(record)',
  ),
  drop(
    'a lease is renewed for any process, also after it was lost',
    RECORDS,
    'if (record === undefined || text(record.fence) !== fence || record.token !== token)',
    "if (record === undefined || (fence === '' && token === ''))",
  ),
  drop(
    'a lease is granted while another process has it',
    RECORDS,
    'record?.token !== undefined && now < leaseUntil &&',
    'record?.token !== undefined && now < leaseUntil - 400 &&',
  ),
  drop(
    'purges by tag and of everything are ignored',
    MARKS,
    "if (last.hard > provenance.asOf) return 'purged'",
  ),
  {
    name: 'after the purge history was lost, older copies and entries are still used',
    edits: [
      { file: MARKS, from: "if (provenance.asOf < this.#oldestKnown) return 'purged'", to: '' },
      { file: 'core/src/flight/hints.ts', from: 'rt.l1.flush()', to: '' },
    ],
  },
  drop(
    'a fill claims to know all future purges',
    'core/src/flight/fill.ts',
    'Math.max(rt.store.position, rt.marks.newest)',
    'Number.MAX_SAFE_INTEGER',
  ),
  drop(
    'copies are used without a recent confirmation of the purges',
    VALIDITY,
    'return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS',
    'return since < Number.POSITIVE_INFINITY',
  ),
  drop(
    'a copy that was read before a purge is kept after it',
    'core/src/l1/l1.ts',
    'if (since < this.#forgotten || purgedAt > since) return false',
    'void purgedAt',
  ),
  {
    name: 'an older value is served for an error, also if it was purged',
    edits: [
      { file: VALIDITY, from: ' || rt.l1.wasPurgedSince(key, since)', to: '' },
      { file: VALIDITY, from: 'return afterPurges(rt, previous)', to: 'return previous' },
    ],
  },
  drop(
    'processes that ask for a key during its fill also fill it',
    'core/src/flight/resolve.ts',
    'const present = joinableFlight(rt, key)',
    'const present = undefined as Flight | undefined',
  ),
  {
    name: 'a wake-up is lost, and no waiter looks up again when the lease ends',
    edits: [
      { file: RECORDS, from: 'this.woken.push(process)', to: 'void process' },
      { file: WAIT, from: "() => resolve('lease-end')", to: '() => {}' },
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
    RECORDS,
    'undefined : (variants ??',
    "undefined : ('begun 0 0' ?? variants ??",
  ),
  drop(
    'a soft purge does not end the leases of variants',
    RECORDS,
    'text(Math.max(now, softenedAt + 1))',
    'text(softenedAt)',
  ),
  drop(
    'a fence is taken from the clock alone',
    RECORDS,
    'const fence = held ? newest : Math.max(this.#micros(), newest + 1)',
    'const fence = held ? newest : this.#micros()',
  ),
  drop(
    'a marker from the future counts',
    RECORDS,
    'moment !== undefined && now >= moment.set ?',
    'moment !== undefined && now + moment.set > 0 ?',
  ),
  drop(
    'an entry from the future is used',
    RECORDS,
    '(now < life.made || (isOutdated',
    '(now + life.made < 0 || (isOutdated',
  ),
  drop(
    'a lock from the future is left as it is',
    LOCKS,
    'if (now < lock.set) extend(',
    'if (now + lock.set < 0) extend(',
  ),
  drop(
    'a forked purge history is not detected',
    PURGES,
    // Either check alone notices the loss: the first new event, and the run of the server.
    'const isForked = isBehind || isUnknown',
    'const isForked = positionOf(meta.last) < at',
  ),
  drop(
    'a forked purge history that was trimmed afterwards is not detected',
    PURGES,
    'const isForked = isBehind || isUnknown',
    'const isForked = isBehind && at > 0',
  ),
  drop(
    'a read-only server confirms that no purge was missed',
    'redis/src/stores/purge-commands.ts',
    "this.#link.ask('PERSIST', meta)",
    'Promise.resolve(meta)',
  ),
  drop(
    'an older value is served for an error, also if its key was purged',
    VALIDITY,
    ' || rt.l1.wasPurgedSince(key, since)',
  ),
  drop(
    'the clock of a process stops while its machine is suspended',
    'core/src/ports/clock.ts',
    'if (changeMs > 0) missedMs += Math.ceil(changeMs)',
  ),
  drop(
    'a lease whose reply was lost is not given back',
    'redis/src/stores/redis-lookups.ts',
    'this.#undos.start(token, leaseMs, end)',
    'void [token, end]',
  ),
  drop(
    'no waiter looks up again when the lease ends',
    WAIT,
    "() => resolve('lease-end')",
    '() => {}',
  ),
  drop(
    'a delivered entry counts as made at the time of its use',
    AWAITED,
    'freshForMs: duration(freshMs - ageMs)',
    'freshForMs: duration(freshMs * 20 - ageMs)',
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
    'redis/src/connection/turn.ts',
    'turns.delete(stream)',
  ),
  drop(
    'a lock that is announced twice counts as another lock, and is given back',
    CONTENDER,
    'if (grant.token === this.#held?.token) return',
  ),
  drop(
    'a holder trusts its lock for three times its lease',
    'locks/src/lease.ts',
    'forMs - driftMs(forMs) - (this.#backend.clock.now() - from)',
    '3 * forMs - (this.#backend.clock.now() - from)',
  ),
  drop(
    'a lock continues after a refused renewal',
    'locks/src/create-lease.ts',
    'lost: () => lease.revoke(NOT_OURS),',
    'lost: () => renewed(clock.now()),',
  ),
  drop(
    'the end of a job is accepted without a check of its token',
    JOBS,
    "const isOurs = token !== '' && record?.token === token && isFence(record, fence)",
    'const isOurs = token.length + fence.length > 0 && record !== undefined',
  ),
  drop(
    'a completed job begins again',
    JOBS,
    'if (record.frame !== undefined) {',
    'if (record.frame !== undefined && now % 2 === 0) {',
  ),
  drop(
    'a job begins inside the lease of another attempt',
    JOBS,
    "if (record.state === 'running' && now < record.until) {",
    "if (record.state === 'running' && now < record.until - 200) {",
  ),
  {
    name: 'work continues after its lease has run out',
    edits: [
      {
        file: 'core/src/idempotency/running.ts',
        from: 'if (endsInMs <= 0) end()',
        to: 'if (endsInMs <= 0 || endsInMs > 0) void end',
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
    'core/src/flight/waiters.ts',
    'if (this.#isCounting) this.#startClock(rt, waiter)',
    'void rt',
  ),
]
