// Parts of the protocol, each with a way to break it. The simulation has to notice every one.

import type { Edit, Mutation } from '../leak-fuzz/mutation.ts'
import { STORING } from '../leak-fuzz/mutations-storing.ts'

const RECORDS = 'core/src/memory/memory-store.ts'
const JOBS = 'core/src/memory/memory-idempotency.ts'
const MARKS = 'core/src/cache/purge-marks.ts'
const CONTENDER = 'locks/src/contender.ts'
const WAIT = 'core/src/cache/wait.ts'
const AWAITED = 'redis/src/awaited.ts'
const READ_FIRST = 'redis/src/read-first.ts'

function drop(name: string, file: string, from: string, to = ''): Mutation {
  return { name, edits: [{ file, from, to }] }
}

const NO_FENCE: readonly Edit[] = [
  {
    file: RECORDS,
    from: "if (record === undefined || String(record.fence) !== grant.fence) return 'fenced'",
    to: "if (record === undefined) return 'fenced'",
  },
  {
    file: RECORDS,
    from: "if (record.token !== grant.token) return entry?.fence === grant.fence ? 'committed' : 'fenced'",
    to: '',
  },
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
  { name: 'a commit is accepted without a look at its fence and token', edits: NO_FENCE },
  drop(
    'who is told to wait is not registered',
    RECORDS,
    'if (request.leaseMs > 0) record.waiting = true',
  ),
  drop(
    'a purge leaves the lease, so that a fill in flight is committed after it',
    RECORDS,
    'this.#records.delete(key)\n',
    'record.entry = undefined\n',
  ),
  drop(
    'a lease is renewed for whoever asks, also after it was lost',
    RECORDS,
    'if (record === undefined || !isGrantOf(record, grant)) return false',
    'if (record === undefined) return false',
  ),
  drop(
    'a lease is given while another has it',
    RECORDS,
    "const isHeld = record.token !== '' && now < record.leaseUntil",
    "const isHeld = record.token !== '' && now < record.leaseUntil - 400",
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
      { file: 'core/src/cache/hints.ts', from: 'rt.l1.flush()', to: '' },
    ],
  },
  drop(
    'a fill says that it knows every purge there will be',
    'core/src/cache/fill.ts',
    'Math.max(rt.store.position, rt.marks.newest)',
    'Number.MAX_SAFE_INTEGER',
  ),
  drop(
    'copies are used however long ago purges were last heard of',
    'core/src/cache/trust.ts',
    'return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS',
    'return since < Number.POSITIVE_INFINITY',
  ),
  drop(
    'what was read before a purge is kept after it',
    'core/src/cache/l1.ts',
    'if (since < this.#forgotten || purgedAt > since) return false',
    'void purgedAt',
  ),
  drop(
    'an older value stands in for an error, also if it was purged',
    'core/src/data/get-or-set.ts',
    'previous && trusted(this.#rt, previous)',
    'previous',
  ),
  drop(
    'those who ask for a key that is being filled fill it, too',
    'core/src/cache/resolve.ts',
    'const present = joinable(rt, key)',
    'const present = undefined as Flight | undefined',
  ),
  {
    name: 'a wake-up is lost, and nobody looks again when the lease ends',
    edits: [
      { file: RECORDS, from: 'queueMicrotask(() => this.#hooks?.onWake(key))', to: 'void key' },
      { file: WAIT, from: "() => resolve('lease-end')", to: '() => {}' },
    ],
  },
  drop('nobody looks again when the lease ends', WAIT, "() => resolve('lease-end')", '() => {}'),
  drop(
    'what a process was told is not forgotten when something is purged',
    'redis/src/redis-lookups.ts',
    'this.#awaited.forget()',
  ),
  drop(
    'what is told of another fill than that which is waited for is used',
    AWAITED,
    ' || wait.fence !== filled.fence',
  ),
  drop(
    'what was told is used however long ago it was made',
    AWAITED,
    'agoMs > LATE_MS || agoMs >= freshMs',
    '!Number.isFinite(LATE_MS)',
  ),
  drop(
    'what was told is used also by those who know that it is outdated',
    AWAITED,
    ' || outdated || early',
  ),
  drop(
    'what was told is taken for as fresh as if it were made now',
    AWAITED,
    'freshForMs: duration(freshMs - ageMs)',
    'freshForMs: duration(freshMs * 20 - ageMs)',
  ),
  drop(
    'what is read first is used without a look at the purges of its group',
    READ_FIRST,
    '!(stored > Number(stamps[0] ?? 0) && fence > Number(stamps[1] ?? 0))',
    'stamps.length > STAMPS.length',
  ),
  drop(
    'what is read first is used also if it is stale',
    READ_FIRST,
    '!(serverNow < fresh)',
    'Number.isNaN(serverNow)',
  ),
  drop(
    'what is read first is used also by those who know that it is outdated',
    READ_FIRST,
    'return knownFence === undefined && outdated === undefined && early !== true',
    'return knownFence === undefined',
  ),
  drop(
    'the time of the server is asked for once, and never again',
    'redis/src/turn.ts',
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
    'forMs - driftMs(forMs) - elapsedMs(this.#landlord.clock, from)',
    '3 * forMs - elapsedMs(this.#landlord.clock, from)',
  ),
  drop(
    'a lock goes on whose renewal was refused',
    'locks/src/create-lease.ts',
    'lost: () => lease.revoke(NOT_OURS),',
    'lost: () => renewed(now(clock)),',
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
  drop(
    'work goes on after its lease has run out',
    'core/src/idempotency/running.ts',
    'if (endsInMs <= 0) end()',
    'if (endsInMs <= 0 || endsInMs > 0) void end',
  ),
  drop(
    'a call waits without a limit',
    'core/src/cache/flight.ts',
    'if (this.counting) startClock(rt, waiter)',
    'void rt',
  ),
]
