// Fills whose holder is overtaken, frozen or killed, or whose key is purged meanwhile.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CachedFleet, startCachedFleet } from '../harness/cached-fleet.ts'
import { ask, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'

interface Stats {
  readonly fills: { readonly fenced: number }
}

const LEASE_MS = 1_500

describe('a fleet on Express', () => {
  // Starting a process costs more than a test. So every test uses these, with a path of its own.
  // The last one kills a process.
  let fleet: CachedFleet
  beforeAll(async () => {
    fleet = await startCachedFleet({ size: 3, cache: { ttlMs: 60_000, leaseMs: LEASE_MS } })
    await fleet.warmUp()
  })
  afterAll(() => fleet[Symbol.asyncDispose]())
  const fencedIn = async (index: number) =>
    (await fleet.member(index).ask<Stats>({ type: 'stats' })).fills.fenced

  it('serves no old value after a purge from another process during a fill', async () => {
    const [a, b, c] = [fleet.member(0), fleet.member(1), fleet.member(2)]
    const fencedBefore = await fencedIn(0)
    const gate = createGate()
    fleet.origin.answer('/product', ({ number }) =>
      number === 1 ? { body: 'old', gate } : { body: 'new' },
    )
    const filling = ask(`${a.url}/product`)
    await fleet.origin.arrived('/product')
    const waiting = ask(`${c.url}/product`)
    await expect
      .poll(async () => (await c.ask<string[]>({ type: 'events' })).includes('wait.started'))
      .toBe(true)

    await b.ask({ type: 'purge', key: '/product' })
    expect((await waiting).body).toBe('new')
    gate.open()
    expect((await filling).body).toBe('old')
    const after = await burst(fleet.urls('/product'), 30)
    expect(new Set(after.map(({ body }) => body))).toEqual(new Set(['new']))
    expect(await fencedIn(0)).toBe(fencedBefore + 1)
  })

  it('makes the entries of every process outdated after an unsafe request to one', async () => {
    const [a, b] = [fleet.member(0), fleet.member(1)]
    let stock = 'much'
    fleet.origin.answer('/stock', ({ method }) => {
      if (method === 'POST') stock = 'less'
      return method === 'POST' ? { status: 204 } : { body: stock }
    })
    const bodies = async () =>
      (await burst(fleet.urls('/stock'), 6)).map(({ body }) => body).join(' ')
    expect(await bodies()).toBe(Array(6).fill('much').join(' '))
    expect(await ask(`${a.url}/stock`, { method: 'POST' })).toMatchObject({ status: 204 })
    // The process that changed the resource looks up in the store. The others get the notification
    // a moment later.
    expect((await ask(`${a.url}/stock`)).body).toBe('less')
    await expect.poll(bodies).toBe(Array(6).fill('less').join(' '))
    expect(fleet.origin.calls('/stock')).toBe(3)
    expect(await b.ask<string[]>({ type: 'events' })).toContain('entry.purged')
  })

  it('refuses the commit of a holder frozen past its lease, in Redis and in its own memory', async () => {
    const [a, b] = [fleet.member(0), fleet.member(1)]
    const fencedBefore = await fencedIn(0)
    const gate = createGate()
    fleet.origin.answer('/frozen', ({ number }) =>
      number === 1 ? { body: 'late', gate } : { body: 'newer' },
    )
    const late = ask(`${a.url}/frozen`)
    await fleet.origin.arrived('/frozen')
    a.pause()
    // Waits for the frozen holder's lease to end, then fills.
    expect((await ask(`${b.url}/frozen`)).body).toBe('newer')
    gate.open()
    a.resume()
    expect((await late).body).toBe('late')
    const after = await burst(fleet.urls('/frozen'), 10)
    expect(new Set(after.map(({ body }) => body))).toEqual(new Set(['newer']))
    expect(await fencedIn(0)).toBe(fencedBefore + 1)
    expect(fleet.origin.calls('/frozen')).toBe(2)
  })

  it('calls a slow origin once, because the lease is renewed while it runs', async () => {
    fleet.origin.answer('/slow', { delayMs: 2 * LEASE_MS })
    const answers = await burst(fleet.urls('/slow'), 20)
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['/slow #1']))
    expect(fleet.origin.calls('/slow')).toBe(1)
  })

  it('waits at most one lease when a holder is killed, and calls the origin once more', async () => {
    const [a, b, c] = [fleet.member(0), fleet.member(1), fleet.member(2)]
    const gate = createGate()
    fleet.origin.answer('/page', ({ number }) => (number === 1 ? { gate } : { body: 'filled' }))
    const lost = ask(`${a.url}/page`)
    await fleet.origin.arrived('/page')
    const waiting = burst([`${b.url}/page`, `${c.url}/page`], 100)
    await expect
      .poll(async () => (await c.ask<string[]>({ type: 'events' })).includes('wait.started'))
      .toBe(true)
    const killedAt = performance.now()
    await a.kill()
    const answers = await waiting
    const tookMs = performance.now() - killedAt
    gate.open()
    expect((await lost).status).toBe(0)
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['filled']))
    expect(fleet.origin.calls('/page')).toBe(2)
    // Less than the time for which waiters wait at most.
    expect(tookMs).toBeLessThan(20_000)
  })
})
