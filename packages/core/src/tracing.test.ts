// Tracing channels: the order of messages, their contexts, and what they cost without a subscriber.

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createStampede } from './stampede.ts'
import { IdempotencyBench } from './testing/idempotency-bench.ts'
import { settled } from './testing/index.ts'
import { begin, begun, clock, end, KEY, outcome, setUp, setUpTwo } from './testing/resolve-bench.ts'
import { refuse } from './testing/store-doubles.ts'
import { TraceTranscript } from './testing/trace-transcript.ts'
import { fillTracing, lookupTracing, trace, type WaitTrace } from './tracing.ts'

let traces: TraceTranscript
const stops: (() => void)[] = []

beforeEach(() => {
  begin()
  traces = new TraceTranscript()
})
afterEach(async () => {
  traces.stop()
  for (const stop of stops.splice(0)) stop()
  await end()
})

/** Ends run `index` of the origin with its own value. */
async function finish(
  origin: { run(index: number): { resolve(value: unknown): void } },
  index = 0,
) {
  await origin.run(index).resolve(`v${index}`)
}

describe('a miss', () => {
  it('is a lookup with a fill inside', async () => {
    traces.record()
    const { get, origin } = setUp()
    const asked = get()
    await settled()
    expect(traces.take()).toEqual([
      'lookup start',
      'lookup end',
      'fill start behind=false fence=bigint',
      'fill end behind=false fence=bigint',
    ])
    await finish(origin)
    expect(await asked).toBe('v0')
    expect(traces.take()).toEqual([
      'lookup asyncStart outcome=led',
      'lookup asyncEnd outcome=led',
      'fill asyncStart behind=false fence=bigint outcome=committed',
      'fill asyncEnd behind=false fence=bigint outcome=committed',
    ])
    expect(traces.contexts).toMatchObject([
      { key: 'k', internalKey: KEY },
      { key: 'k', internalKey: KEY },
    ])
  })

  it('has an error in its fill if the origin fails, before the fill ends', async () => {
    traces.record(['stampede:fill'])
    const { get, origin } = setUp()
    const asked = await begun(get())
    await origin.run(0).reject(new Error('down'))
    expect(asked.now).toBe('down')
    expect(traces.take().slice(2)).toEqual([
      'fill error behind=false fence=bigint outcome=failed status=500 error=down',
      'fill asyncStart behind=false fence=bigint outcome=failed status=500 error=down',
      'fill asyncEnd behind=false fence=bigint outcome=failed status=500 error=down',
    ])
  })

  it('has a fill without a fence if the store is unavailable', async () => {
    traces.record(['stampede:fill'])
    const { fill, store } = setUp()
    store.next('lookup', refuse)
    await fill('v0')
    expect(traces.take().at(-1)).toBe('fill asyncEnd behind=false outcome=local')
  })

  it('has a synchronous fill if the factory throws at once', async () => {
    traces.record(['stampede:fill'])
    const { stampede } = setUp()
    const fails = () => {
      throw new Error('down')
    }
    await expect(stampede.getOrSet('k', fails, { ttlMs: 1_000 })).rejects.toThrow('down')
    expect(traces.take()).toEqual([
      'fill start behind=false fence=bigint',
      'fill error behind=false fence=bigint outcome=failed status=500 error=down',
      'fill end behind=false fence=bigint outcome=failed status=500 error=down',
    ])
  })

  it('has a fenced fill if a purge came during the run', async () => {
    traces.record(['stampede:fill'])
    const { get, origin, stampede } = setUp()
    const asked = get()
    await settled()
    await stampede.purge({ key: 'k' })
    await finish(origin)
    await asked
    expect(traces.take().at(-1)).toBe('fill asyncEnd behind=false fence=bigint outcome=fenced')
  })
})

describe('a hit', () => {
  it('is synchronous in memory', async () => {
    const { get, fill } = setUp()
    await fill('v0')
    traces.record()
    await get()
    expect(traces.take()).toEqual([
      'lookup start outcome=hit tier=l1',
      'lookup end outcome=hit tier=l1',
    ])
  })

  it('names its tier', async () => {
    const { fillA, getB } = setUpTwo()
    await fillA('v0')
    traces.record()
    await getB()
    expect(traces.take().at(-1)).toBe('lookup asyncEnd outcome=hit tier=l2')
  })

  it('is absent for a read that never fills', async () => {
    const { stampede } = setUp()
    traces.record()
    const products = stampede.cache('products', { ttlMs: 1_000 })
    expect(await products.get('7')).toBeUndefined()
    expect(traces.take().at(-1)).toBe('lookup asyncEnd outcome=absent')
    expect(traces.contexts[0]?.key).toBe('products:7')
  })
})

describe('a wait', () => {
  it('names the fill of the same process', async () => {
    traces.record(['stampede:wait', 'stampede:fill'])
    const { get, origin } = setUp()
    const asked = [get(), get()]
    await settled()
    await finish(origin)
    await Promise.all(asked)
    const waits = traces.take().filter((line) => line.startsWith('wait'))
    expect(waits).toEqual([
      'wait start',
      'wait end',
      'wait asyncStart fill=committed outcome=collapsed',
      'wait asyncEnd fill=committed outcome=collapsed',
    ])
    const wait = traces.contexts.find((context): context is WaitTrace => 'fill' in context)
    expect(wait?.fill?.internalKey).toBe(KEY)
  })

  it('has no fill if another process fills', async () => {
    const { getA, getB, originA } = setUpTwo()
    const first = getA()
    await settled()
    traces.record(['stampede:wait', 'stampede:lookup'])
    const second = getB()
    await settled()
    expect(traces.take()).toEqual(['lookup start', 'lookup end', 'wait start', 'wait end'])
    await finish(originA)
    await Promise.all([first, second])
    expect(traces.take()).toEqual([
      'wait asyncStart outcome=hit',
      'wait asyncEnd outcome=hit',
      'lookup asyncStart outcome=hit tier=l2',
      'lookup asyncEnd outcome=hit tier=l2',
    ])
  })

  it('ends when its waiter leads', async () => {
    const { getA, getB, originB, storeA } = setUpTwo()
    void outcome(getA())
    await settled()
    traces.record(['stampede:wait'])
    const second = getB()
    await settled()
    // Process a has died: it renews nothing, and its lease ends.
    storeA.always = refuse
    await clock.advance(31_000)
    expect(traces.take().at(-1)).toBe('wait asyncEnd outcome=led')
    await finish(originB)
    await second
  })

  it('ends after `waitMs`', async () => {
    const { getA, getB, originA } = setUpTwo()
    const first = getA()
    await settled()
    traces.record(['stampede:wait'])
    void outcome(getB({ waitMs: 50 }))
    await settled()
    await clock.advance(60)
    expect(traces.take().at(-1)).toBe('wait asyncEnd outcome=timed-out')
    await finish(originA)
    await first
  })
})

describe('a refresh', () => {
  const STALE = { staleWhileRevalidateMs: 60_000 }

  it('contains its fill, after a stale hit', async () => {
    const { get, fill, origin } = setUp()
    await fill('v0', STALE)
    await clock.advance(1_500)
    traces.record()
    await get(STALE)
    await settled()
    expect(traces.take()).toEqual([
      'lookup start',
      'lookup end outcome=stale tier=l1',
      'refresh start',
      'fill start behind=true fence=bigint',
      'fill end behind=true fence=bigint',
      'refresh end',
    ])
    await finish(origin, 1)
    expect(traces.take()).toEqual([
      'fill asyncStart behind=true fence=bigint outcome=committed',
      'fill asyncEnd behind=true fence=bigint outcome=committed',
      'refresh asyncStart outcome=committed',
      'refresh asyncEnd outcome=committed',
    ])
  })

  it('has the error of its fill', async () => {
    const { get, fill, origin } = setUp()
    await fill('v0', STALE)
    await clock.advance(1_500)
    traces.record(['stampede:refresh'])
    await get(STALE)
    await settled()
    await origin.run(1).reject(new Error('down'))
    expect(traces.take().slice(2)).toEqual([
      'refresh error outcome=failed error=down',
      'refresh asyncStart outcome=failed error=down',
      'refresh asyncEnd outcome=failed error=down',
    ])
  })
})

describe('a lookup without a shared store', () => {
  it('ends before its end message if the factory is synchronous', async () => {
    const stampede = createStampede({ clock })
    traces.record(['stampede:lookup'])
    await stampede.getOrSet('k', () => 1, { ttlMs: 1_000 })
    await stampede.close()
    expect(traces.take()).toEqual(['lookup start', 'lookup end outcome=led'])
  })
})

describe('the async context', () => {
  /** The stores that each run of the factory saw. */
  function stores() {
    const active = new AsyncLocalStorage<string>()
    lookupTracing.start.bindStore(active, () => `${active.getStore()} > lookup`)
    fillTracing.start.bindStore(active, () => `${active.getStore()} > fill`)
    stops.push(
      () => lookupTracing.start.unbindStore(active),
      () => fillTracing.start.unbindStore(active),
    )
    return active
  }

  it('is that of the lookup at its end', async () => {
    const active = stores()
    const seen: unknown[] = []
    const note = () => seen.push(active.getStore())
    subscribe('tracing:stampede:lookup:asyncEnd', note)
    stops.push(() => void unsubscribe('tracing:stampede:lookup:asyncEnd', note))
    const call = async () => {
      await 0
      throw new Error('down')
    }
    const context = () => ({ key: 'k', internalKey: KEY })
    await active.run('request', () =>
      Promise.allSettled([
        trace(lookupTracing, context(), call),
        trace(lookupTracing, context(), async () => 1),
      ]),
    )
    expect(seen).toEqual(['request > lookup', 'request > lookup'])
  })

  it('is that of the fill, in the lookup, in the request, for a run', async () => {
    const active = stores()
    const { stampede } = setUp()
    const seen: unknown[] = []
    const factory = async () => {
      await settled()
      seen.push(active.getStore())
      return 1
    }
    await active.run('request', () => stampede.getOrSet('k', factory, { ttlMs: 1_000 }))
    expect(seen).toEqual(['request > lookup > fill'])
  })

  it('is that of its own request for a waiter that leads after a purge, with lookups traced', async () => {
    const active = new AsyncLocalStorage<string>()
    traces.record(['stampede:lookup'])
    const { stampede } = setUp()
    const seen: unknown[] = []
    let end: (value: string) => void = () => {}
    const factory = () => {
      seen.push(active.getStore())
      return seen.length > 1 ? 'second' : new Promise<string>((resolve) => (end = resolve))
    }
    const ask = (name: string) =>
      active.run(name, () => stampede.getOrSet('k', factory, { ttlMs: 1_000 }))
    const all = [ask('a'), ask('b')]
    await settled()
    await stampede.purge({ key: 'k' })
    end('first')
    expect(await Promise.all(all)).toEqual(['first', 'second'])
    expect(seen).toEqual(['a', 'b'])
  })

  it('is that of its own request for a waiter that leads later', async () => {
    const active = stores()
    const { getA, b, storeA } = setUpTwo()
    void outcome(getA())
    await settled()
    const seen: unknown[] = []
    const factory = async () => seen.push(active.getStore())
    const ask = (name: string, waitMs: number) =>
      active.run(name, () => outcome(b.getOrSet('k', factory, { ttlMs: 1_000, waitMs })))
    ask('impatient', 20)
    const patient = ask('patient', 60_000)
    await settled()
    storeA.always = refuse
    await clock.advance(31_000)
    // After `waitMs`, a caller runs the factory for itself, without a fill.
    expect(seen).toEqual(['impatient', 'patient > lookup > fill'])
    expect(patient.now).toBe(2)
  })
})

describe('an idempotent run', () => {
  let bench: IdempotencyBench
  beforeEach(() => {
    bench = new IdempotencyBench()
  })
  afterEach(() => bench.end())

  it('has the outcome of its job', async () => {
    traces.record()
    await bench.stampede.idempotent('job:1', async () => 7)
    await bench.stampede.idempotent('job:1', async () => 8)
    expect(traces.take()).toEqual([
      'idempotency start kind=job',
      'idempotency end kind=job',
      'idempotency asyncStart kind=job fence=bigint outcome=started ended=completed',
      'idempotency asyncEnd kind=job fence=bigint outcome=started ended=completed',
      'idempotency start kind=job',
      'idempotency end kind=job',
      'idempotency asyncStart kind=job outcome=replayed-l1',
      'idempotency asyncEnd kind=job outcome=replayed-l1',
    ])
    expect(traces.contexts[0]).toMatchObject({ key: 'job:1' })
  })

  it('has the error of its job', async () => {
    traces.record()
    const failed = bench.stampede.idempotent('job:1', async () => {
      throw new Error('no stock')
    })
    await expect(failed).rejects.toThrow('no stock')
    expect(traces.take().at(-3)).toMatch(/^idempotency error .* ended=released error=no stock$/)
  })

  it('lasts until the handler of its request has ended', async () => {
    const ask = bench.route()
    traces.record()
    const request = await ask()
    expect(traces.take()).toEqual(['idempotency start kind=http', 'idempotency end kind=http'])
    expect(request.given).toBeDefined()
    await request.answer({ status: 201 })
    await settled()
    expect(traces.take().at(-1)).toBe(
      'idempotency asyncEnd kind=http fence=bigint outcome=started ended=completed',
    )
    await ask()
    expect(traces.take().at(-1)).toBe('idempotency end kind=http outcome=replayed-l1')
    expect(traces.contexts[0]?.key).toBe('k-1')
  })
})

describe('a Stampede without a subscriber', () => {
  it('creates no context on any path', async () => {
    vi.resetModules()
    const created = vi.fn()
    vi.doMock('./tracing.ts', async (original) => ({
      ...(await original<typeof import('./tracing.ts')>()),
      contextOf: created,
      currentScope: created,
      trace: created,
      traced: created,
    }))
    try {
      const { createStampede } = await import('./stampede.ts')
      const stampede = createStampede({ clock })
      const options = { ttlMs: 5, staleWhileRevalidateMs: 60_000 }
      const get = () => stampede.getOrSet('k', async () => 1, options)
      await Promise.all([get(), get()])
      await get()
      await clock.advance(10)
      await get()
      await settled()
      await stampede.cache('p', options).get('7')
      await stampede.idempotent('job', async () => 1)
      await stampede.close()
      expect(stampede.stats().fills.started).toBe(2)
      expect(created).not.toHaveBeenCalled()
    } finally {
      vi.doUnmock('./tracing.ts')
      vi.resetModules()
    }
  })
})

describe('a subscriber that throws', () => {
  it('changes no result; Node reports its error as an uncaught exception', async () => {
    const thrown: unknown[] = []
    const before = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.on('uncaughtException', (error) => thrown.push(error.message))
    const careless = () => {
      throw new Error('careless')
    }
    const names = ['start', 'end', 'asyncStart', 'asyncEnd'].map(
      (s) => `tracing:stampede:fill:${s}`,
    )
    for (const name of names) subscribe(name, careless)
    const store = new AsyncLocalStorage()
    fillTracing.start.bindStore(store, careless)
    try {
      const { get, origin } = setUp()
      const asked = [get(), get()]
      await settled()
      await finish(origin)
      expect(await Promise.all(asked)).toEqual(['v0', 'v0'])
      await new Promise(setImmediate)
      expect(thrown).toEqual(Array(5).fill('careless'))
    } finally {
      for (const name of names) unsubscribe(name, careless)
      fillTracing.start.unbindStore(store)
      process.removeAllListeners('uncaughtException')
      for (const listener of before) process.on('uncaughtException', listener)
    }
  })
})
