// The promise for a fleet: one process does the work, and all requests get the result.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CachedFleet, startCachedFleet } from '../harness/cached-fleet.ts'
import { countSent } from '../harness/command-trace.ts'
import { type Answer, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'

const ORIGIN_MS = 200

const percentile = (answers: Answer[], p: number): number => {
  const sorted = answers.map(({ latencyMs }) => latencyMs).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? 0
}

interface Waits {
  readonly collapsed: number
  readonly waits: { readonly started: number }
}

interface Active {
  readonly active: { readonly flights: number; readonly leases: number }
}

describe('a fleet of 4 processes, on Express and on Koa in turn', () => {
  // Starting a process costs more than a test. So every test uses these, with a path of its own.
  let fleet: CachedFleet
  beforeAll(async () => {
    fleet = await startCachedFleet({
      framework: 'express,koa',
      originDelayMs: ORIGIN_MS,
      // A thousand requests take more than half a minute on a busy machine.
      cache: {
        ttlMs: 600_000,
        staleWhileRevalidateMs: 600_000,
        leaseMs: 30_000,
        waitMs: 80_000,
        originTimeoutMs: 80_000,
      },
      stampede: { failureBackoffMs: 400 },
    })
    await fleet.warmUp()
  })
  afterAll(() => fleet[Symbol.asyncDispose]())

  it('calls the origin once for 1000 requests of a cold key, within 12 Redis commands', async () => {
    let answers: Answer[] = []
    const commands = await countSent(fleet.redis, async () => {
      answers = await burst(fleet.urls('/cold'), 1_000)
    })
    expect(fleet.origin.calls('/cold')).toBe(1)
    expect(answers.filter(({ status }) => status !== 200)).toEqual([])
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['/cold #1']))
    expect(commands).toBeLessThanOrEqual(12)
    const slowest = Math.round(percentile(answers, 1))
    console.log(`${commands} commands, slowest answer ${slowest} ms`)
  })

  it('serves 1000 requests of a stale key at once, and refreshes the key once', async () => {
    // Only the first response becomes stale during the test. The test releases the second one.
    const gate = createGate()
    fleet.origin.answer('/page', ({ number }) =>
      number === 1 ? { headers: { 'cache-control': 'max-age=3' } } : { gate },
    )
    await burst(fleet.urls('/page'), 8)
    expect(fleet.origin.calls('/page')).toBe(1)
    await new Promise((resolve) => setTimeout(resolve, 3_100))

    const answers = await burst(fleet.urls('/page'), 1_000)
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['/page #1']))
    await fleet.origin.arrived('/page', 2)
    gate.open()
    await expect
      .poll(async () => (await burst(fleet.urls('/page'), 4)).map(({ body }) => body))
      .toEqual(Array(4).fill('/page #2'))
    expect(fleet.origin.calls('/page')).toBe(2)
  })

  it('runs 200 requests in parallel if the response sets a cookie, and shares no byte', async () => {
    for (const [path, headers] of [
      ['/cookie', { 'set-cookie': 'user=%N' }],
      ['/private', { 'cache-control': 'private, max-age=60' }],
    ] as const) {
      const rest = createGate()
      fleet.origin.answer(path, ({ number }) => ({
        headers: JSON.parse(JSON.stringify(headers).replace('%N', String(number))),
        body: `user ${number}`,
        // At most three rounds: the first response, that of one waiter, then all others at once.
        ...(number <= 2 ? { delayMs: ORIGIN_MS } : { gate: rest }),
      }))
      const pending = burst(fleet.urls(path), 200)
      await fleet.origin.arrived(path, 200)
      rest.open()
      const answers = await pending
      expect(answers.every(({ status }) => status === 200)).toBe(true)
      expect(new Set(answers.map(({ body }) => body)).size).toBe(200)
      expect(fleet.origin.calls(path)).toBe(200)
    }
  })

  it.each([
    ['one more run, if only the first response sets a cookie', 1, 2],
    ['one more run before the others if every response does', 61, 61],
  ])(
    'makes waiters of 3 processes wait for %s, while the first process has no waiters',
    async (_, cookies, runs) => {
      const path = `/first-visit/${cookies}`
      const [gate, rest] = [createGate(), createGate()]
      fleet.origin.answer(path, ({ number }) => ({
        ...(number <= cookies && { headers: { 'set-cookie': `visit=${number}` } }),
        body: `page ${number}`,
        ...(number !== 2 && { gate: number === 1 ? gate : rest }),
      }))
      const [first, ...others] = fleet.members
      const started = () =>
        Promise.all(
          others.map(async (member) => {
            const { collapsed, waits } = await member.ask<Waits>({ type: 'stats' })
            return [collapsed, waits.started]
          }),
        )
      const before = await started()
      const leader = burst([`${first?.url}${path}`], 1)
      await fleet.origin.arrived(path)
      const waiters = burst(
        others.map(({ url }) => url + path),
        60,
      )
      // 20 requests in each process, of which one sends the lookup, and then all wait.
      const waiting = before.map(([joined = 0, waits = 0]) => [joined + 19, waits + 1])
      await expect.poll(started).toEqual(waiting)
      gate.open()
      // From the third on, no run ends before all have begun.
      await fleet.origin.arrived(path, runs)
      rest.open()
      const answers = [...(await leader), ...(await waiters)]
      expect(answers.filter(({ status }) => status !== 200)).toEqual([])
      expect(fleet.origin.calls(path)).toBe(runs)
      expect(answers.filter(({ headers }) => headers['set-cookie'])).toHaveLength(cookies)
      expect(new Set(answers.map(({ body }) => body)).size).toBe(runs)
    },
  )

  it.each([
    ['the same process', 0],
    ['another process', 1],
  ])('shares a cold page in %s after one response that sets a cookie', async (_, index) => {
    const path = `/odd/${index}`
    const gate = createGate()
    fleet.origin.answer(path, ({ number }) =>
      number === 1 ? { headers: { 'set-cookie': 'visit=1' } } : { gate },
    )
    const [first, next] = [fleet.members[0], fleet.members[index]]
    const [odd] = await burst([`${first?.url}${path}`], 1)
    expect(odd?.headers['set-cookie']).toEqual(['visit=1'])
    const joined = async () => (await next?.ask<Waits>({ type: 'stats' }))?.collapsed ?? 0
    const before = await joined()
    const pending = burst([`${next?.url}${path}`], 40)
    await fleet.origin.arrived(path, 2)
    await expect.poll(joined).toBeGreaterThanOrEqual(before + 39)
    gate.open()
    expect(new Set((await pending).map(({ body }) => body))).toEqual(new Set([`${path} #2`]))
    expect(fleet.origin.calls(path)).toBe(2)
  })

  it('shares one failure among 100 waiters, and calls the origin again after the back-off', async () => {
    /** Sends `count` requests, of which all but one wait before the handler fails. */
    const fail = async (count: number) => {
      const gate = createGate()
      fleet.origin.answer('/broken', () => ({ status: 503, body: 'down', gate }))
      const waiting = async () => {
        const stats = fleet.members.map((member) => member.ask<Waits>({ type: 'stats' }))
        return (await Promise.all(stats)).reduce(
          (sum, { collapsed, waits }) => sum + collapsed + waits.started,
          0,
        )
      }
      const before = await waiting()
      const pending = burst(fleet.urls('/broken'), count)
      await expect.poll(waiting).toBe(before + count - 1)
      gate.open()
      return pending
    }
    const answers = await fail(100)
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(503))
    expect(fleet.origin.calls('/broken')).toBe(1)
    expect(answers.filter(({ body }) => body === 'down')).toHaveLength(1)
    await new Promise((resolve) => setTimeout(resolve, 500))
    await fail(40)
    expect(fleet.origin.calls('/broken')).toBe(2)
  })

  it('passes a failure through unchanged on every process if no other request waits', async () => {
    fleet.origin.answer('/broken/alone', ({ number }) => ({ status: 503, body: `down ${number}` }))
    for (const number of [1, 2, 3, 4]) {
      const member = fleet.member(number % 2)
      const [answer] = await burst([`${member.url}/broken/alone`], 1)
      expect(answer).toMatchObject({ status: 503, body: `down ${number}` })
      // Until Redis has the end of the failed fill, the lease is still held, and a new request
      // would wait.
      await expect
        .poll(async () => (await member.ask<Active>({ type: 'stats' })).active)
        .toEqual({ flights: 0, leases: 0 })
    }
  })
})
