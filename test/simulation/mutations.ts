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

/** Lives are told apart by fences, whose order the clock decides (docs/decisions/0009). */
const BY_FENCE: readonly Edit[] = [
  { file: RECORDS, from: OF_PRESENT_LIFE, to: `${ENDS_LIKE} && Number(${BEGAN}) <= newest` },
  { file: RECORDS, from: OF_GROUP, to: `return ${ENDS_LIKE} && Number(${BEGAN}) <= record.fence` },
]

/** Of the leak fuzzer, which breaks far more of this kind. */
const SHARED_WITH_FUZZER = new Set([
  'a response with Set-Cookie is stored',
  'private is not heeded',
  'those who waited for an answer get it, also if it is not for them',
])

export const MUTATIONS: readonly Mutation[] = [
  ...STORING.filter(({ name }) => SHARED_WITH_FUZZER.has(name)),
  drop(
    'a purge by path is not heeded',
    MARKS,
    'named.push(pathSubject(path, undefined), pathSubject(path, host))',
    'void pathSubject(path, host)',
  ),
  drop(
    'a purge by route is not heeded',
    MARKS,
    'if (isLater && matchesPattern(subject.slice(1), path)) yield kept',
    'if (isLater && matchesPattern(subject.slice(1), path)) void kept',
  ),
  {
    name: 'a commit is accepted without a look at its fence and token',
    edits: [
      {
        file: RECORDS,
        from: "if (record === undefined || record.fence !== fence) return 'FENCED'\n    if (group !== key && !this.#isOfGroup(record, group)) return 'FENCED'\n    if (record.token",
        to: "if (record === undefined) return 'FENCED'\n    if (record.fence < 0 && record.token",
      },
    ],
  },
  drop(
    'who is told to wait is not registered',
    RECORDS,
    "record.waiters.set(process, !usable && isTold === '1' ? token : '')",
  ),
  drop(
    'a purge leaves the lease, so that a fill in flight is committed after it',
    RECORDS,
    '} else if (!soft) {\n      this.#all.delete(key)',
    '} else if (!soft) {\n      dropEntry(record)',
  ),
  drop(
    'a lease is renewed for whoever asks, also after it was lost',
    RECORDS,
    'if (record === undefined || text(record.fence) !== fence || record.token !== token)',
    "if (record === undefined || (fence === '' && token === ''))",
  ),
  drop(
    'a lease is given while another has it',
    RECORDS,
    'record?.token !== undefined && now < leaseUntil &&',
    'record?.token !== undefined && now < leaseUntil - 400 &&',
  ),
  drop(
    'purges by tag and of everything are not heeded',
    MARKS,
    "if (kept.hard > made.asOf) return 'void'",
  ),
  {
    name: 'when the history of purges was lost, copies and what was made before are used on',
    edits: [
      { file: MARKS, from: "if (made.asOf < this.#floor) return 'void'", to: '' },
      { file: 'core/src/flight/hints.ts', from: 'rt.l1.flush()', to: '' },
    ],
  },
  drop(
    'a fill says that it knows every purge there will be',
    'core/src/flight/fill.ts',
    'Math.max(rt.store.position, rt.marks.newest)',
    'Number.MAX_SAFE_INTEGER',
  ),
  drop(
    'copies are used however long ago purges were last heard of',
    VALIDITY,
    'return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS',
    'return since < Number.POSITIVE_INFINITY',
  ),
  drop(
    'what was read before a purge is kept after it',
    'core/src/l1/l1.ts',
    'if (since < this.#forgotten || purgedAt > since) return false',
    'void purgedAt',
  ),
  {
    name: 'an older value stands in for an error, also if it was purged',
    edits: [
      { file: VALIDITY, from: ' || rt.l1.wasPurgedSince(key, since)', to: '' },
      { file: VALIDITY, from: 'return afterPurges(rt, previous)', to: 'return previous' },
    ],
  },
  drop(
    'those who ask for a key that is being filled fill it, too',
    'core/src/flight/resolve.ts',
    'const present = joinable(rt, key)',
    'const present = undefined as Flight | undefined',
  ),
  {
    name: 'a wake-up is lost, and nobody looks again when the lease ends',
    edits: [
      { file: RECORDS, from: 'this.woken.push(process)', to: 'void process' },
      { file: WAIT, from: "() => resolve('lease-end')", to: '() => {}' },
    ],
  },
  {
    name: 'a variant is used, and committed, without the record of its group',
    edits: WITHOUT_GROUP,
  },
  {
    name: 'lives of a group are told apart by the order of their fences',
    edits: BY_FENCE,
  },
  drop(
    'each life of a group has the same name',
    RECORDS,
    'undefined : (variants ??',
    "undefined : ('begun 0 0' ?? variants ??",
  ),
  drop(
    'a soft purge of a group leaves the leases of its variants',
    RECORDS,
    'text(Math.max(now, softenedAt + 1))',
    'text(softenedAt)',
  ),
  drop(
    'a lease is given a fence of the clock alone',
    RECORDS,
    'const fence = held ? newest : Math.max(this.#micros(), newest + 1)',
    'const fence = held ? newest : this.#micros()',
  ),
  drop(
    'a mark that was set after now counts',
    RECORDS,
    'moment !== undefined && now >= moment.set ?',
    'moment !== undefined && now + moment.set > 0 ?',
  ),
  drop(
    'an entry that was made after now is used',
    RECORDS,
    '(now < life.made || (isOutdated',
    '(now + life.made < 0 || (isOutdated',
  ),
  drop(
    'a lock that was given after now is left as it is',
    LOCKS,
    'if (now < lock.set) extend(',
    'if (now + lock.set < 0) extend(',
  ),
  drop(
    'a history that forked is taken for one that goes on',
    PURGES,
    // Either rule alone notices it: the first entry that is new, and the run of the server.
    'const isForked = isBehind || isUnknown',
    'const isForked = positionOf(meta.last) < at',
  ),
  drop(
    'a history that forked, and was cut after it, is taken for one that goes on',
    PURGES,
    'const isForked = isBehind || isUnknown',
    'const isForked = isBehind && at > 0',
  ),
  drop(
    'a server that only reads confirms that no purge was missed',
    'redis/src/stores/purge-commands.ts',
    "this.#link.ask('PERSIST', meta)",
    'Promise.resolve(meta)',
  ),
  drop(
    'an older value stands in for an error, also if its key was purged',
    VALIDITY,
    ' || rt.l1.wasPurgedSince(key, since)',
  ),
  drop(
    'the clock of a process stands still while its machine is suspended',
    'core/src/ports/clock.ts',
    'if (byMs > 0) missedMs += Math.ceil(byMs)',
  ),
  drop(
    'a lease of which nobody heard is not given back',
    'redis/src/stores/redis-lookups.ts',
    'this.#undos.start(token, leaseMs, () => this.#link.run(endLease, key, ending))',
    'void [ending, token]',
  ),
  drop('nobody looks again when the lease ends', WAIT, "() => resolve('lease-end')", '() => {}'),
  drop(
    'what was told is taken for as fresh as if it were made now',
    AWAITED,
    'freshForMs: duration(freshMs - ageMs)',
    'freshForMs: duration(freshMs * 20 - ageMs)',
  ),
  drop(
    'what is read first is used without a look at the purges of its group',
    READ_FIRST,
    READ_OF_GROUP,
    'Buffer.isBuffer(group) || Buffer.isBuffer(variants)',
  ),
  drop(
    'what is read first is used also if it is stale',
    READ_FIRST,
    'fence === 0 || !(serverNow < fresh)',
    'Number.isNaN(serverNow + fresh)',
  ),
  drop(
    'the time of the server is asked for once, and never again',
    'redis/src/connection/turn.ts',
    'turns.delete(stream)',
  ),
  drop(
    'a lock that is announced twice is taken for another, and passed on',
    CONTENDER,
    'if (grant.token === this.#held?.token) return',
  ),
  drop(
    'a holder believes in its lock for three times its lease',
    'locks/src/lease.ts',
    'forMs - driftMs(forMs) - (this.#backend.clock.now() - from)',
    '3 * forMs - (this.#backend.clock.now() - from)',
  ),
  drop(
    'a lock goes on whose renewal was refused',
    'locks/src/create-lease.ts',
    'lost: () => lease.revoke(NOT_OURS),',
    'lost: () => renewed(clock.now()),',
  ),
  drop(
    'the end of a job is accepted without its token',
    JOBS,
    "const isOurs = token !== '' && record?.token === token && isFence(record, fence)",
    'const isOurs = token.length + fence.length > 0 && record !== undefined',
  ),
  drop(
    'a job that completed is begun again',
    JOBS,
    'if (record.frame !== undefined) {',
    'if (record.frame !== undefined && now % 2 === 0) {',
  ),
  drop(
    'a job is begun inside the lease of another',
    JOBS,
    "if (record.state === 'running' && now < record.until) {",
    "if (record.state === 'running' && now < record.until - 200) {",
  ),
  {
    name: 'work goes on after its lease has run out',
    edits: [
      {
        file: 'core/src/idempotency/running.ts',
        from: 'if (endsInMs <= 0) end()',
        to: 'if (endsInMs <= 0 || endsInMs > 0) void end',
      },
      {
        file: 'core/src/idempotency/running.ts',
        from: 'if (this.#rt.clock.now() >= this.#leaseEndsAt) this.#lost(LATE)',
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
