// Idempotency keys in a fleet: two processes, a real Redis, and clients that repeat requests.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { countSent } from '../harness/command-trace.ts'
import { type IdempotentFleet, startIdempotentFleet } from '../harness/idempotent-fleet.ts'
import type { Answer } from '../harness/load.ts'
import { createGate, type OriginAnswer } from '../harness/origin.ts'

const CREATED: OriginAnswer = { status: 201, headers: { location: '/orders/7' }, body: '{"id":7}' }
const LEASE_MS = 2_500
/** Less than the default lease, so that a wait for another lease would be noticed. */
const SOON_MS = 20_000

const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status).sort()
/** Everything by which a client can tell responses apart, except the date. */
const seen = ({ status, headers, body }: Answer) => {
  const {
    date,
    connection,
    'keep-alive': keepAlive,
    'idempotency-replayed': replayed,
    ...rest
  } = headers
  return { status, headers: rest, body }
}
const attempts = (calls: ReadonlyArray<{ headers: Record<string, unknown> }>) =>
  calls.map(({ headers }) => `${headers['x-attempt']} ${headers['x-recovery']}`)

describe.each(['express', 'koa'])('two processes on %s', (framework) => {
  // Starting a process costs more than a test. So every test uses these, with a path of its own.
  // The last two kill Redis and a process.
  let shared: IdempotentFleet
  beforeAll(async () => {
    shared = await startIdempotentFleet({ framework, idempotency: { leaseMs: LEASE_MS } })
  })
  afterAll(() => shared[Symbol.asyncDispose]())

  it('run 40 duplicates once, and replay the response byte for byte', async () => {
    const fleet = shared
    const gate = createGate()
    fleet.origin.answer('/orders', { ...CREATED, gate })
    const pending = Array.from({ length: 40 }, (_, i) => fleet.post(i % 2, '/orders'))
    // The run ends after the first duplicate was refused.
    await Promise.race(pending)
    gate.open()
    const all = await Promise.all(pending)
    expect(fleet.origin.calls('/orders')).toBe(1)
    expect(new Set(statuses(all))).toEqual(new Set([201, 409]))
    // A duplicate that arrives after the end of the run gets the replay.
    const [first, ...others] = all.filter(
      ({ status, headers }) => status === 201 && headers['idempotency-replayed'] === undefined,
    ) as [Answer]
    expect(others).toEqual([])
    for (const busy of all.filter(({ status }) => status === 409)) {
      expect(busy.headers).toMatchObject({ 'retry-after': '1' })
      expect(JSON.parse(busy.body)).toMatchObject({
        code: 'idempotency-in-progress',
        retryable: true,
      })
    }
    for (const member of [0, 1]) {
      const replay = await fleet.post(member, '/orders')
      expect(replay.headers['idempotency-replayed']).toBe('true')
      expect(replay.headers.location).toBe('/orders/7')
      expect(seen(replay)).toEqual(seen(first))
    }
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('keep users apart, and never replay the response of another route', async () => {
    const fleet = shared
    fleet.origin.answer('/of-users', ({ headers }) => ({
      status: 201,
      body: `for ${headers['x-user']}`,
    }))
    expect((await fleet.post(0, '/of-users', { user: 'ada', key: 'users' })).body).toBe('for ada')
    expect((await fleet.post(1, '/of-users', { user: 'bob', key: 'users' })).body).toBe('for bob')
    expect((await fleet.post(0, '/of-users', { user: 'bob', key: 'users' })).body).toBe('for bob')
    const other = await fleet.post(1, '/refunds', { user: 'ada', key: 'users' })
    expect(other.status).toBe(422)
    expect(JSON.parse(other.body).code).toBe('idempotency-key-reused')
    expect(fleet.origin.calls('/refunds')).toBe(0)
    expect(
      (await fleet.post(1, '/of-users', { user: 'ada', key: 'users', body: { amount: 2 } })).status,
    ).toBe(422)
  })

  it('refuse the result of a process frozen past its lease', async () => {
    const fleet = shared
    const once = { key: 'late' }
    const gate = createGate()
    fleet.origin.answer('/late', ({ number }) =>
      number === 1 ? { status: 201, body: 'late', gate } : { status: 201, body: 'newer' },
    )
    const late = fleet.post(0, '/late', once)
    await fleet.origin.arrived('/late')
    fleet.member(0).pause()
    await expect.poll(async () => (await fleet.post(1, '/late', once)).status).toBe(201)
    gate.open()
    fleet.member(0).resume()
    // The client of the frozen process gets the result of its own run.
    expect((await late).body).toBe('late')
    expect(await fleet.member(0).ask<string[]>({ type: 'events' })).toContain('completed: stale')
    for (const member of [0, 1])
      expect((await fleet.post(member, '/late', once)).body).toBe('newer')
    const [first, second] = fleet.origin.requests('/late')
    expect(BigInt(String(second?.headers['x-fence']))).toBeGreaterThan(
      BigInt(String(first?.headers['x-fence'])),
    )
    // A service that the handler calls gets the same derived key from both attempts.
    expect(second?.headers['x-child']).toBe(first?.headers['x-child'])
  })

  it('send the real response if Redis dies after the handler, and never run it again', async () => {
    const fleet = shared
    const once = { key: 'dies' }
    const gate = createGate()
    fleet.origin.answer('/dies', { ...CREATED, gate })
    const asked = fleet.post(0, '/dies', once)
    await fleet.origin.arrived('/dies')
    await fleet.redis.kill()
    gate.open()
    const first = await asked
    expect(first).toMatchObject({ status: 201, body: '{"id":7}' })
    // While Redis is unavailable, the process that ran knows the response, and the other one
    // refuses.
    expect(seen(await fleet.post(0, '/dies', once))).toEqual(seen(first))
    expect((await fleet.post(1, '/dies', once)).status).toBe(503)
    await fleet.redis.restart()
    await expect
      .poll(
        async () => (await fleet.member(0).ask<{ unstored: number }>({ type: 'stats' })).unstored,
      )
      .toBe(0)
    await expect.poll(async () => seen(await fleet.post(1, '/dies', once))).toEqual(seen(first))
    expect(fleet.origin.calls('/dies')).toBe(1)
    expect(await fleet.member(0).ask<string[]>({ type: 'events' })).toContain(
      'completed: resurrected',
    )
  })

  it('take over from a process killed in its handler, after its lease', async () => {
    const fleet = shared
    const once = { key: 'killed' }
    fleet.origin.answer('/killed', ({ number }) =>
      number === 1 ? { ...CREATED, gate: createGate() } : CREATED,
    )
    void fleet.post(0, '/killed', once)
    await fleet.origin.arrived('/killed')
    await fleet.member(0).kill()
    const killedAt = performance.now()
    expect((await fleet.post(1, '/killed', once)).status).toBe(409)
    let answer: Answer
    do {
      await sleep(25)
      answer = await fleet.post(1, '/killed', once)
    } while (answer.status === 409 && performance.now() - killedAt < SOON_MS)
    expect(answer).toMatchObject({ status: 201, body: '{"id":7}' })
    expect(attempts(fleet.origin.requests('/killed'))).toEqual(['1 false', '2 true'])
  })
})

describe('two processes', () => {
  let sealed: IdempotentFleet
  beforeAll(async () => {
    const idempotency = { secret: 's'.repeat(32), encryptionKeys: ['e'.repeat(32)] }
    sealed = await startIdempotentFleet({ stampede: { idempotency } })
  })
  afterAll(() => sealed[Symbol.asyncDispose]())

  it('send two commands for the first request, one for a replay, and none for the next replay', async () => {
    const fleet = sealed
    fleet.origin.answer('/orders', CREATED)
    for (const member of [0, 1]) await fleet.post(member, '/orders', { key: 'warm-up' })
    await fleet.post(0, '/orders', { key: 'warm-up-2' })
    const counted = (work: () => Promise<unknown>) => countSent(fleet.redis, work)
    expect(await counted(() => fleet.post(0, '/orders'))).toBe(2)
    expect(await counted(() => fleet.post(1, '/orders'))).toBe(1)
    expect(await counted(() => fleet.post(1, '/orders'))).toBe(0)
  })

  it('let duplicates wait for the result of the running request', async () => {
    await using fleet = await startIdempotentFleet({ idempotency: { onBusy: 'wait' } })
    const gate = createGate()
    fleet.origin.answer('/orders', { ...CREATED, gate })
    const all = Array.from({ length: 40 }, (_, i) => fleet.post(i % 2, '/orders'))
    await fleet.origin.arrived('/orders')
    const scripts = async () => {
      const { eval: whole = 0, evalsha = 0 } = await fleet.redis.commandStats()
      return whole + evalsha
    }
    let before = await scripts()
    // On a busy machine, the last duplicates arrive late.
    for (let last = 0; last < before; before = await scripts()) {
      last = before
      await sleep(1_000)
    }
    gate.open()
    const answers = await Promise.all(all)
    expect(new Set(statuses(answers))).toEqual(new Set([201]))
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['{"id":7}']))
    expect(fleet.origin.calls('/orders')).toBe(1)
    // The finish, and one lookup by the process that waited.
    expect((await scripts()) - before).toBeLessThanOrEqual(3)
  })

  it('leave the key of a dead holder to an operator if onLeaseExpired is uncertain', async () => {
    await using fleet = await startIdempotentFleet({
      idempotency: { leaseMs: 1_000, onLeaseExpired: 'uncertain' },
    })
    fleet.origin.answer('/orders', { ...CREATED, gate: createGate() })
    void fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    await fleet.member(0).kill()
    await expect
      .poll(async () => JSON.parse((await fleet.post(1, '/orders')).body).code)
      .toBe('idempotency-outcome-uncertain')
    const key = { scope: 'ada', key: 'k' }
    const operator = fleet.member(1)
    expect(await operator.ask({ type: 'inspect', key })).toMatchObject({
      state: 'uncertain',
      attempt: 1,
    })
    const answer = { status: 201, headers: { location: '/orders/9' }, body: { id: 9 } }
    expect(await operator.ask({ type: 'resolve', key, answer })).toBe('settled')
    expect(await fleet.post(1, '/orders')).toMatchObject({
      status: 201,
      headers: { location: '/orders/9', 'idempotency-replayed': 'true' },
      body: '{"id":9}',
    })
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('run a job once, give every caller its result, and refuse another input', async () => {
    const fleet = sealed
    const job = (member: number, input: unknown = { n: 1 }, onBusy = 'wait') =>
      fleet
        .member(member)
        .ask({ type: 'job', key: 'invoice:7', path: '/invoice', options: { input, onBusy } })
    const results = await Promise.all(Array.from({ length: 10 }, (_, i) => job(i % 2)))
    expect(new Set(results)).toEqual(new Set(['/invoice #1']))
    await expect(job(0, { n: 2 })).rejects.toThrow('was used with another input')
    expect(fleet.origin.calls('/invoice')).toBe(1)
  })

  it('store no key, user or body in readable form in Redis, sealed or not', async () => {
    const fleet = sealed
    const secretWords = [
      'key-of-ada',
      'ada-herself',
      'in-the-body',
      'in-the-answer',
      '/orders/secret',
    ]
    fleet.origin.answer('/secret', {
      status: 201,
      headers: { location: '/orders/secret' },
      body: 'in-the-answer',
    })
    const post = { key: 'key-of-ada', user: 'ada-herself', body: { note: 'in-the-body' } }
    await fleet.post(0, '/secret', post)
    const { Redis } = await import('ioredis')
    const redis = new Redis(fleet.redis.url)
    const dump = []
    for (const name of await redis.keys('*')) {
      dump.push(
        name,
        ...Object.entries(await redis.hgetallBuffer(name)).flatMap(([field, value]) => [
          field,
          value.toString('latin1'),
        ]),
      )
    }
    redis.disconnect()
    expect(dump.length).toBeGreaterThan(5)
    for (const word of secretWords) expect(dump.join(' ')).not.toContain(word)
    expect((await fleet.post(1, '/secret', post)).body).toBe('in-the-answer')
  })

  it('respond with 503 while Redis is unavailable, or run unprotected if the option allows it', async () => {
    const closed = sealed
    const once = { key: 'unavailable' }
    await closed.redis.pause()
    // Redis stays frozen until the response.
    const refused = await closed.post(0, '/unavailable', once)
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    await closed.redis.resume()
    await expect.poll(async () => (await closed.post(0, '/unavailable', once)).status).toBe(200)

    await using open = await startIdempotentFleet({
      size: 1,
      idempotency: { onStoreError: 'proceed' },
    })
    await open.redis.kill()
    const unprotected = await open.post(0, '/orders')
    expect(unprotected).toMatchObject({
      status: 200,
      headers: { 'idempotency-status': 'unprotected' },
    })
    expect(open.origin.calls('/orders')).toBe(1)
  })
})

describe('two processes with a short lease', () => {
  let fleet: IdempotentFleet
  beforeAll(async () => {
    fleet = await startIdempotentFleet({ idempotency: { leaseMs: 3_000 } })
  })
  afterAll(() => fleet[Symbol.asyncDispose]())

  it('renew a lease for a handler that takes twice as long', async () => {
    const gate = createGate()
    fleet.origin.answer('/orders', { ...CREATED, gate })
    const first = fleet.post(0, '/orders')
    await fleet.origin.arrived('/orders')
    for (let i = 0; i < 6; i++) {
      await sleep(1_000)
      expect((await fleet.post(1, '/orders')).status).toBe(409)
    }
    gate.open()
    expect((await first).status).toBe(201)
    expect(fleet.origin.calls('/orders')).toBe(1)
  })

  it('continue after the completed step if a process dies between two steps', async () => {
    const once = { key: 'in-steps' }
    fleet.origin.answer('/pay/2', ({ number }) =>
      number === 1 ? { gate: createGate() } : { status: 201 },
    )
    void fleet.post(0, '/in-steps/pay', once)
    await fleet.origin.arrived('/pay/2')
    await fleet.member(0).kill()
    await expect
      .poll(async () => (await fleet.post(1, '/in-steps/pay', once)).body)
      .toBe('/pay/1 #1, /pay/2 #2')
    expect(fleet.origin.calls('/pay/1')).toBe(1)
  })
})
