// The plain read before the script, used while most lookups are hits. It must reply as the script
// would, save the script, and never make another case slower for long.

import type { StampedeStore } from '@stampede/core'
import { systemClock } from '@stampede/core/store'
import { runs } from '@stampede/core/testing'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openBareStore, record, sentMeanwhile, write } from '../harness/bare-store.ts'
import { withLease, withLife } from '../harness/record-life.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

/** The time limit of a store that a frozen Redis holds up. */
const BUDGET_MS = 300
const { server, admin } = await redisOfFile()
const HOT = 'hot'

let open: StampedeStore[] = []
beforeEach(() => admin.flushall())
afterEach(async () => {
  await server.resume()
  await Promise.all(open.map((store) => store.close()))
  open = []
})

function openStore(commandTimeoutMs?: number): StampedeStore {
  const store = openBareStore(server.url, {}, commandTimeoutMs)
  open.push(store)
  return store
}

const look = (store: StampedeStore, key: string, leaseMs = 0) =>
  store.lookup(key, { token: 'token', leaseMs })
const sent = (work: () => Promise<unknown>) => sentMeanwhile(server, work)

/** Looks up hits until the store reads first. */
async function warm(store: StampedeStore): Promise<StampedeStore> {
  if ((await look(store, HOT)).status === 'busy') await write(store, HOT, 'hot')
  for (let i = 0; i < 40; i++) expect((await look(store, HOT)).status).toBe('fresh')
  return store
}

describe('a store that recently had hits', () => {
  it('sends plain reads without a script, and one TIME for all lookups of one turn', async () => {
    const store = await warm(openStore())
    const fifty = () => Promise.all(Array.from({ length: 50 }, () => look(store, HOT)))
    expect(await sent(fifty)).toEqual({ hmget: 50, time: 1, scripts: 0 })
  })

  it('uses the script first, and again after some misses', async () => {
    const store = openStore()
    await write(store, HOT, 'hot')
    expect(await sent(() => look(store, HOT))).toEqual({ hmget: 0, time: 0, scripts: 1 })
    await warm(store)
    const misses = async () => {
      for (let i = 0; i < 20; i++) await look(store, `none ${i}`)
    }
    expect(await sent(misses)).toEqual({ hmget: 5, time: 5, scripts: 20 })
  })

  it('uses the script if half of the time budget is over before the lookup', async () => {
    let skipped = 0
    const clock = { ...systemClock, now: () => systemClock.now() + skipped }
    const store = openBareStore(server.url, { clock }, 20_000)
    open.push(store)
    await warm(store)
    // The first connection of a process gives each step more time, for one budget.
    skipped += 20_001
    await warm(store)
    const spending = (ms: number) => async () => {
      // The process has to read the purge log first, which takes this part of the budget.
      skipped += 5_001
      const reply = look(store, HOT)
      // The budget begins in its turn, and then the read of the log is sent.
      await new Promise<void>((resolve) => process.nextTick(resolve))
      skipped += ms
      expect((await reply).status).toBe('fresh')
    }
    expect(await sent(spending(1_000))).toMatchObject({ hmget: 1 })
    await warm(store)
    expect(await sent(spending(12_000))).toMatchObject({ hmget: 0 })
  })

  it('takes the lease of a missing entry by the script', async () => {
    const store = await warm(openStore())
    expect(await look(store, 'missing', 5_000)).toMatchObject({ status: 'leased' })
    expect(await look(await warm(openStore()), 'missing', 5_000)).toMatchObject({
      status: 'leased',
    })
  })

  it('obeys a purge of the key or of its variants that came before the lookup', async () => {
    const [a, b] = [await warm(openStore()), openStore()]
    for (const key of ['k', 'k\0one']) await write(b, key, 'old')
    for (const key of ['k', 'k\0one']) expect((await look(a, key)).status).toBe('fresh')
    await b.purge('k', { soft: true })
    for (const key of ['k', 'k\0one']) expect((await look(a, key)).status).toBe('stale')
    await b.purge('k', { soft: false })
    for (const key of ['k', 'k\0one']) expect((await look(a, key)).status).toBe('busy')
  })

  it('uses the script for a caller whose copy is outdated', async () => {
    const store = await warm(openStore())
    for (const [soft, status] of [
      [true, 'stale'],
      [false, 'busy'],
    ] as const) {
      await write(store, 'k', 'old')
      const reply = await look(await warm(store), 'k')
      if (reply.status !== 'fresh') throw new Error(reply.status)
      const outdated = { fence: reply.stored.fence, soft }
      const lookup = () => store.lookup('k', { token: '', leaseMs: 0, outdated })
      expect((await lookup()).status).toBe(status)
      expect(await sent(lookup)).toEqual({ hmget: 0, time: 0, scripts: 1 })
      await store.purge('k', { soft: false })
    }
  })

  it('uses the script for a caller with a copy', async () => {
    const store = await warm(openStore())
    await write(store, 'k', 'entry')
    const reply = await look(await warm(store), 'k')
    if (reply.status !== 'fresh') throw new Error(reply.status)
    const knownFence = reply.stored.fence
    const known = await store.lookup('k', { token: '', leaseMs: 0, knownFence })
    expect(known).toMatchObject({ status: 'fresh', stored: { frame: undefined } })
  })

  it('sends a plain read only after its own earlier purge, also when the server lost its scripts', async () => {
    const store = await warm(openStore())
    await store.purge('k', { soft: false })
    for (const soft of [false, true]) {
      await write(store, 'k', 'old')
      expect((await look(await warm(store), 'k')).status).toBe('fresh')
      await admin.script('FLUSH')
      const purging = store.purge('k', { soft })
      expect((await look(store, 'k')).status).toBe(soft ? 'stale' : 'busy')
      await purging
    }
  })

  it('uses the script for a key that is not a hash', async () => {
    const store = await warm(openStore())
    await admin.set(record('k'), 'a string')
    expect(await look(store, 'k', 5_000)).toMatchObject({ status: 'leased' })
  })

  it('waits for a frozen Redis for at most two budgets', async () => {
    const store = await warm(openStore(BUDGET_MS))
    await server.pause()
    // Redis stays frozen until then.
    await expect(look(store, HOT)).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
  })

  it('opens the circuit breaker after three failures, and sends plain reads again later', async () => {
    const store = await warm(openStore())
    await server.pause()
    const late = [1, 2, 3].map(() => expect(look(store, HOT)).rejects.toThrow('no reply'))
    await Promise.all(late)
    await expect(look(store, HOT)).rejects.toThrow('earlier commands failed')
    await server.resume()
    await expect.poll(() => look(store, HOT).then(({ status }) => status, String)).toBe('fresh')
  })
})

describe('a plain read and the script', () => {
  const moment = fc.constantFrom(-1e13, -50_000, -10_000, 10_000, 50_000, 1e13)
  const fence = fc.constantFrom('0', '5', '6', '7', '9007199254740993', '9'.repeat(17), 'x', '')
  const duration = fc.constantFrom('0', '20000', '1e400', '-5', '99999999999999')
  const life = fc.oneof(
    { weight: 8, arbitrary: fc.constant('one 5 0') },
    fc.constantFrom('one 5 7', 'one 6 0', 'two 5 0', 'x', ''),
  )
  const planted = fc.record(
    {
      stored: fence,
      made: fc.oneof({ weight: 3, arbitrary: fc.constant(-10_000) }, moment),
      fresh: moment,
      swr: duration,
      sie: duration,
      keep: duration,
      frame: fc.constantFrom('', 'frame'),
      fence,
      group: life,
      token: fc.constantFrom('token', 'other'),
      until: moment,
      pass: moment,
      retry: moment,
      failure: fc.constant('{}'),
    },
    { requiredKeys: ['stored', 'made', 'fresh'] },
  )
  const stamps = fc.record({ variants: life }, { requiredKeys: [] })

  /** Moments by the server's clock. Values that are not numbers stay. */
  function fields(values: Record<string, unknown>) {
    const now = Date.now()
    const entries = Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'number' ? Math.max(0, now + value) : String(value),
    ])
    return withLease(withLife(Object.fromEntries(entries)))
  }

  const comparable = (reply: LookupReply) => {
    const { stored } = reply as { stored?: Record<string, unknown> }
    const rounded = (value: unknown) =>
      typeof value === 'number' ? Math.round(value / 5_000) : String(value)
    const times = stored && Object.entries(stored).map(([name, value]) => [name, rounded(value)])
    return { status: reply.status, ...(times && Object.fromEntries(times)) }
  }

  it('reply the same for random records', async () => {
    const [scripted, reading] = [openStore(), openStore()]
    await warm(reading)
    const fresh = { variants: 0, others: 0 }
    await fc.assert(
      fc.asyncProperty(planted, stamps, fc.boolean(), async (values, marks, isVariant) => {
        const key = isVariant ? 'k\0one' : 'k'
        await admin.del(record('k'), record('k\0one'))
        await admin.hset(record(key), fields(values))
        if (isVariant && Object.keys(marks).length > 0) await admin.hset(record('k'), fields(marks))
        const read = comparable(await look(reading, key))
        expect(read).toEqual(comparable(await look(scripted, key)))
        if (read.status === 'fresh') fresh[isVariant ? 'variants' : 'others'] += 1
        await Promise.all(Array.from({ length: 4 }, () => look(reading, HOT)))
      }),
      // Always 800 runs, because the counts below need them.
      { ...runs(800), numRuns: 800 },
    )
    expect(fresh.variants).toBeGreaterThan(5)
    expect(fresh.others).toBeGreaterThan(20)
  })
})
