// Tests of revalidation: the conditional request to the app, the response, and the commit.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type CacheOptions, createHttpCache, type HttpCache } from '../http-cache.ts'
import { createStampede, type Stampede, type StampedeEvent } from '../index.ts'
import type {
  Exchange,
  HeaderList,
  OriginEnd,
  OriginObserver,
  RequestView,
} from '../ports/exchange.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { type FaultyStore, loseReply, refuse, sharedStores } from '../testing/store-doubles.ts'

interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

interface Got {
  readonly status: number
  readonly body: string
  readonly fields: Readonly<Record<string, string>>
}

type Conditions = Readonly<Record<string, string>>

const T1 = 'Sun, 06 Nov 1994 08:49:37 GMT'
const TAGGED: Answer = { headers: { etag: '"1"', 'x-run': '1' }, body: 'the whole' }
const UNCHANGED: Answer = { status: 304, headers: { etag: '"1"', 'x-run': '2' } }

let clock: ManualClock
let stores: { a: FaultyStore; b: FaultyStore }
let stampede: Stampede
let peer: Stampede
let events: string[]
/** The conditions that the app got, by run. */
let asked: Conditions[]
let answers: Answer[]
let cache: HttpCache<RequestView>

beforeEach(() => {
  clock = new ManualClock()
  stores = sharedStores()
  stampede = createStampede({ store: stores.a, clock })
  peer = createStampede({ store: stores.b, clock })
  events = []
  stampede.on('*', (event: StampedeEvent) => void events.push(event.type))
  asked = []
  answers = []
  cache = cacheWith()
})
afterEach(async () => {
  await clock.advance(120_000)
  for (const each of [stampede, peer]) {
    expect(each.stats().active).toEqual({ flights: 0, leases: 0 })
  }
  expect(clock.timers).toBe(0)
  await Promise.all([stampede.close(), peer.close()])
})

const cacheWith = (options: CacheOptions<RequestView> = {}) =>
  createHttpCache<RequestView>({ stampede, ttlMs: 10_000, cookies: 'ignore', ...options })

/** Sends a GET. If the app runs, it sends the next response from `answers`. */
async function ask(headers: Conditions = {}, at: HttpCache<RequestView> = cache): Promise<Got> {
  let got: Got | undefined
  const take = (reply: { status: number; headers: HeaderList; body?: Uint8Array | undefined }) => {
    if (got !== undefined) throw new Error('the client was answered twice')
    const { status, body } = reply
    got = {
      status,
      body: Buffer.from(body ?? []).toString(),
      fields: Object.fromEntries(reply.headers),
    }
  }
  const request = { method: 'GET', scheme: 'http', host: 'shop.test', target: '/a', headers }
  const run = async (observer: OriginObserver, to: typeof take | undefined): Promise<OriginEnd> => {
    asked.push(Object.fromEntries(observer.conditions ?? []))
    const { status = 200, headers: own = {}, body = '' } = answers.shift() ?? {}
    const head = {
      status,
      headers: Object.entries({ date: new Date(clock.wallNow()).toUTCString(), ...own }),
    }
    const decision = observer.onHead(head)
    if (decision.action === 'replace') {
      to?.(decision.reply)
      return { type: 'replaced', head }
    }
    to?.({ status, headers: [...head.headers, ...decision.add], body: Buffer.from(body) })
    if (!decision.capture) return { type: 'not-captured', reason: 'declined' }
    return { type: 'complete', head, body: Buffer.from(body) }
  }
  const exchange: Exchange<RequestView> = {
    request,
    native: request,
    forward: (add) => take({ status: 200, headers: add, body: Buffer.from('bypass') }),
    send: take,
    runOrigin: (observer) => run(observer, take).then(observer.ended),
    redispatch: (observer) => run(observer, undefined).then(observer.ended),
  }
  await at.handle(exchange)
  await settled()
  if (got === undefined) throw new Error('the client was not answered')
  return got
}

const statusOf = ({ fields }: Got) => fields['cache-status']
const written = () => stores.a.calls.filter((call) => !call.startsWith('lookup'))

/** Stores `first` and waits until it is stale. The next run of the app sends `next`. */
async function stale(first: Answer, next: Answer, waitMs = 11_000): Promise<void> {
  answers = [first, next]
  await ask()
  await clock.advance(waitMs)
  stores.a.calls.length = 0
  events.length = 0
}

describe('a stale entry with a validator', () => {
  it('is revalidated again after any number of 304s', async () => {
    await stale(TAGGED, UNCHANGED)
    for (let n = 0; n < 3; n++) {
      answers = [UNCHANGED]
      expect((await ask()).body).toBe('the whole')
      await clock.advance(50_000)
    }
    expect(asked.slice(1)).toEqual(Array(3).fill({ 'if-none-match': '"1"' }))
  })

  it('does not replace an error after its window for errors', async () => {
    cache = cacheWith({ staleIfErrorMs: 5_000 })
    await stale(TAGGED, { status: 503 }, 16_000)
    expect((await ask()).status).toBe(503)
    expect(asked[1]).toEqual({ 'if-none-match': '"1"' })
  })

  it('is not revalidated by a request with other values of its Vary fields', async () => {
    const first = { headers: { etag: '"1"', vary: 'accept' }, body: 'for all' }
    await stale(first, { headers: { etag: '"2"' }, body: 'html' })
    expect((await ask({ accept: 'text/html' })).body).toBe('html')
    expect(asked[1]).toEqual({})
  })

  it('is selected by the Vary fields of the 304 and by its own', async () => {
    const first = { headers: { etag: '"1"', vary: 'accept' }, body: 'of a' }
    const unchanged = { status: 304, headers: { etag: '"1"', vary: 'origin' } }
    answers = [first, unchanged, { headers: { vary: 'accept' }, body: 'of b' }]
    expect((await ask({ accept: 'a' })).body).toBe('of a')
    await clock.advance(10_001)
    expect((await ask({ accept: 'a' })).fields.vary).toBe('accept, origin')
    expect((await ask({ accept: 'b' })).body).toBe('of b')
    expect((await ask({ accept: 'a' })).body).toBe('of a')
  })
})

describe('a 304', () => {
  it.each([
    ['set-cookie', { 'set-cookie': 'a=1' }],
    ['private', { 'cache-control': 'private' }],
    ['no-store', { 'cache-control': 'no-store' }],
    ['expired', { expires: T1 }],
  ])('is used only for its own client if it has %s', async (reason, headers) => {
    await stale(TAGGED, { status: 304, headers })
    const got = await ask()
    expect([got.status, got.body]).toEqual([200, 'the whole'])
    expect(got.fields).toMatchObject(headers)
    expect(statusOf(got)).toBe(`Stampede; fwd=stale; fwd-status=304; detail=${reason}`)
    expect(events).toContain('fill.passed')
    const next = await ask()
    expect(statusOf(next)).toBe('Stampede; fwd=uri-miss; fwd-status=200; stored')
  })

  it('updates nothing if it names another version, and the next fill has no condition', async () => {
    await stale(TAGGED, { status: 304, headers: { etag: '"2"', 'x-run': '2' } })
    const got = await ask()
    expect([got.status, got.body]).toEqual([200, 'the whole'])
    expect(got.fields).toMatchObject({ etag: '"1"', 'x-run': '1' })
    expect(statusOf(got)).toBe('Stampede; fwd=stale; fwd-status=304; detail=validator-mismatch')
    await clock.advance(11_000)
    answers = [{ headers: { etag: '"2"' }, body: 'changed' }]
    expect((await ask()).body).toBe('changed')
    expect(asked[2]).toEqual({})
  })

  it('can set a new lifetime', async () => {
    await stale(TAGGED, { status: 304, headers: { 'cache-control': 'max-age=3' } })
    await ask()
    expect(statusOf(await ask())).toBe('Stampede; hit; ttl=3')
  })

  it('keeps the Stampede-Cache-Control of the entry if the 304 has no caching field', async () => {
    const headers = { etag: '"1"', 'stampede-cache-control': 'max-age=4' }
    await stale({ headers, body: 'a' }, { status: 304 })
    expect((await ask()).fields).not.toHaveProperty('stampede-cache-control')
    expect(statusOf(await ask())).toBe('Stampede; hit; ttl=4')
  })

  it('gives the entry a lifetime from its own Date and Expires', async () => {
    const wall = (ms: number) => new Date(clock.wallNow() + ms).toUTCString()
    const first = { headers: { etag: '"1"', date: wall(0), expires: wall(5_000) } }
    await stale(first, {})
    answers = [{ status: 304, headers: { date: wall(0), expires: wall(5_000) } }]
    await ask()
    expect(statusOf(await ask())).toBe('Stampede; hit; ttl=5')
  })
})

describe('the store during a revalidation', () => {
  it("refuses the commit if it lost the entry, and the client gets this process's copy", async () => {
    await stale(TAGGED, UNCHANGED)
    stores.a.next('commit', async () => 'fenced')
    expect((await ask()).body).toBe('the whole')
    expect(written()).toEqual([expect.stringMatching(/^commit /)])
    expect(events).toContain('fill.fenced')
  })

  it('refuses the commit after a purge, and nothing is stored', async () => {
    cache = cacheWith({ key: () => 'page' })
    await stale(TAGGED, UNCHANGED)
    stores.a.next('commit', async (work) => {
      await stampede.purge({ key: 'page' })
      return work()
    })
    expect((await ask()).body).toBe('the whole')
    expect(events).toContain('fill.fenced')
    answers = [{ body: 'new' }]
    expect((await ask()).body).toBe('new')
    expect(asked[2]).toEqual({})
  })

  it('gets the commit again after a lost reply', async () => {
    await stale(TAGGED, UNCHANGED)
    stores.a.next('commit', loseReply)
    await ask()
    expect(written()).toHaveLength(2)
    expect(events).toContain('fill.committed')
    expect(statusOf(await ask())).toBe('Stampede; hit; ttl=10')
  })

  it('may be unavailable, and this process then serves its own copy', async () => {
    await stale(TAGGED, UNCHANGED)
    stores.a.always = refuse
    expect(statusOf(await ask())).toBe(
      'Stampede; fwd=stale; fwd-status=304; detail=store-unavailable',
    )
    expect(asked[1]).toEqual({ 'if-none-match': '"1"' })
    expect(statusOf(await ask())).toBe('Stampede; hit; ttl=5')
  })
})

describe('another process after a revalidation', () => {
  it('reads the entry from the store once if its copy is stale, and then serves it from memory', async () => {
    const other = createHttpCache<RequestView>({ stampede: peer, ttlMs: 10_000 })
    answers = [TAGGED, UNCHANGED]
    await ask()
    await ask({}, other)
    await clock.advance(11_000)
    await ask()
    stores.b.calls.length = 0
    for (let i = 0; i < 3; i++) {
      const hit = await ask({}, other)
      expect([hit.body, hit.fields['x-run'], statusOf(hit)]).toEqual([
        'the whole',
        '2',
        'Stampede; hit; ttl=10',
      ])
    }
    expect(stores.b.calls).toEqual([expect.stringMatching(/^lookup /)])
  })

  it('reads the entry from the store if it has no copy, with the new head', async () => {
    await stale(TAGGED, UNCHANGED)
    await ask()
    const hit = await ask({}, createHttpCache<RequestView>({ stampede: peer, ttlMs: 10_000 }))
    expect([hit.body, hit.fields['x-run']]).toEqual(['the whole', '2'])
  })
})
