// Delivery of a new entry with the wake-up message. A waiting process gets the entry without a
// command, but only the entry that it waits for. Any purge discards entries delivered before it.

import type { StampedeStore } from '@stampede/core'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LIFETIMES, openBareStore, sentMeanwhile, wakePrefix } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

const { server, admin } = await redisOfFile()
const KEY = 'k'
const LEASE_MS = 20_000

let open: StampedeStore[] = []
beforeEach(() => admin.flushall())
afterEach(async () => {
  await Promise.all(open.map((store) => store.close()))
  open = []
})

function openOne() {
  const wakes: string[] = []
  const store = openBareStore(server.url, { onWake: (key) => void wakes.push(key) })
  open.push(store)
  return { store, wakes }
}

const ask = (store: StampedeStore, token: string, more = {}) =>
  store.lookup(KEY, { token, leaseMs: LEASE_MS, ...more })

async function lease(store: StampedeStore, token = 'filler') {
  const reply = await ask(store, token)
  if (reply.status !== 'leased') throw new Error(reply.status)
  return reply.grant
}

const frameOf = (reply: LookupReply) =>
  'stored' in reply ? String(reply.stored?.frame) : reply.status
const commit = (store: StampedeStore, grant: Awaited<ReturnType<typeof lease>>, frame: string) =>
  store.commit(grant, Buffer.from(frame), LIFETIMES)

/** One process fills, and the other waits for it. */
async function setUp() {
  const [filler, waiter] = [openOne(), openOne()]
  const grant = await lease(filler.store)
  expect(await ask(waiter.store, 'waiter')).toMatchObject({ status: 'busy' })
  return { filler: filler.store, waiter: waiter.store, wakes: waiter.wakes, grant }
}

const woken = (wakes: readonly string[]) => expect.poll(() => wakes, { interval: 2 })

describe('a process that waits for a fill', () => {
  it('gets the new entry and its times with the wake-up, without a command', async () => {
    const { filler, waiter, wakes, grant } = await setUp()
    await commit(filler, grant, 'made')
    await woken(wakes).toEqual([KEY])
    let reply = { status: 'busy', busyForMs: 0 } as LookupReply
    const sent = await sentMeanwhile(server, async () => {
      reply = await ask(waiter, 'waiter')
    })
    expect(sent).toEqual({ hmget: 0, time: 0, scripts: 0 })
    const { freshMs, physicalMs: _, ...windows } = LIFETIMES
    expect(reply).toMatchObject({ status: 'fresh', stored: { fence: grant.fence, ...windows } })
    expect(frameOf(reply)).toBe('made')
    const { ageMs = -1, freshForMs = 0 } = ('stored' in reply && reply.stored) || {}
    expect(ageMs).toBeGreaterThanOrEqual(0)
    expect(ageMs).toBeLessThan(5_000)
    expect(ageMs + freshForMs).toBeCloseTo(freshMs, 0)
  })

  it('gets the delivered entry once, and runs the script for the next lookup', async () => {
    const { filler, waiter, wakes, grant } = await setUp()
    await commit(filler, grant, 'made')
    await woken(wakes).toEqual([KEY])
    await ask(waiter, 'waiter')
    const { scripts } = await sentMeanwhile(server, () => ask(waiter, 'waiter'))
    expect(scripts).toBe(1)
  })

  it('runs the script if the entry is too long for a message', async () => {
    const { filler, waiter, wakes, grant } = await setUp()
    await commit(filler, grant, 'x'.repeat(16 * 1024 + 1))
    await woken(wakes).toEqual([KEY])
    const { scripts } = await sentMeanwhile(server, () => ask(waiter, 'waiter'))
    expect(scripts).toBe(1)
  })

  it('gets only the wake-up if it has already served a stale entry', async () => {
    const [filler, other] = [openOne(), openOne()]
    const stale = { ...LIFETIMES, freshMs: 1, staleWhileRevalidateMs: 60_000 }
    await filler.store.commit(await lease(filler.store), Buffer.from('old'), stale)
    await expect.poll(async () => (await ask(filler.store, 'a')).status).toBe('stale')
    expect(await ask(other.store, 'other')).toMatchObject({ status: 'stale' })
    const heard: string[] = []
    const listener = admin.duplicate()
    await listener.psubscribe(`${wakePrefix}*`)
    listener.on('pmessage', (_pattern, _channel, message) => void heard.push(message))
    const refresh = await ask(filler.store, 'a')
    if (refresh.status !== 'stale' || refresh.grant === undefined) throw new Error(refresh.status)
    await commit(filler.store, refresh.grant, 'made')
    await woken(other.wakes).toEqual([KEY])
    await expect.poll(() => heard).toEqual([KEY])
    listener.disconnect()
  })

  it('runs the script for another token, or an outdated entry', async () => {
    for (const [token, more] of [
      ['another', {}],
      ['waiter', { outdated: { fence: '5', soft: false } }],
    ] as const) {
      await admin.flushall()
      const { filler, waiter, wakes, grant } = await setUp()
      await commit(filler, grant, 'made')
      await woken(wakes).toEqual([KEY])
      const { scripts } = await sentMeanwhile(server, () => ask(waiter, token, more))
      expect(scripts).toBe(1)
    }
  })
})

describe('a purge after a delivery', () => {
  it.each([
    ['of the key', (store: StampedeStore) => store.purge(KEY, { soft: false })],
    ['of another key', (store: StampedeStore) => store.purge('other', { soft: true })],
    ['by tag', (store: StampedeStore) => store.mark('t=x', { soft: false })],
  ])('discards the delivered entry if it is %s', async (_which, purge) => {
    const { filler, waiter, wakes, grant } = await setUp()
    await commit(filler, grant, 'made')
    await woken(wakes).toEqual([KEY])
    await purge(waiter)
    const { scripts } = await sentMeanwhile(server, () => ask(waiter, 'waiter'))
    expect(scripts).toBe(1)
  })

  it('prevents the late entry of an earlier fill from being used', async () => {
    const { filler, waiter, wakes, grant } = await setUp()
    const channel = `${wakePrefix}*`
    const seen: Buffer[] = []
    const listener = admin.duplicate()
    await listener.psubscribe(channel)
    listener.on('pmessageBuffer', (_pattern: string, _channel: Buffer, message: Buffer) =>
      seen.push(message),
    )
    await commit(filler, grant, 'old')
    await woken(wakes).toEqual([KEY])
    await expect.poll(() => seen.length).toBe(1)
    await waiter.purge(KEY, { soft: false })
    // Another process fills now, and the waiter waits under the same token. Then the old message
    // comes once more, as if it were late.
    const newer = await lease(filler, 'filler again')
    expect(await ask(waiter, 'waiter')).toMatchObject({ status: 'busy' })
    for (const each of (await admin.pubsub('CHANNELS', channel)) as string[]) {
      await admin.publish(each, seen[0] as Buffer)
    }
    await woken(wakes).toEqual([KEY, KEY])
    expect(await ask(waiter, 'waiter')).toMatchObject({ status: 'busy' })
    await commit(filler, newer, 'new')
    await expect.poll(async () => frameOf(await ask(waiter, 'waiter'))).toBe('new')
    listener.disconnect()
  })
})

describe('a forged delivery', () => {
  const said = (token: string, fence: string, at: number, frame = 'planted') =>
    Buffer.concat([
      Buffer.from(`\0${token} ${fence} ${at} 60000 0 0 0 ${KEY.length}\n${KEY}`),
      Buffer.from(frame),
    ])
  const publish = async (message: Buffer) => {
    for (const each of (await admin.pubsub('CHANNELS', `${wakePrefix}*`)) as string[]) {
      await admin.publish(each, message)
    }
  }

  it.each([
    ['another token', (_token: string, fence: string) => said('guessed', fence, Date.now())],
    ['another fence', (token: string) => said(token, '5', Date.now())],
    [
      'an old time of its server',
      (token: string, fence: string) => said(token, fence, Date.now() - 5_000),
    ],
  ])('is not used if it has %s', async (_which, message) => {
    const { waiter, wakes, grant } = await setUp()
    await publish(message('waiter', grant.fence))
    await woken(wakes).toContain(KEY)
    expect(await ask(waiter, 'waiter')).toMatchObject({ status: 'busy' })
  })

  it('is used if it has the right token, fence and time, which shows that the test can forge', async () => {
    const { waiter, wakes, grant } = await setUp()
    await publish(said('waiter', grant.fence, Date.now()))
    await woken(wakes).toContain(KEY)
    expect(frameOf(await ask(waiter, 'waiter'))).toBe('planted')
  })

  it.each([
    '\0',
    '\0\n',
    '\0a 1',
    '\0a 1 2 3 4 5 6 0\nk',
    '\0a 1 2 3 4 5 6 99\nk',
    '\0a b 2 3 4 5 6 1\nk',
  ])('is ignored if it cannot be parsed: %j', async (text) => {
    const { filler, waiter, wakes, grant } = await setUp()
    await publish(Buffer.from(text))
    await commit(filler, grant, 'made')
    await woken(wakes).toEqual([KEY])
    expect(frameOf(await ask(waiter, 'waiter'))).toBe('made')
  })
})
