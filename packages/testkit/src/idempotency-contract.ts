// The contract of IdempotencyStore, as a suite. Two attached stores on the same data stand for two
// processes. The memory store serves one process, so both are the same store there.

import { type Grant, type IdempotencyStore, systemClock } from '@stampede/core/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

type BeginReply = Awaited<ReturnType<IdempotencyStore['begin']>>
type BeginRequest = Parameters<IdempotencyStore['begin']>[1]

type Fingerprints = BeginRequest['fingerprints']
type IdempotencyHooks = Parameters<IdempotencyStore['attach']>[0]

/** The stores for the tests of an idempotency store. */
export interface IdempotencyBench {
  /** Stores of two processes on the same, empty data. With one process, the same store twice. */
  open(): Promise<{ a: IdempotencyStore; b: IdempotencyStore }>
  /** Lets this much time pass for the store. */
  pass(ms: number): Promise<void>
  /** The clock of the stores. Default: the system's. */
  clock?: IdempotencyHooks['clock']
  close?(): Promise<void>
}

type Begun = Extract<BeginReply, { status: 'begun' }>

/** Messages to a process: keys that woke it, and keys that were settled. */
interface Told {
  readonly woken: string[]
  readonly settled: string[]
}

const LEASE_MS = 1_250
/** A little longer than the lease. */
const OVER_MS = 1_400
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

/** The environment of a test of this suite. */
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

  async begin(
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

  /** A grant whose lease is over, without a takeover. */
  async lapsed(token = '1', more: Partial<BeginRequest> = {}): Promise<Grant> {
    const { grant } = await this.begun(this.a, token, { leaseMs: LEASE_MS, ...more })
    await this.bench.pass(OVER_MS)
    return grant
  }

  /** A record that became uncertain when its lease ran out, and its grant. */
  async lapsedIntoUncertain(more: Partial<BeginRequest> = {}): Promise<Grant> {
    const grant = await this.lapsed()
    const reply = await this.begin(this.b, '2', { maxAttempts: 1, ...more })
    expect(reply).toEqual({ status: 'uncertain' })
    return grant
  }

  async status(fingerprints: Fingerprints = PRINTS): Promise<string> {
    return (await this.begin(this.b, 'asking', { fingerprints })).status
  }

  /** The response of all later requests. */
  async answer(): Promise<string> {
    const reply = await this.begin(this.b, 'reading')
    return reply.status === 'completed' ? text(reply.frame) : reply.status
  }

  /** Sends each process a message, and resolves when all earlier messages have arrived. */
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

/** In a cluster, messages about two keys may overtake each other. */
async function expectWoken({ woken }: Told): Promise<void> {
  await eventually(() => expect(woken).toEqual(['k']))
}

/** Defines the tests of an idempotency store, in Vitest. */
export function idempotencyStoreContract(name: string, bench: IdempotencyBench): void {
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

    it('serves only one Stampede', () => {
      expect(() => attach(on().a, bench)).toThrow(
        expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
      )
    })
    for (const [title, part] of PARTS) describe(title, () => part(on))
  })
}

function beginning(on: () => Stage): void {
  it('begins one of many attempts, and reports to the others the longest time that the key is busy', async () => {
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

  it('counts attempts from 1, and the first attempt is no recovery', async () => {
    const reply = await on().begun(on().a, '1')
    expect(reply).toMatchObject({ attempt: 1, isRecovery: false, steps: new Map() })
    expect(reply.grant).toMatchObject({ key: 'k', token: '1' })
    expect(reply.grant.fence).toMatch(/^[1-9]\d*$/)
  })

  it('returns the same grant to the token of the running attempt, without an extension', async () => {
    const first = await on().begun(on().a, '1', { leaseMs: 2_000 })
    await on().bench.pass(100)
    expect(await on().begun(on().a, '1')).toEqual(first)
    const other = await on().begin(on().b, '2')
    if (other.status !== 'busy') throw new Error(`got ${other.status}`)
    expect(other.forMs).toBeLessThanOrEqual(1_910)
  })

  it('still reports a recovery when the token of the takeover begins again', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: LEASE_MS })
    await on().a.keepStep(grant, 'pay', bytes('paid'))
    await on().bench.pass(OVER_MS)
    const first = await on().begun(on().b, '2')
    expect(first).toMatchObject({ attempt: 2, isRecovery: true })
    expect(await on().begun(on().b, '2')).toEqual(first)
    expect(text(first.steps.get('pay'))).toBe('paid')
  })

  it('returns the frame and the remaining retention of a completed attempt to every caller', async () => {
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

  it('distinguishes an empty frame from a missing one', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().a.finish(grant, completed(''), PRINTS)
    expect(await on().begin(on().b, '2')).toMatchObject({ status: 'completed' })
    expect((await on().a.inspect('k'))?.frame?.byteLength).toBe(0)
  })

  it('raises the fence with every attempt, also within one millisecond', async () => {
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

  it('does not confuse keys with special characters', async () => {
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
    ['is completed', async () => end(on(), completed('done'))],
  ]
  it.each(states)('replies mismatch to other fingerprints while the key %s', async (_, prepare) => {
    await prepare()
    expect(await on().status(OTHER)).toBe('mismatch')
    expect(await on().status({ exact: 'c', canonical: 'e' })).toBe('mismatch')
  })

  it('changes nothing in the record after a mismatch', async () => {
    await on().lapsed()
    const before = await on().a.inspect('k')
    expect(await on().status(OTHER)).toBe('mismatch')
    const { attempt, state, fence } = (await on().a.inspect('k')) ?? {}
    expect([attempt, state, fence]).toEqual([before?.attempt, 'lapsed', before?.fence])
  })

  it('replies mismatch even to the token of the running attempt', async () => {
    await on().begun(on().a, '1')
    expect(await on().begin(on().a, '1', { fingerprints: OTHER })).toEqual({ status: 'mismatch' })
  })

  it.each([
    ['the exact fingerprint', { exact: 'e', canonical: 'c2' }],
    ['the exact fingerprint, without a canonical one', { exact: 'e', canonical: '' }],
    ['the canonical fingerprint', { exact: 'e2', canonical: 'c' }],
    ['the canonical fingerprint, without an exact one', { exact: '', canonical: 'c' }],
  ])('accepts a repeat of the request with %s', async (_, fingerprints) => {
    await end(on(), completed('done'))
    expect(await on().status(fingerprints)).toBe('completed')
  })

  it('replies mismatch if the requests have no fingerprint in common', async () => {
    const fingerprints = { exact: '', canonical: 'c' }
    await on().begun(on().a, '1', { fingerprints })
    expect(await on().status({ exact: '', canonical: 'x' })).toBe('mismatch')
    expect(await on().status({ exact: 'e', canonical: '' })).toBe('mismatch')
  })

  it('compares with the first fingerprints even after another attempt', async () => {
    await end(on(), released())
    const second = await on().begun(on().a, '2', { fingerprints: { exact: 'e', canonical: 'c2' } })
    expect(await on().status({ exact: 'x', canonical: 'c2' })).toBe('mismatch')
    expect(await on().status({ exact: 'x', canonical: 'c' })).toBe('busy')
    await on().a.finish(second.grant, released(), PRINTS)
    await on().begun(on().a, '3', { fingerprints: { exact: 'e2', canonical: 'c' } })
    expect(await on().status({ exact: 'e2', canonical: 'x' })).toBe('mismatch')
  })
}

async function end(stage: Stage, finish: Parameters<IdempotencyStore['finish']>[1]) {
  const { grant } = await stage.begun(stage.a, '1')
  expect(await stage.a.finish(grant, finish, PRINTS)).toBe('finished')
  return grant
}

function lapsing(on: () => Stage): void {
  it('is taken over with the next attempt, a greater fence, and as a recovery', async () => {
    const first = await on().lapsed()
    const second = await on().begun(on().b, '2')
    expect(second).toMatchObject({ attempt: 2, isRecovery: true })
    expect(BigInt(second.grant.fence)).toBeGreaterThan(BigInt(first.fence))
    expect(await on().status()).toBe('busy')
  })

  it('is taken over by one of a hundred concurrent requests', async () => {
    await on().lapsed()
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, i) => on().begin(i % 2 === 0 ? on().a : on().b, `r${i}`)),
    )
    const begun = replies.filter(({ status }) => status === 'begun')
    expect(begun).toEqual([expect.objectContaining({ attempt: 2, isRecovery: true })])
    expect(replies.filter(({ status }) => status === 'busy')).toHaveLength(99)
  })

  it('becomes uncertain after its first lost lease if maxAttempts is 1', async () => {
    await on().lapsedIntoUncertain()
    expect(await on().status()).toBe('uncertain')
    expect(await on().a.inspect('k')).toMatchObject({ state: 'uncertain', attempt: 1 })
  })

  it('becomes uncertain after maxAttempts lost leases in a row', async () => {
    for (const token of ['1', '2', '3']) {
      const more = { leaseMs: LEASE_MS, maxAttempts: 3 }
      expect(await on().begun(on().a, token, more)).toMatchObject({ attempt: Number(token) })
      await on().bench.pass(OVER_MS)
    }
    expect(await on().begin(on().b, '4', { maxAttempts: 3 })).toEqual({ status: 'uncertain' })
    expect(await on().begin(on().b, '5', { maxAttempts: 9 })).toEqual({ status: 'uncertain' })
  })

  it('no longer counts towards maxAttempts after a later attempt was released', async () => {
    const more = { leaseMs: LEASE_MS, maxAttempts: 2 }
    await on().lapsed('1', more)
    const second = await on().begun(on().a, '2', more)
    await on().a.finish(second.grant, released(), PRINTS)
    // Part of the work of the first attempt may still be done.
    expect(await on().begun(on().a, '3', more)).toMatchObject({ attempt: 3, isRecovery: true })
    await on().bench.pass(OVER_MS)
    expect(await on().begun(on().a, '4', more)).toMatchObject({ attempt: 4, isRecovery: true })
    await on().bench.pass(OVER_MS)
    expect((await on().begin(on().a, '5', more)).status).toBe('uncertain')
  })
}

function renewing(on: () => Stage): void {
  it('extends the lease, and replies for each grant separately', async () => {
    const { grant: mine } = await on().begun(on().a, '1', { leaseMs: 2_500 })
    const over = await on().begun(on().a, '1', { leaseMs: 2_500 }, 'overtaken')
    await on().bench.pass(1_500)
    expect(await on().a.renew([mine], 2_500)).toEqual([true])
    await on().bench.pass(1_500)
    await on().begun(on().b, '2', {}, 'overtaken')
    expect(await on().status()).toBe('busy')
    const unknown = { ...mine, key: 'never begun' }
    expect(await on().a.renew([over.grant, mine, unknown], LONG_MS)).toEqual([false, true, false])
    expect(await on().a.renew([], LONG_MS)).toEqual([])
  })

  it('revives a lease that ran out if no other attempt took over', async () => {
    const grant = await on().lapsed()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([true])
    expect(await on().status()).toBe('busy')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('does not revive an attempt that is %s', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect((await on().a.inspect('k'))?.state).toBe(finish.as)
  })
}

function finishing(on: () => Stage): void {
  it('completes an attempt for good, so that no attempt begins and nothing changes the result', async () => {
    const grant = await end(on(), completed('first'))
    expect(await on().a.finish(grant, completed('second'), PRINTS)).toBe('finished')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
    expect(await on().a.finish(grant, uncertain(), PRINTS)).toBe('stale')
    expect(await on().answer()).toBe('first')
  })

  it('releases an attempt, and the next begins at once with its fence, number and steps', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().a.keepStep(grant, 'pay', bytes('paid'))
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('finished')
    const next = await on().begun(on().b, '2')
    expect(next).toMatchObject({ attempt: 2, isRecovery: false })
    expect(text(next.steps.get('pay'))).toBe('paid')
    expect(BigInt(next.grant.fence)).toBeGreaterThan(BigInt(grant.fence))
  })

  it('makes an attempt uncertain, and no other begins', async () => {
    await end(on(), uncertain())
    expect(await on().status()).toBe('uncertain')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('accepts the result %s repeatedly from the same attempt only', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.finish(grant, finish, PRINTS)).toBe('finished')
    expect(await on().b.finish({ ...grant, token: 'x' }, finish, PRINTS)).toBe('stale')
    expect(await on().b.finish({ ...grant, fence: '1' }, finish, PRINTS)).toBe('stale')
  })

  it('needs both the token and the fence of the grant', async () => {
    const { grant } = await on().begun(on().a, '1')
    const done = completed('done')
    expect(await on().a.finish({ ...grant, token: 'x' }, done, PRINTS)).toBe('stale')
    expect(await on().a.finish({ ...grant, fence: '1' }, done, PRINTS)).toBe('stale')
    expect(await on().status()).toBe('busy')
  })

  it('replies stale to a repeated release after another attempt began', async () => {
    const grant = await end(on(), released())
    const next = await on().begun(on().b, '2')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
    expect(await on().b.renew([next.grant], LONG_MS)).toEqual([true])
  })

  it('writes a lost record again if the attempt completed, with its fingerprints', async () => {
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
  ])(
    'replies stale without a record if the attempt is %s, and writes nothing',
    async (_, finish) => {
      const grant: Grant = { key: 'k', token: '1', fence: '1700000000000000' }
      expect(await on().a.finish(grant, finish, PRINTS)).toBe('stale')
      expect(await on().a.inspect('k')).toBeUndefined()
    },
  )
}

function comingLate(on: () => Stage): void {
  it.each([
    ['completed', completed('late'), 'completed'],
    ['released', released(), 'begun'],
    ['uncertain', uncertain(), 'uncertain'],
  ])('is accepted as %s if no other attempt took over', async (_, finish, status) => {
    const grant = await on().lapsed()
    expect(await on().a.finish(grant, finish, PRINTS)).toBe('finished')
    expect(await on().status()).toBe(status)
  })

  it('replaces the uncertainty that the expired lease caused', async () => {
    const grant = await on().lapsedIntoUncertain()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([true])
    expect(await on().status()).toBe('uncertain')
    expect(await on().a.finish(grant, completed('late'), PRINTS)).toBe('finished')
    expect(await on().answer()).toBe('late')
  })

  it('has no effect after a takeover, with any result', async () => {
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
  it('survives a release and a takeover, in its last version', async () => {
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

  it('may have any name, which never collides with a field of the store', async () => {
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

  it('is stored after the end of the lease if no other attempt took over', async () => {
    const grant = await on().lapsed()
    expect(await on().a.keepStep(grant, 'pay', bytes('paid'))).toBe('kept')
    const { steps } = await on().begun(on().b, '2')
    expect(text(steps.get('pay'))).toBe('paid')
  })

  it.each([
    ['completed', completed('done')],
    ['released', released()],
    ['uncertain', uncertain()],
  ])('is refused as stale if the attempt is %s', async (_, finish) => {
    const grant = await end(on(), finish)
    expect(await on().a.keepStep(grant, 'pay', bytes('late'))).toBe('stale')
    expect((await on().a.inspect('k'))?.steps).toEqual([])
  })

  it('is refused as stale without a record, and writes nothing', async () => {
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

  it('is not woken again by the end of a later attempt', async () => {
    const { grant } = await on().begun(on().a, '1')
    await wait(on().b)
    await on().a.finish(grant, released(), PRINTS)
    const later = await on().begun(on().a, '2')
    await on().a.finish(later.grant, completed('done'), PRINTS)
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

  it('is not woken if it did not ask to wait', async () => {
    const { grant } = await on().begun(on().a, '1')
    expect(await on().status()).toBe('busy')
    await on().a.finish(grant, completed('done'), PRINTS)
    await on().allHeard()
    expect(on().toldB.woken).toEqual([])
  })

  it('is woken by the end of the next attempt after a takeover', async () => {
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

  it('shows a running attempt with its lease, age and steps', async () => {
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

  it('shows an expired lease, the number of attempts, and the age since the first', async () => {
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
  ])('shows that an attempt is %s', async (state, finish, frame) => {
    const { fence } = await end(on(), finish)
    const inspection = await on().b.inspect('k')
    expect(inspection).toMatchObject({ state, attempt: 1, fence, leaseForMs: 0 })
    expect(inspection?.frame && text(inspection.frame)).toBe(frame)
    expect(inspection?.keepForMs).toBeGreaterThan(KEEP_MS - 5_000)
    expect(inspection?.keepForMs).toBeLessThanOrEqual(KEEP_MS)
  })

  it('changes nothing in the record', async () => {
    await on().lapsed()
    await on().a.inspect('k')
    await on().b.inspect('k')
    expect(await on().begun(on().b, '2')).toMatchObject({ attempt: 2 })
  })
}

function listing(on: () => Stage): void {
  /** The records of all pages. */
  const all = async (limit: number) => {
    const found = new Map<string, object>()
    let cursor = ''
    do {
      const page = await on().b.list(cursor, limit)
      for (const { key, ...known } of page.records) found.set(key, known)
      cursor = page.cursor
    } while (cursor !== '')
    return found
  }

  it('is empty without records', async () => {
    expect((await all(10)).size).toBe(0)
  })

  it('has each record with the facts of its inspection, but without its frame', async () => {
    await end(on(), completed('done'))
    const { grant } = await on().begun(on().a, '2', {}, 'two')
    await on().a.keepStep(grant, 'pay', bytes('1'))
    const found = await all(10)
    expect([...found.keys()].sort()).toEqual(['k', 'two'])
    for (const [key, listed] of found) {
      const {
        frame: _,
        ageMs: _age,
        keepForMs: _keep,
        leaseForMs: _lease,
        ...known
      } = (await on().a.inspect(key)) ?? {}
      expect(listed).toMatchObject(known)
      expect(listed).toHaveProperty('state')
      expect(Object(listed).frame).toBeUndefined()
    }
  })

  it('has every record, page by page', async () => {
    const keys = Array.from({ length: 25 }, (_, i) => `key ${i}`)
    for (const [i, key] of keys.entries()) {
      const { grant } = await on().begun(on().a, `${i}`, {}, key)
      const ends = [completed('done'), uncertain(), released(), undefined][i % 4]
      if (ends !== undefined) await on().a.finish(grant, ends, PRINTS)
    }
    const found = await all(4)
    expect([...found.keys()].sort()).toEqual(keys.sort())
  })

  it('begins again at a cursor that it cannot read', async () => {
    await end(on(), completed('done'))
    for (const cursor of ['x', ' ', '0', "' or 1=1", 'running zz', '\0', '9'.repeat(40)]) {
      await on().b.list(cursor, 10)
    }
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
    'completes a record that is %s, so that all later requests get its response',
    async (_, prepare) => {
      await prepare()
      expect(await on().b.settle('k', completed('by hand', 30_000), UNFORCED)).toBe('settled')
      expect(await on().answer()).toBe('by hand')
      expect((await on().a.inspect('k'))?.keepForMs).toBeLessThanOrEqual(30_000)
      expect(await on().status(OTHER)).toBe('mismatch')
    },
  )

  it.each(settleable)(
    'releases a record that is %s, and the next attempt is no recovery',
    async (_, prepare) => {
      await prepare()
      expect(await on().b.settle('k', released(), UNFORCED)).toBe('settled')
      expect(await on().status(OTHER)).toBe('mismatch')
      expect(await on().begun(on().b, '9')).toMatchObject({ attempt: 2, isRecovery: false })
    },
  )

  it.each(guarded)(
    'refuses a record that is %s without force, and changes nothing',
    async (state, prepare) => {
      const grant = await prepare()
      expect(await on().b.settle('k', completed('by hand'), UNFORCED)).toBe('refused')
      expect(await on().b.settle('k', released(), UNFORCED)).toBe('refused')
      expect(await on().a.inspect('k')).toMatchObject({ state, fence: grant.fence })
      expect(on().toldB.settled).toEqual([])
    },
  )

  it.each(guarded)('settles a record that is %s with force', async (_, prepare) => {
    const grant = await prepare()
    expect(await on().b.settle('k', completed('by hand'), FORCED)).toBe('settled')
    expect(await on().answer()).toBe('by hand')
    expect(await on().b.settle('k', released(), FORCED)).toBe('settled')
    expect((await on().a.inspect('k'))?.frame).toBeUndefined()
    const next = await on().begun(on().b, '9')
    expect(BigInt(next.grant.fence)).toBeGreaterThan(BigInt(grant.fence))
  })

  it.each([...settleable, ...guarded])(
    'settles a record that is %s if an operator has seen it in this state',
    async (_, prepare) => {
      await prepare()
      const { state, fence } = (await on().b.inspect('k')) ?? {}
      const other = state === 'uncertain' ? 'running' : 'uncertain'
      for (const force of [`${state} ${fence}1`, `${other} ${fence}`, String(state)]) {
        expect(await on().b.settle('k', completed('by hand'), { force })).toBe('refused')
      }
      expect(await on().a.inspect('k')).toMatchObject({ state, fence })
      const seen = { force: `${state} ${fence}` }
      expect(await on().b.settle('k', released(), seen)).toBe('settled')
      expect((await on().a.inspect('k'))?.state).toBe('released')
    },
  )

  it.each([...settleable, ...guarded])(
    'refuses a second operator who saw a record that is %s before it was settled',
    async (_, prepare) => {
      await prepare()
      const { state, fence } = (await on().b.inspect('k')) ?? {}
      const seen = { force: `${state} ${fence}` }
      const [first, second] = [completed('first'), completed('second')]
      const end = state === 'released' ? released() : first
      expect(await on().a.settle('k', end, seen)).toBe('settled')
      expect(await on().b.settle('k', second, seen)).toBe('refused')
      // Settled once more, so that the record has the state that was seen, and other contents.
      await on().a.settle('k', first, FORCED)
      expect(await on().b.settle('k', second, seen)).toBe('refused')
      expect(await on().answer()).toBe('first')
      const after = (await on().b.inspect('k'))?.fence ?? '0'
      expect(BigInt(after)).toBeGreaterThan(BigInt(fence ?? '0'))
    },
  )

  it('settles a record once if two operators have seen it in one state', async () => {
    await on().lapsedIntoUncertain()
    const { state, fence } = (await on().b.inspect('k')) ?? {}
    const settlements = [released(), completed('by hand')]
    const replies = await Promise.all(
      settlements.map((end, i) =>
        (i === 0 ? on().a : on().b).settle('k', end, { force: `${state} ${fence}` }),
      ),
    )
    expect(replies.toSorted()).toEqual(['refused', 'settled'])
  })

  it('ends a running attempt with force, so that its results are refused', async () => {
    const { grant } = await on().begun(on().a, '1')
    await on().b.settle('k', completed('by hand'), FORCED)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.keepStep(grant, 'pay', bytes('late'))).toBe('stale')
    for (const finish of [completed('late'), released(), uncertain()]) {
      expect(await on().a.finish(grant, finish, PRINTS)).toBe('stale')
    }
    expect(await on().answer()).toBe('by hand')
  })

  it('ends an attempt whose lease is over', async () => {
    const grant = await on().lapsedIntoUncertain()
    await on().b.settle('k', released(), UNFORCED)
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.finish(grant, completed('late'), PRINTS)).toBe('stale')
    expect(await on().a.finish(grant, released(), PRINTS)).toBe('stale')
  })

  it('restarts the count of lost leases', async () => {
    const more = { leaseMs: LEASE_MS, maxAttempts: 1 }
    await on().lapsed('1', more)
    expect((await on().begin(on().b, '2', more)).status).toBe('uncertain')
    await on().b.settle('k', released(), UNFORCED)
    await on().lapsed('3', { ...more, maxAttempts: 2 })
    const again = await on().begun(on().b, '4', { ...more, maxAttempts: 2 })
    expect(again).toMatchObject({ attempt: 3, isRecovery: true })
  })

  it('replies absent if there is no record', async () => {
    expect(await on().a.settle('k', completed('by hand'), FORCED)).toBe('absent')
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('wakes waiters, and makes every process drop its copy', async () => {
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
  /** A little longer than the retention. */
  const [KEPT_MS, GONE_MS] = [3_000, 3_250]

  it.each([
    ['completed', completed('done', KEPT_MS)],
    ['released', released(KEPT_MS)],
    ['uncertain', uncertain(KEPT_MS)],
  ])('is kept for its retention if it is %s, and not longer', async (state, finish) => {
    await end(on(), finish)
    await on().bench.pass(100)
    expect((await on().a.inspect('k'))?.state).toBe(state)
    await on().bench.pass(GONE_MS - 100)
    expect(await on().a.inspect('k')).toBeUndefined()
    expect(await on().status(OTHER)).toBe('begun')
  })

  it('is kept for its retention from the start, and the fence of the next attempt still rises', async () => {
    const first = await on().begun(on().a, '1', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(750)
    expect((await on().a.inspect('k'))?.state).toBe('lapsed')
    await on().bench.pass(GONE_MS - 750)
    expect(await on().a.inspect('k')).toBeUndefined()
    const second = await on().begun(on().b, '2', { fingerprints: OTHER })
    expect(second).toMatchObject({ attempt: 1, isRecovery: false })
    expect(BigInt(second.grant.fence)).toBeGreaterThan(BigInt(first.grant.fence))
  })

  it('is kept for the retention of its latest attempt', async () => {
    await on().begun(on().a, '1', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(1_750)
    await on().begun(on().b, '2', { leaseMs: 100, retentionMs: KEPT_MS })
    await on().bench.pass(1_750)
    expect(await on().a.inspect('k')).toMatchObject({ state: 'lapsed', attempt: 2 })
    await on().bench.pass(GONE_MS - 1_750)
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('is kept at least as long as its lease, even with a shorter retention', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: LONG_MS, retentionMs: 50 })
    await on().bench.pass(100)
    expect(await on().status()).toBe('busy')
    const short = await on().begun(on().a, '1', { leaseMs: 2_000, retentionMs: 2_000 }, 'renewed')
    await on().a.renew([short.grant], LONG_MS)
    await on().bench.pass(2_250)
    expect((await on().a.inspect('renewed'))?.state).toBe('running')
    expect(await on().a.finish(grant, completed('done', KEPT_MS), PRINTS)).toBe('finished')
    expect((await on().a.inspect('k'))?.keepForMs).toBeLessThanOrEqual(KEPT_MS)
  })

  it('is not kept for a shorter time after a renewal', async () => {
    const { grant } = await on().begun(on().a, '1', { retentionMs: 600_000 })
    await on().a.renew([grant], LEASE_MS)
    expect((await on().a.inspect('k'))?.keepForMs).toBeGreaterThan(500_000)
  })

  it('is kept for keepUncertainMs from the moment when it became uncertain', async () => {
    await on().lapsedIntoUncertain({ keepUncertainMs: KEPT_MS })
    await on().bench.pass(750)
    expect((await on().begin(on().b, '3', { keepUncertainMs: KEPT_MS })).status).toBe('uncertain')
    await on().bench.pass(GONE_MS - 750)
    expect(await on().a.inspect('k')).toBeUndefined()
  })

  it('is kept after settling for the retention that the operator gave', async () => {
    await on().lapsed()
    await on().b.settle('k', completed('by hand', KEPT_MS), UNFORCED)
    await on().bench.pass(GONE_MS)
    expect(await on().status()).toBe('begun')
  })

  it('is written again if it was lost during a run that completes', async () => {
    const { grant } = await on().begun(on().a, '1', { leaseMs: 100, retentionMs: 100 })
    await on().bench.pass(750)
    expect(await on().a.inspect('k')).toBeUndefined()
    expect(await on().a.renew([grant], LONG_MS)).toEqual([false])
    expect(await on().a.finish(grant, completed('done'), PRINTS)).toBe('resurrected')
    expect(await on().answer()).toBe('done')
  })
}

const PARTS: ReadonlyArray<readonly [string, (on: () => Stage) => void]> = [
  ['begin', beginning],
  ['begin for a used key', mismatching],
  ['an expired lease', lapsing],
  ['renew', renewing],
  ['finish', finishing],
  ['an expired holder', comingLate],
  ['a step', keepingSteps],
  ['a waiter', waking],
  ['inspect', inspecting],
  ['list', listing],
  ['settle', settling],
  ['a stored record', expiring],
]
