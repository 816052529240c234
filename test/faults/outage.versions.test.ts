// Redis refused, frozen or killed: the origin responds within the budget, once per process, and the
// fleet recovers by itself.

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type CachedFleet, startCachedFleet } from '../harness/cached-fleet.ts'
import { type Answer, ask, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { ofThisRun } from '../harness/versions.ts'

const BUDGET_MS = 250
const ORIGIN_MS = 100
/** Less than a lease here, and than a frozen Redis. */
const SOON_MS = 20_000

const setUp = (ioredis: '5' | '6') =>
  startCachedFleet({
    size: 2,
    ioredis,
    originDelayMs: ORIGIN_MS,
    store: { commandTimeoutMs: BUDGET_MS },
    cache: { ttlMs: 60_000, leaseMs: 60_000 },
  })

let attempts = 0

/**
 * Fills a fresh key through one process and reads it in the other. Only Redis can carry the entry.
 */
async function sharesAgain(fleet: CachedFleet): Promise<boolean> {
  attempts += 1
  const path = `/recovered/${attempts}`
  const [first, second] = fleet.urls(path)
  const [one] = await burst([first ?? ''], 1)
  const [two] = await burst([second ?? ''], 1)
  return one?.body === two?.body
}

const recovers = (fleet: CachedFleet) =>
  expect.poll(() => sharesAgain(fleet), { timeout: 40_000, interval: 100 }).toBe(true)

function expectServed(answers: Answer[]): void {
  expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  const slowest = Math.max(...answers.map(({ latencyMs }) => latencyMs))
  expect(slowest).toBeLessThan(SOON_MS)
}

describe.each(ofThisRun<'5' | '6'>(['6'], ['5']))('a fleet with ioredis %s', (ioredis) => {
  // Each test leaves it as it was: every process uses Redis again.
  let fleet: CachedFleet
  beforeAll(async () => {
    fleet = await setUp(ioredis)
    await fleet.warmUp()
  })
  afterEach(() => fleet.redis.resume())
  afterAll(() => fleet[Symbol.asyncDispose]())

  it('waits for a frozen Redis for one budget, calls the origin once per process, and recovers', async () => {
    await fleet.redis.pause()
    const answers = await burst(fleet.urls('/frozen'), 100)
    expectServed(answers)
    expect(fleet.origin.calls('/frozen')).toBe(2)
    // Once the breaker is open, a request does not even spend the budget.
    for (const n of [1, 2, 3]) await burst(fleet.urls(`/open/${n}`), 2)
    const quick = await ask(`${fleet.member(0).url}/open/4`)
    expect(quick.status).toBe(200)
    await fleet.redis.resume()
    await recovers(fleet)
  })

  it('makes waiters wait for less than the lease when Redis freezes in the middle of a fill', async () => {
    const gate = createGate()
    fleet.origin.answer('/page', ({ number }) => (number === 1 ? { gate } : {}))
    const leading = ask(`${fleet.member(0).url}/page`)
    await fleet.origin.arrived('/page')
    const waiting = burst([`${fleet.member(1).url}/page`], 50)
    await expect
      .poll(async () =>
        (await fleet.member(1).ask<string[]>({ type: 'events' })).includes('wait.started'),
      )
      .toBe(true)
    await fleet.redis.pause()
    // A heartbeat every 1.25 s notices it.
    expectServed(await waiting)
    gate.open()
    expect((await leading).status).toBe(200)
    await fleet.redis.resume()
    await recovers(fleet)
  })

  it('continues when Redis is killed, also in the middle of a fill, and shares everything again after a restart', async () => {
    const midFlight = burst(fleet.urls('/mid-flight'), 60)
    await fleet.origin.arrived('/mid-flight')
    await fleet.redis.kill()
    expectServed(await midFlight)
    const answers = await burst(fleet.urls('/killed'), 100)
    expectServed(answers)
    expect(fleet.origin.calls('/killed')).toBe(2)
    await fleet.redis.restart()
    await recovers(fleet)
  })

  it('is not blocked by a lease that Redis grants, after a freeze, to a lookup that has timed out', async () => {
    await fleet.redis.pause()
    await burst(fleet.urls('/ghost'), 2)
    await fleet.redis.resume()
    await recovers(fleet)
    // An entry made without Redis stays in L1 for a second. After that the key can be leased at
    // once.
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    const [answer] = await burst([`${fleet.member(1).url}/ghost`], 1)
    expect(answer?.status).toBe(200)
    expect(answer?.latencyMs).toBeLessThan(SOON_MS)
  })
})

describe('a fleet', () => {
  it('works without Redis at the start, and uses Redis once it is there', async () => {
    await using fleet = await setUp('6')
    // No command ran before: the connections are open, but no script has run.
    await fleet.redis.kill()
    const answers = await burst(fleet.urls('/refused'), 100)
    expectServed(answers)
    expect(fleet.origin.calls('/refused')).toBe(2)
    await fleet.redis.restart()
    await recovers(fleet)
  })
})
