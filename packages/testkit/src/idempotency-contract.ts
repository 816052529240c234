// The contract of IdempotencyStore, as a test suite. Two attached stores on the same data stand for
// two processes. The memory store serves one process, so it is used for both.

import {
  type BeginReply,
  type BeginRequest,
  type Fingerprints,
  type Grant,
  type IdempotencyHooks,
  type IdempotencyStore,
  systemClock,
} from '@stampede/core/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

export interface IdempotencyBench {
  /** Opens the stores of two processes on the same empty data. With one process, `a` is `b`. */
  open(): Promise<{ a: IdempotencyStore; b: IdempotencyStore }>
  /** Lets this time pass for the store. */
  pass(ms: number): Promise<void>
  /** The clock of the stores. Default: the system clock. */
  clock?: IdempotencyHooks['clock']
  close?(): Promise<void>
}

type Begun = Extract<BeginReply, { status: 'begun' }>

/** The messages that a process received: wake-ups and settled keys. */
interface Told {
  readonly woken: string[]
  readonly settled: string[]
}

const LEASE_MS = 250
/** Slightly longer than the lease. */
const OVER_MS = 280
const LONG_MS = 10_000
const KEEP_MS = 60_000
const PRINTS: Fingerprints = { exact: 'e', canonical: 'c' }
const OTHER: Fingerprints = { exact: 'e2', canonical: 'c2' }

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (from: Uint8Array | undefined): string => new TextDecoder().decode(from)
const completed = (answer: string, keepMs = KEEP_MS) =>
  ({ as: 'completed', frame: bytes(answer), keepMs }) as const
const released = (keepMs = KEEP_MS) => ({ as: 'released', keepMs }) as const
const uncertain = (keepMs = KEEP_MS) => ({ as: 'uncertain', keepMs }) as const
const UNFORCED = { force: false }
const FORCED = { force: true }

/** The two stores of a test, with helpers for calls of them. */
class Stage {
  a: IdempotencyStore
  b: IdempotencyStore
  readonly toldA: Told
  readonly toldB: Told
  readonly bench: IdempotencyBench

  constructor(bench: IdempotencyBench, a: IdempotencyStore, b: IdempotencyStore) {
    this.bench = bench
    this.a = a
    this.b = b
    this.toldA = attach(a, bench)
    this.toldB = b === a ? this.toldA : attach(b, bench)
  }

  begin(
    store: IdempotencyStore,
    token: string,
    more: Partial<BeginRequest> = {},
    key = 'k',
  ): Promise<BeginReply> {
    return store.begin(key, {
      token,
      fingerprints: PRINTS,
      leaseMs: LONG_MS,
      retentionMs: KEEP_MS,
      onLeaseExpired: 'takeover',
      maxAttempts: 10,
      keepUncertainMs: KEEP_MS,
      wait: false,
      ...more,
    })
  }

  async begun(
    store: IdempotencyStore,
    token: string,
    more: Partial<BeginRequest> = {},
    key = 'k',
  ): Promise<Begun> {
    const reply = await this.begin(store, token, more, key)
    if (reply.status !== 'begun') throw new Error(`got ${reply.status}`)
    return reply
  }

  /** Begins an attempt and lets its lease end. Returns its grant. */
  async lapsed(token = '1', more: Partial<BeginRequest> = {}): Promise<Grant> {
    const { grant } = await this.begun(this.a, token, { leaseMs: LEASE_MS, ...more })
    await this.bench.pass(OVER_MS)
    return grant
  }

  /** Begins an attempt whose lease ends, so that its key becomes uncertain. Returns its grant. */
  async lapsedIntoUncertain(more: Partial<BeginRequest> = {}): Promise<Grant> {
    const grant = await this.lapsed()
    const reply = await this.begin(this.b, '2', { onLeaseExpired: 'uncertain', ...more })
    expect(reply).toEqual({ status: 'uncertain' })
    return grant
  }

  async status(fingerprints: Fingerprints = PRINTS): Promise<string> {
    return (await this.begin(this.b, 'asking', { fingerprints })).status
  }

  /** The stored response of the key if it is completed, otherwise its status. */
  async answer(): Promise<string> {
    const reply = await this.begin(this.b, 'reading')
    return reply.status === 'completed' ? text(reply.frame) : reply.status
  }

  /**
   * Sends each process another wake-up and awaits it, so that all earlier messages have arrived.
   */
  async allHeard(): Promise<void> {
    for (const [i, store] of [this.a, this.b].entries()) {
      const key = `echo ${i}`
      const { grant } = await this.begun(store, 'echo', {}, key)
      await this.begin(store, 'waits', { wait: true }, key)
      await store.finish(grant, released(), PRINTS)
      const { woken } = store === this.a ? this.toldA : this.toldB
      await eventually(() => expect(woken).toContain(key))
      woken.splice(woken.indexOf(key), 1)
    }
  }
}

function attach(store: IdempotencyStore, bench: IdempotencyBench): Told {
  const told: Told = { woken: [], settled: [] }
  store.attach({
    clock: bench.clock ?? systemClock,
    onWake: (key) => void told.woken.push(key),
    onSettled: (key) => void told.settled.push(key),
    onGap: () => {},
    onBack: () => {},
    onLost: () => {},
    onError: () => {},
  })
  return told
}

/**
 * Awaits the wake-up of `k`. In a cluster, messages about other keys may come before it or after
 * it.
 */
async function expectWoken({ woken }: Told): Promise<void> {
  await eventually(() => expect(woken).toEqual(['k']))
}

/**
 * `half`: every other part only. Two halves can run concurrently, because most of their time is
 * waiting.
 */
export function idempotencyStoreContract(
  name: string,
  bench: IdempotencyBench,
  half?: 0 | 1,
): void {
  describe(`${name} keeps the contract of an idempotency store:`, () => {
    let stage: Stage
    const on = (): Stage => stage
    beforeEach(async () => {
      const { a, b } = await bench.open()
      stage = new Stage(bench, a, b)
    })
    afterEach(async () => {
      await stage.a.close()
      if (stage.b !== stage.a) await stage.b.close()
      await bench.close?.()
    })

    it('serves one user', () => {
      expect(() => attach(on().a, bench)).toThrow(
        expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
      )
    })
    for (const [i, [title, part]] of PARTS.entries()) {
      if (half === undefined || i % 2 === half) describe(title, () => part(on))
    }
  })
}

function beginning(on: () => Stage): void {
  it('lets one of all who ask begin; the others are told how long it is busy, at most', async () => {
    const { a, b } = on()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) => on().begin(i % 2 === 0 ? a : b, `${i}`)),
    )
    expect(replies.filter(({ status }) => status === 'begun')).toHaveLength(1)
    for (const reply of replies) {
      if (reply.status === 'begun') continue
      if (reply.status !== 'busy') throw new Error(`got ${reply.status}`)
      expect(reply.forMs).toBeGreaterThan(LONG_MS - 5_000)
      expect(reply.forMs).toBeLessThanOrEqual(LONG_MS)
    }
  })

  it('counts from 1, and the first is no recovery and knows no steps', async () => {
    const reply = await on().begun(on().a, '1')
    expect(reply).toMatchObject({ attempt: 1, isRecovery: false, steps: new Map() })
    expect(reply.grant).toMatchObject({ key: 'k', token: '1' })
    expect(reply.grant.fence).toMatch(/^[1-9]\d*$/)
  })

  it('repeated by the same token while it runs returns the same grant, and does not lengthen it', async () => {
    const first = await on().begun(on().a, '1', { leaseMs: 2_000 })
    await on().bench.pass(100)
    expect(await on().begun(on().a, '1')).toEqual(first)
    const other = await on().begin(on().b, '2')
    if (other.status !== 'busy') throw new Error(`got ${other.status}`)
    expect(other.forMs).toBeLessThanOrEqual(1_910)
  })

  it('repeated by the same token after a takeover of its own still tells of the recovery', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: LEASE_MS })
    await on().a.keepStep(grant, 'pay', bytes('paid'))
    await on().bench.pass(OVER_MS)
    const first = await on().begun(on().b, '2')
    expect(first).toMatchObject({ attempt: 2, isRecovery: true })
    expect(await on().begun(on().b, '2')).toEqual(first)
    expect(text(first.steps.get('pay'))).toBe('paid')
  })

  it('returns the frame of what completed, and for how long it is kept, to everybody', async () => {
    const { grant } = await on().begun(on().a, '1')
    const frame = Uint8Array.from({ length: 256 }, (_, i) => i)
    await on().a.finish(grant, { as: 'completed', frame, keepMs: 30_000 }, PRINTS)
    for (const store of [on().a, on().b]) {
      const reply = await on().begin(store, '2')
      if (reply.status !== 'completed') throw new Error(`got ${reply.status}`)
      expect(Uint8Array.from(reply.frame)).toEqual(frame)
      expect(reply.forMs).toBeGreaterThan(25_000)
      expect(reply.forMs).toBeLessThanOrEqual(30_000)
    }
  })

  it('knows an empty frame from none', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().a.finish(grant, completed(''), PRINTS)
    expect(await on().begin(on().b, '2')).toMatchObject({ status: 'completed' })
    expect((await on().a.inspect('k'))?.frame?.byteLength).toBe(0)
  })

  it('raises the fence with every attempt, also within one moment', async () => {
    let before = 0n
    for (let i = 0; i < 100; i++) {
      const store = i % 2 === 0 ? on().a : on().b
      const { grant, attempt } = await on().begun(store, `${i}`)
      expect(attempt).toBe(i + 1)
      expect(BigInt(grant.fence)).toBeGreaterThan(before)
      before = BigInt(grant.fence)
      await store.finish(grant, released(), PRINTS)
    }
  })

  it('does not mix keys up, whatever is in them', async () => {
    const keys = ['a', 'a b', '{a}', 'a:b', 'i:a', 'ä\n"', ' ', 'x'.repeat(10_000)]
    for (const key of keys) {
      const { grant } = await on().begun(on().a, '1', {}, key)
      expect(await on().a.finish(grant, completed(key), PRINTS)).toBe('finished')
    }
    for (const key of keys) {
      const reply = await on().begin(on().b, '2', {}, key)
      expect(reply.status === 'completed' && text(reply.frame)).toBe(key)
    }
  })
}

function mismatching(on: () => Stage): void {
  const states: ReadonlyArray<readonly [string, () => Promise<unknown>]> = [
    ['runs', () => on().begun(on().a, '1')],
    ['has a lease that is over', () => on().lapsed()],
    ['is uncertain', () => on().lapsedIntoUncertain()],
    ['was released', async () => end(on(), released())],
    ['completed', async () => end(on(), completed('done'))],
  ]
  it.each(states)('with other fingerprints is a mismatch while the key %s', async (_, prepare) => {
    await prepare()
    expect(await on().status(OTHER)).toBe('mismatch')
    expect(await on().status({ exact: 'c', canonical: 'e' })).toBe('mismatch')
  })

  it('that is a mismatch changes nothing', async () => {
    await on().lapsed()
    const before = await on().a.inspect('k')
    expect(await on().status(OTHER)).toBe('mismatch')
    const { attempt, state, fence } = (await on().a.inspect('k')) ?? {}
    expect([attempt, state, fence]).toEqual([before?.attempt, 'lapsed', before?.fence])
  })

  it('is a mismatch also for the token that runs', async () => {
    await on().begun(on().a, '1')
    expect(await on().begin(on().a, '1', { fingerprints: OTHER })).toEqual({ status: 'mismatch' })
  })

  it.each([
    ['the bytes', { exact: 'e', canonical: 'c2' }],
    ['the bytes, the meaning not known', { exact: 'e', canonical: '' }],
    ['the meaning', { exact: 'e2', canonical: 'c' }],
    ['the meaning, the bytes not known', { exact: '', canonical: 'c' }],
  ])('is the same request by %s', async (_, fingerprints) => {
    await end(on(), completed('done'))
    expect(await on().status(fingerprints)).toBe('completed')
  })

  it('is not the same because nothing is known of both', async () => {
    const fingerprints = { exact: '', canonical: 'c' }
    await on().begun(on().a, '1', { fingerprints })
    expect(await on().status({ exact: '', canonical: 'x' })).toBe('mismatch')
    expect(await on().status({ exact: 'e', canonical: '' })).toBe('mismatch')
  })

  it('that runs it again does not change what the key was first used for', async () => {
    await end(on(), released())
    await on().begun(on().a, '2', { fingerprints: { exact: 'e', canonical: 'c2' } })
    expect(await on().status({ exact: 'x', canonical: 'c2' })).toBe('mismatch')
    expect(await on().status({ exact: 'x', canonical: 'c' })).toBe('busy')
  })
}

async function end(stage: Stage, finish: Parameters<IdempotencyStore['finish']>[1]) {
  const { grant } = await stage.begun(stage.a, '1')
  expect(await stage.a.finish(grant, finish, PRINTS)).toBe('finished')
  return grant
}

function lapsing(on: () => Stage): void {
  it('is taken over: the next attempt, a greater fence, a recovery', async () => {
    const first = await on().lapsed()
    const second = await on().begun(on().b, '2')
    expect(second).toMatchObject({ attempt: 2, isRecovery: true })
    expect(BigInt(second.grant.fence)).toBeGreaterThan(BigInt(first.fence))
    expect(await on().status()).toBe('busy')
  })

  it('is taken over by one of a hundred who come at once', async () => {
    await on().lapsed()
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, i) => on().begin(i % 2 === 0 ? on().a : on().b, `r${i}`)),
    )
    const begun = replies.filter(({ status }) => status === 'begun')
    expect(begun).toEqual([expect.objectContaining({ attempt: 2, isRecovery: true })])
    expect(replies.filter(({ status }) => status === 'busy')).toHaveLength(99)
  })

  it('is uncertain if that was asked for, and nobody runs it', async () => {
    await on().lapsedIntoUncertain()
    expect(await on().status()).toBe('uncertain')
    expect(await on().a.inspect('k')).toMatchObject({ state: 'uncertain', attempt: 1 })
  })

  it('is uncertain after as many attempts in a row as are allowed', async () => {
    for (const token of ['1', '2', '3']) {
      const more = { leaseMs: LEASE_MS, maxAttempts: 3 }
      expect(await on().begun(on().a, token, more)).toMatchObject({ attempt: Number(token) })
      await on().bench.pass(OVER_MS)
    }
    expect(await on().begin(on().b, '4', { maxAttempts: 3 })).toEqual({ status: 'uncertain' })
    expect(await on().begin(on().b, '5', { maxAttempts: 9 })).toEqual({ status: 'uncertain' })
  })

  it('does not count any more when a later attempt was released', async () => {
    const more = { leaseMs: LEASE_MS, maxAttempts: 2 }
    await on().lapsed('1', more)
    const second = await on().begun(on().a, '2', more)
    await on().a.finish(second.grant, released(), PRINTS)
    // The first attempt may have done a part of the work.
    expect(await on().begun(on().a, '3', more)).toMatchObject({ attempt: 3, isRecovery: true })
    await on().bench.pass(OVER_MS)
    expect(await on().begun(on().a, '4', more)).toMatchObject({ attempt: 4, isRecovery: true })
    await on().bench.pass(OVER_MS)
    expect((await on().begin(on().a, '5', more)).status).toBe('uncertain')
  })
}

function renewing(on: () => Stage): void {
  it('keeps a lease, and answers for each grant by itself', async () => {
    const { grant: mine } = await on().begun(on().a, '1', { leaseMs: 500 })
    const over = await on().begun(on().a, '1', { leaseMs: 500 }, 'overtaken')
    await on().bench.pass(300)
    expect(await on().a.renew([mine], 500)).toEqual([true])
    await on().bench.pass(300)
    await on().begun(on().b, '2', {}, 'overtaken')
    expect(await on().status()).toBe('busy')
    const unknown = { ...mine, key: 'never begun' }
    expect(await on().a.renew([over.grant, mine, unknown], LONG_MS)).toEqual([false, true, false])
    expect(await on().a.renew([], LONG_MS)).toEqual([])
  })

  it('revives a lease that ran out while nobody came', async () => {
    const grant = await on().lapsed()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([true])
    expect(await on().status()).toBe('busy')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('does not bring back what is %s', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect((await on().a.inspect('k'))?.state).toBe(finish.as)
  })
}

function finishing(on: () => Stage): void {
  it('as completed is for good: nobody runs it again, and nothing changes it', async () => {
    const grant = await end(on(), completed('first'))
    expect(await on().a.finish(grant, completed('second'), PRINTS)).toBe('finished')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
    expect(await on().a.finish(grant, uncertain(), PRINTS)).toBe('stale')
    expect(await on().answer()).toBe('first')
  })

  it('as released lets the next begin at once; attempt, fence and steps go on', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().a.keepStep(grant, 'pay', bytes('paid'))
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('finished')
    const next = await on().begun(on().b, '2')
    expect(next).toMatchObject({ attempt: 2, isRecovery: false })
    expect(text(next.steps.get('pay'))).toBe('paid')
    expect(BigInt(next.grant.fence)).toBeGreaterThan(BigInt(grant.fence))
  })

  it('as uncertain lets nobody begin', async () => {
    await end(on(), uncertain())
    expect(await on().status()).toBe('uncertain')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('as %s can be repeated, and only by the same attempt', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.finish(grant, finish, PRINTS)).toBe('finished')
    expect(await on().b.finish({ ...grant, token: 'x' }, finish, PRINTS)).toBe('stale')
    expect(await on().b.finish({ ...grant, fence: '1' }, finish, PRINTS)).toBe('stale')
  })

  it('needs both names of the grant', async () => {
    const { grant } = await on().begun(on().a, '1')
    const done = completed('done')
    expect(await on().a.finish({ ...grant, token: 'x' }, done, PRINTS)).toBe('stale')
    expect(await on().a.finish({ ...grant, fence: '1' }, done, PRINTS)).toBe('stale')
    expect(await on().status()).toBe('busy')
  })

  it('of a release repeated after another began is stale', async () => {
    const grant = await end(on(), released())
    const next = await on().begun(on().b, '2')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
    expect(await on().b.renew([next.grant], LONG_MS)).toEqual([true])
  })

  it('as completed writes a record again that was lost, with what the request was', async () => {
    const grant: Grant = { key: 'k', token: '1', fence: '1700000000000000' }
    expect(await on().a.finish(grant, completed('done'), PRINTS)).toBe('resurrected')
    expect(await on().a.finish(grant, completed('other'), PRINTS)).toBe('finished')
    expect(await on().answer()).toBe('done')
    expect(await on().status(OTHER)).toBe('mismatch')
    const inspection = await on().a.inspect('k')
    expect(inspection).toMatchObject({ state: 'completed', fence: grant.fence, steps: [] })
    expect(inspection?.keepForMs).toBeGreaterThan(KEEP_MS - 5_000)
    expect(inspection?.keepForMs).toBeLessThanOrEqual(KEEP_MS)
  })

  it.each([
    ['released', released()],
    ['uncertain', uncertain()],
  ])('as %s of a record that was lost is stale, and writes nothing', async (_, finish) => {
    const grant: Grant = { key: 'k', token: '1', fence: '1700000000000000' }
    expect(await on().a.finish(grant, finish, PRINTS)).toBe('stale')
    expect(await on().a.inspect('k')).toBeUndefined()
  })
}

function comingLate(on: () => Stage): void {
  it.each([
    ['completed', completed('late'), 'completed'],
    ['released', released(), 'begun'],
    ['uncertain', uncertain(), 'uncertain'],
  ])('finishes as %s as long as nobody took over', async (_, finish, status) => {
    const grant = await on().lapsed()
    expect(await on().a.finish(grant, finish, PRINTS)).toBe('finished')
    expect(await on().status()).toBe(status)
  })

  it('settles by itself what was uncertain because of it', async () => {
    const grant = await on().lapsedIntoUncertain()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([true])
    expect(await on().status()).toBe('uncertain')
    expect(await on().a.finish(grant, completed('late'), PRINTS)).toBe('finished')
    expect(await on().answer()).toBe('late')
  })

  it('has no effect once another took over, whatever it says', async () => {
    const late = await on().lapsed()
    const { grant } = await on().begun(on().b, '2')
    const before = await on().b.inspect('k')
    for (const finish of [completed('late'), released(), uncertain()]) {
      expect(await on().a.finish(late, finish, PRINTS)).toBe('stale')
    }
    expect(await on().a.renew([late], LONG_MS)).toEqual([false])
    expect(await on().a.keepStep(late, 'pay', bytes('late'))).toBe('stale')
    const after = await on().b.inspect('k')
    expect([after?.state, after?.fence, after?.steps]).toEqual(['running', before?.fence, []])
    expect(await on().b.finish(grant, completed('second'), PRINTS)).toBe('finished')
    expect(await on().a.finish(late, completed('late'), PRINTS)).toBe('stale')
    expect(await on().answer()).toBe('second')
  })
}

function keepingSteps(on: () => Stage): void {
  it('is remembered over a release and over a takeover, the last of its name', async () => {
    const first = await on().begun(on().a, '1')
    expect(await on().a.keepStep(first.grant, 'pay', bytes('1'))).toBe('kept')
    expect(await on().a.keepStep(first.grant, 'pay', bytes('2'))).toBe('kept')
    await on().a.finish(first.grant, released(), PRINTS)
    const second = await on().begun(on().b, '2', { leaseMs: LEASE_MS })
    expect(await on().b.keepStep(second.grant, 'mail', new Uint8Array([0, 255]))).toBe('kept')
    await on().bench.pass(OVER_MS)
    const { steps, attempt } = await on().begun(on().a, '3')
    expect(attempt).toBe(3)
    expect([...steps.keys()].sort()).toEqual(['mail', 'pay'])
    expect(text(steps.get('pay'))).toBe('2')
    expect([...(steps.get('mail') ?? [])]).toEqual([0, 255])
  })

  it('may have any name, and never meets a field of the store’s own', async () => {
    const { grant } = await on().begun(on().a, '1')
    const names = [
      '',
      'token',
      'fence',
      's:v',
      'w:p',
      's',
      'v',
      '__proto__',
      'ü "\n',
      'x'.repeat(999),
    ]
    for (const name of names) await on().a.keepStep(grant, name, bytes(`of ${name}`))
    expect((await on().a.inspect('k'))?.steps.toSorted()).toEqual(names.toSorted())
    const { steps } = await on().begun(on().a, '1')
    for (const name of names) expect(text(steps.get(name))).toBe(`of ${name}`)
    expect(await on().a.finish(grant, completed('done'), PRINTS)).toBe('finished')
  })

  it('of a lease that is over is kept as long as nobody took over', async () => {
    const grant = await on().lapsed()
    expect(await on().a.keepStep(grant, 'pay', bytes('paid'))).toBe('kept')
    const { steps } = await on().begun(on().b, '2')
    expect(text(steps.get('pay'))).toBe('paid')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('of what is %s is stale', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.keepStep(grant, 'pay', bytes('late'))).toBe('stale')
    expect((await on().a.inspect('k'))?.steps).toEqual([])
  })

  it('of what is not there is stale, and writes nothing', async () => {
    const grant: Grant = { key: 'k', token: '1', fence: '5' }
    expect(await on().a.keepStep(grant, 'pay', bytes('paid'))).toBe('stale')
    expect(await on().a.inspect('k')).toBeUndefined()
  })
}

function waking(on: () => Stage): void {
  const wait = (store: IdempotencyStore) => on().begin(store, 'w', { wait: true })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('is woken once when the attempt is %s', async (_, finish) => {
    const { grant } = await on().begun(on().a, '1')
    await wait(on().b)
    await wait(on().b)
    await on().a.finish(grant, finish, PRINTS)
    await on().a.finish(grant, finish, PRINTS)
    await on().allHeard()
    await expectWoken(on().toldB)
  })

  it('is woken in every process', async () => {
    const { grant } = await on().begun(on().a, '1')
    await wait(on().a)
    await wait(on().b)
    await on().a.finish(grant, completed('done'), PRINTS)
    await on().allHeard()
    await expectWoken(on().toldA)
    await expectWoken(on().toldB)
  })

  it('is not woken if it did not ask for it', async () => {
    const { grant } = await on().begun(on().a, '1')
    expect(await on().status()).toBe('busy')
    await on().a.finish(grant, completed('done'), PRINTS)
    await on().allHeard()
    expect(on().toldB.woken).toEqual([])
  })

  it('for an attempt that is taken over is woken when the one after it ends', async () => {
    await on().begun(on().a, '1', { leaseMs: LEASE_MS })
    await wait(on().b)
    await on().bench.pass(OVER_MS)
    const { grant } = await on().begun(on().a, '2')
    await on().allHeard()
    expect(on().toldB.woken).toEqual([])
    await on().a.finish(grant, completed('done'), PRINTS)
    await on().allHeard()
    await expectWoken(on().toldB)
  })
}

function inspecting(on: () => Stage): void {
  it('knows nothing of a key that was never used', async () => {
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('tells what runs, for how long, since when, and with which steps', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: 5_000, retentionMs: 30_000 })
    await on().a.keepStep(grant, 'pay', bytes('paid'))
    await on().bench.pass(100)
    const inspection = await on().b.inspect('k')
    const { fence } = grant
    expect(inspection).toMatchObject({ state: 'running', attempt: 1, fence, steps: ['pay'] })
    expect(inspection?.frame).toBeUndefined()
    expect(inspection?.leaseForMs).toBeGreaterThan(2_000)
    expect(inspection?.leaseForMs).toBeLessThanOrEqual(4_910)
    expect(inspection?.ageMs).toBeGreaterThanOrEqual(90)
    expect(inspection?.ageMs).toBeLessThan(3_000)
    expect(inspection?.keepForMs).toBeLessThanOrEqual(30_000)
  })

  it('tells that a lease is over, counts attempts, and the age from the first of them', async () => {
    await on().lapsed()
    expect(await on().a.inspect('k')).toMatchObject({ state: 'lapsed', leaseForMs: 0, attempt: 1 })
    await on().begun(on().b, '2')
    const inspection = await on().a.inspect('k')
    expect(inspection).toMatchObject({ state: 'running', attempt: 2 })
    expect(inspection?.ageMs).toBeGreaterThanOrEqual(OVER_MS - 10)
  })

  it.each([
    ['completed', completed('done'), 'done'],
    ['released', released(), undefined],
    ['uncertain', uncertain(), undefined],
  ])('tells what is %s', async (state, finish, frame) => {
    const { fence } = await end(on(), finish)
    const inspection = await on().b.inspect('k')
    expect(inspection).toMatchObject({ state, attempt: 1, fence, leaseForMs: 0 })
    expect(inspection?.frame && text(inspection.frame)).toBe(frame)
    expect(inspection?.keepForMs).toBeGreaterThan(KEEP_MS - 5_000)
    expect(inspection?.keepForMs).toBeLessThanOrEqual(KEEP_MS)
  })

  it('changes nothing', async () => {
    await on().lapsed()
    await on().a.inspect('k')
    await on().b.inspect('k')
    expect(await on().begun(on().b, '2')).toMatchObject({ attempt: 2 })
  })
}

function settling(on: () => Stage): void {
  const settleable: ReadonlyArray<readonly [string, () => Promise<unknown>]> = [
    ['uncertain', () => on().lapsedIntoUncertain()],
    ['lapsed', () => on().lapsed()],
    ['released', () => end(on(), released())],
  ]
  const guarded: ReadonlyArray<readonly [string, () => Promise<Grant>]> = [
    ['running', async () => (await on().begun(on().a, '1')).grant],
    ['completed', () => end(on(), completed('done'))],
  ]

  it.each(settleable)(
    'what is %s, as completed: everybody gets that answer',
    async (_, prepare) => {
      await prepare()
      expect(await on().b.settle('k', completed('by hand', 30_000), UNFORCED)).toBe('settled')
      expect(await on().answer()).toBe('by hand')
      expect((await on().a.inspect('k'))?.keepForMs).toBeLessThanOrEqual(30_000)
      expect(await on().status(OTHER)).toBe('mismatch')
    },
  )

  it.each(settleable)(
    'what is %s, as released: the next begins, and is no recovery',
    async (_, prepare) => {
      await prepare()
      expect(await on().b.settle('k', released(), UNFORCED)).toBe('settled')
      expect(await on().status(OTHER)).toBe('mismatch')
      expect(await on().begun(on().b, '9')).toMatchObject({ attempt: 2, isRecovery: false })
    },
  )

  it.each(guarded)(
    'what is %s is refused without force, and nothing changes',
    async (state, prepare) => {
      const grant = await prepare()
      expect(await on().b.settle('k', completed('by hand'), UNFORCED)).toBe('refused')
      expect(await on().b.settle('k', released(), UNFORCED)).toBe('refused')
      expect(await on().a.inspect('k')).toMatchObject({ state, fence: grant.fence })
      expect(on().toldB.settled).toEqual([])
    },
  )

  it.each(guarded)('what is %s with force', async (_, prepare) => {
    const grant = await prepare()
    expect(await on().b.settle('k', completed('by hand'), FORCED)).toBe('settled')
    expect(await on().answer()).toBe('by hand')
    expect(await on().b.settle('k', released(), FORCED)).toBe('settled')
    expect((await on().a.inspect('k'))?.frame).toBeUndefined()
    const next = await on().begun(on().b, '9')
    expect(BigInt(next.grant.fence)).toBeGreaterThan(BigInt(grant.fence))
  })

  it('with force voids the attempt that runs: it can do nothing more', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().b.settle('k', completed('by hand'), FORCED)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.keepStep(grant, 'pay', bytes('late'))).toBe('stale')
    for (const finish of [completed('late'), released(), uncertain()]) {
      expect(await on().a.finish(grant, finish, PRINTS)).toBe('stale')
    }
    expect(await on().answer()).toBe('by hand')
  })

  it('voids an attempt whose lease is over, too', async () => {
    const grant = await on().lapsedIntoUncertain()
    await on().b.settle('k', released(), UNFORCED)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.finish(grant, completed('late'), PRINTS)).toBe('stale')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
  })

  it('starts to count lost leases anew', async () => {
    const more = { leaseMs: LEASE_MS, maxAttempts: 1 }
    await on().lapsed('1', more)
    expect((await on().begin(on().b, '2', more)).status).toBe('uncertain')
    await on().b.settle('k', released(), UNFORCED)
    await on().lapsed('3', { ...more, maxAttempts: 2 })
    const again = await on().begun(on().b, '4', { ...more, maxAttempts: 2 })
    expect(again).toMatchObject({ attempt: 3, isRecovery: true })
  })

  it('what is not there is absent', async () => {
    expect(await on().a.settle('k', completed('by hand'), FORCED)).toBe('absent')
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('wakes who waits, and tells every process to forget its copy', async () => {
    await on().begun(on().a, '1')
    await on().begin(on().b, 'w', { wait: true })
    await on().a.settle('k', completed('by hand'), FORCED)
    await on().allHeard()
    await expectWoken(on().toldB)
    for (const { settled } of [on().toldA, on().toldB]) {
      await eventually(() => expect(settled).toEqual(['k']))
    }
  })
}

function expiring(on: () => Stage): void {
  /** The retention time, and a slightly longer time. */
  const [KEPT_MS, GONE_MS] = [600, 650]

  it.each([
    ['completed', completed('done', KEPT_MS)],
    ['released', released(KEPT_MS)],
    ['uncertain', uncertain(KEPT_MS)],
  ])('that is %s is kept as long as was said then, and not longer', async (state, finish) => {
    await end(on(), finish)
    await on().bench.pass(100)
    expect((await on().a.inspect('k'))?.state).toBe(state)
    await on().bench.pass(GONE_MS - 100)
    expect(await on().a.inspect('k')).toBeUndefined()
    expect(await on().status(OTHER)).toBe('begun')
  })

  it('is kept from its begin as long as was said, and then forgotten with its fence still rising', async () => {
    const first = await on().begun(on().a, '1', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(150)
    expect((await on().a.inspect('k'))?.state).toBe('lapsed')
    await on().bench.pass(GONE_MS - 150)
    expect(await on().a.inspect('k')).toBeUndefined()
    const second = await on().begun(on().b, '2', { fingerprints: OTHER })
    expect(second).toMatchObject({ attempt: 1, isRecovery: false })
    expect(BigInt(second.grant.fence)).toBeGreaterThan(BigInt(first.grant.fence))
  })

  it('that runs is kept anew from each attempt', async () => {
    await on().begun(on().a, '1', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(350)
    await on().begun(on().b, '2', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(350)
    expect(await on().a.inspect('k')).toMatchObject({ state: 'lapsed', attempt: 2 })
    await on().bench.pass(GONE_MS - 350)
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('that runs is never forgotten before its lease is over, however short it is kept', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: LONG_MS, retentionMs: 50 })
    await on().bench.pass(100)
    expect(await on().status()).toBe('busy')
    const short = await on().begun(on().a, '1', { leaseMs: 400, retentionMs: 400 }, 'renewed')
    await on().a.renew([short.grant], LONG_MS)
    await on().bench.pass(450)
    expect((await on().a.inspect('renewed'))?.state).toBe('running')
    expect(await on().a.finish(grant, completed('done', KEPT_MS), PRINTS)).toBe('finished')
    expect((await on().a.inspect('k'))?.keepForMs).toBeLessThanOrEqual(KEPT_MS)
  })

  it('that became uncertain is kept as long as uncertain ones are, from then on', async () => {
    await on().lapsedIntoUncertain({ keepUncertainMs: KEPT_MS })
    await on().bench.pass(150)
    expect((await on().begin(on().b, '3', { keepUncertainMs: KEPT_MS })).status).toBe('uncertain')
    await on().bench.pass(GONE_MS - 150)
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('that was settled is kept as long as was said then', async () => {
    await on().lapsed()
    await on().b.settle('k', completed('by hand', KEPT_MS), UNFORCED)
    await on().bench.pass(GONE_MS)
    expect(await on().status()).toBe('begun')
  })

  it('that was lost while it ran is written again when it completes', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: 100, retentionMs: 100 })
    await on().bench.pass(150)
    expect(await on().a.inspect('k')).toBeUndefined()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.finish(grant, completed('done'), PRINTS)).toBe('resurrected')
    expect(await on().answer()).toBe('done')
  })
}

const PARTS: ReadonlyArray<readonly [string, (on: () => Stage) => void]> = [
  ['begin', beginning],
  ['a begin', mismatching],
  ['a lease that ran out', lapsing],
  ['renew', renewing],
  ['finish', finishing],
  ['a holder that comes late', comingLate],
  ['a step', keepingSteps],
  ['who waits', waking],
  ['inspect', inspecting],
  ['settle', settling],
  ['a record', expiring],
]
