// `collapse: 'stream'` over exchanges without a server: which requests follow a stream, which do
// not, and how each ends.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { customKey } from '../cache/key.ts'
import { type CacheOptions, createHttpCache, type HttpCache } from '../http-cache.ts'
import { createStampede, type Stampede } from '../index.ts'
import type {
  Exchange,
  HeaderList,
  LiveReply,
  OriginEnd,
  OriginObserver,
  Reply,
  RequestView,
} from '../ports/exchange.ts'
import { ManualClock, settled, Transcript } from '../testing/index.ts'
import { FaultyStore } from '../testing/store-doubles.ts'

interface Got {
  by?: 'cache' | 'app' | 'bypass' | 'live'
  head?: HeaderList
  /** The body as it came. `.` marks its end, `!` a break. */
  body: string
  done: Promise<void>
}

/**
 * One run of the app, driven by the test like an adapter. The sink opens when the head has been
 * sent.
 */
class Run {
  readonly observer: OriginObserver
  readonly #end: (end: OriginEnd) => void
  readonly #got: Got
  #head = { status: 200, headers: [] as HeaderList }
  #text = ''

  constructor(observer: OriginObserver, got: Got, end: (end: OriginEnd) => void) {
    this.observer = observer
    this.#got = got
    this.#end = end
  }

  head(headers: Record<string, string> = {}): this {
    this.#head = { status: 200, headers: Object.entries(headers) }
    const decision = this.observer.onHead(this.#head)
    if (decision.action !== 'send') throw new Error('replaced')
    this.#got.by = 'app'
    this.#got.head = [...this.#head.headers, ...decision.add]
    if (!decision.capture) this.#end({ type: 'not-captured', reason: 'declined' })
    return this
  }

  /** Opens the sink, because the head was sent without a cookie. */
  open(): this {
    this.observer.live?.open(this.#head)
    return this
  }

  write(text: string): this {
    this.#text += text
    this.observer.live?.write(Buffer.from(text))
    if (this.#text.length > this.observer.maxBodyBytes)
      this.#end({ type: 'not-captured', reason: 'too-large' })
    return this
  }

  finish(): void {
    this.observer.live?.end(true)
    this.#end({ type: 'complete', head: this.#head, body: Buffer.from(this.#text) })
  }

  break(reason: 'incomplete' | 'declined' = 'incomplete'): void {
    this.observer.live?.end(false)
    this.#end({ type: 'not-captured', reason })
  }
}

let clock: ManualClock
let store: FaultyStore
let stampede: Stampede
let events: Transcript
let runs: Run[]

beforeEach(() => {
  clock = new ManualClock()
  store = new FaultyStore()
  stampede = createStampede({ store, clock, random: () => 0 })
  events = new Transcript().record(stampede)
  runs = []
})

afterEach(async () => {
  await clock.advance(60_000)
  expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  expect(clock.timers).toBe(0)
  await stampede.close()
})

const cacheWith = (options: CacheOptions<RequestView> = {}) =>
  createHttpCache<RequestView>({
    stampede,
    ttlMs: 10_000,
    collapse: 'stream',
    mintEtag: false,
    key: () => 'k',
    ...options,
  })

async function ask(
  cache: HttpCache<RequestView>,
  headers: RequestView['headers'] = {},
  rest: Partial<RequestView> & { old?: boolean } = {},
): Promise<Got> {
  const { old = false, ...more } = rest
  const request = { method: 'GET', scheme: 'http', host: 'a', target: '/', headers, ...more }
  const got: Got = { body: '', done: Promise.resolve() }
  const take = (by: Got['by'], head: HeaderList, body = '') => {
    if (got.by !== undefined) throw new Error('the client was answered twice')
    Object.assign(got, { by, head, body })
  }
  const run = (observer: OriginObserver) =>
    new Promise<OriginEnd>((end) => runs.push(new Run(observer, got, end)))
  const exchange: Exchange<RequestView> = {
    request,
    native: request,
    forward: (add) => take('bypass', add),
    send: (reply: Reply) => take('cache', reply.headers, Buffer.from(reply.body ?? '').toString()),
    runOrigin: run,
    redispatch: run,
    sendLive: old
      ? undefined
      : (reply) => {
          take('live', reply.headers)
          void read(reply, got)
        },
  }
  got.done = (async () => cache.handle(exchange))()
  await settled()
  return got
}

async function read({ body }: LiveReply, got: Got): Promise<void> {
  try {
    for (let next = await body.next(); !next.done; next = await body.next())
      got.body += Buffer.from(next.value).toString()
    got.body += '.'
  } catch {
    got.body += '!'
  }
}

const status = ({ head = [] }: Got) => head.find(([name]) => name === 'cache-status')?.[1]
const seen = (...all: Got[]) => all.map(({ by, body }) => [by, body])

/** A leader whose head was sent, and who has written `text`. */
async function lead(cache: HttpCache<RequestView>, text = 'one ', headers = {}) {
  const leader = await ask(cache)
  const [run] = runs.slice(-1)
  if (run === undefined) throw new Error('nobody leads')
  const follow = () => run.head(headers).open().write(text)
  return { leader, run, follow }
}

describe('a streamed response', () => {
  it('reaches its waiters, and requests that arrive while it is sent', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache)
    const waiting = await ask(cache)
    expect(waiting.by).toBeUndefined()
    follow()
    await settled()
    const late = await ask(cache)
    expect(seen(waiting, late)).toEqual([
      ['live', 'one '],
      ['live', 'one '],
    ])
    await clock.advance(2_000)
    run.write('two').finish()
    await settled()
    expect(seen(waiting, late)).toEqual([
      ['live', 'one two.'],
      ['live', 'one two.'],
    ])
    expect(waiting.head).toEqual([
      ['age', '0'],
      [
        'cache-status',
        'Stampede; fwd=uri-miss; fwd-status=200; ttl=10; collapsed; detail=streamed',
      ],
    ])
    expect(stampede.stats().collapsed).toBe(2)
    const after = await ask(cache)
    expect(seen(after)).toEqual([['cache', 'one two']])
    expect(events.take()).toEqual(['lease.granted', 'fill.started', 'fill.committed', 'hit l1'])
  })

  it('reaches its waiters only after its first byte, so they can look up again if it breaks off before', async () => {
    const cache = cacheWith()
    const { run } = await lead(cache)
    const waiting = await ask(cache)
    run.head().open()
    await settled()
    expect(waiting.by).toBeUndefined()
    run.break()
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.head().open().write('own').finish()
    await settled()
    expect(waiting.by).toBe('app')
  })

  it('reaches no waiter before its head was sent, and never if the head had a cookie', async () => {
    const cache = cacheWith()
    const { run } = await lead(cache)
    const waiting = await ask(cache)
    run.head().write('secret')
    await settled()
    expect(waiting.by).toBeUndefined()
    run.break('declined')
    await settled()
    expect(seen(waiting)).toEqual([['bypass', '']])
  })

  it('breaks off for its followers when it breaks off for the leader, and the next request runs the handler', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache)
    follow()
    const reading = await ask(cache)
    run.break()
    await settled()
    expect(seen(reading)).toEqual([['live', 'one !']])
    await ask(cache)
    expect(runs).toHaveLength(2)
    runs[1]?.head().open().write('x').finish()
  })

  it('is replaced by another run if it breaks before any waiter got a byte', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache)
    const waiting = await ask(cache)
    follow()
    run.break()
    await settled()
    expect(waiting.by).toBeUndefined()
    runs[1]?.head().write('whole').finish()
    await settled()
    expect(waiting.by).toBe('app')
  })

  it('sends its waiters to the handler after it broke off three times, with detail=abandoned', async () => {
    const cache = cacheWith()
    const all = [1, 2, 3, 4].map(() => ask(cache))
    const clients = await Promise.all(all)
    for (let i = 0; i < 3; i++) {
      runs[i]?.head().open().write('one ')
      runs[i]?.break()
      await settled()
    }
    const last = clients.at(-1)
    expect(last?.by).toBe('bypass')
    expect(last && status(last)).toBe('Stampede; fwd=uri-miss; detail=abandoned')
  })

  it('breaks off if it is shorter than its Content-Length', async () => {
    const cache = cacheWith()
    const { run } = await lead(cache)
    run.head({ 'content-length': '100' }).open().write('short')
    const reading = await ask(cache)
    run.break()
    await settled()
    expect(seen(reading)).toEqual([['live', 'short!']])
  })

  it.each([
    ['a range', { range: 'bytes=0-1' }, {}],
    ['a condition', { 'if-none-match': '"a"' }, {}],
    ['no way to see a broken transfer', {}, { old: true }],
  ])('makes a request with %s wait for the stored response', async (_, headers, rest) => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache)
    follow()
    const waiting = await ask(cache, headers, rest)
    expect(waiting.by).toBeUndefined()
    run.finish()
    await settled()
    expect(waiting.by).toBe('cache')
  })

  it("makes all requests wait until it is stored, with collapse: 'wait'", async () => {
    const cache = cacheWith({ collapse: 'wait' })
    const { run, follow } = await lead(cache)
    follow()
    const waiting = await ask(cache)
    expect(waiting.by).toBeUndefined()
    run.finish()
    await settled()
    expect(seen(waiting)).toEqual([['cache', 'one ']])
  })

  it('is not sent to a request with other values of the Vary fields, which runs the handler', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache, 'neither', { vary: 'accept-language' })
    const waiting = await ask(cache, { 'accept-language': 'de' })
    follow()
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.head({ vary: 'accept-language' }).open().write('deutsch').finish()
    run.finish()
    await settled()
    expect(waiting.by).toBe('app')
    expect(seen(await ask(cache))).toEqual([['cache', 'neither']])
    expect(seen(await ask(cache, { 'accept-language': 'de' }))).toEqual([['cache', 'deutsch']])
  })
})

describe('a streamed response that is too large to be stored', () => {
  it('continues for its followers, and later requests run the handler', async () => {
    const cache = cacheWith({ maxBodyBytes: 8 })
    const { run, follow } = await lead(cache, '12345678')
    follow()
    const reading = await ask(cache)
    run.write('9')
    await settled()
    // If the response of one later run is not too large, it may be stored.
    const late = [await ask(cache), await ask(cache)]
    expect(late.map((each) => each.by)).toEqual([undefined, 'bypass'])
    run.write('0')
    run.observer.live?.end(true)
    await settled()
    expect(seen(reading)).toEqual([['live', '1234567890.']])
  })

  it('is sent to no waiter if its first chunk is too large', async () => {
    const cache = cacheWith({ maxBodyBytes: 2 })
    const { follow } = await lead(cache, 'large')
    const waiting = await ask(cache)
    follow()
    await settled()
    expect(seen(waiting)).toEqual([['bypass', '']])
  })
})

describe('a purge during a streamed response', () => {
  it('lets earlier followers read the rest, and stores nothing', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache, 'old ')
    follow()
    const before = await ask(cache)
    await stampede.purge({ key: 'k' })
    const after = await ask(cache)
    expect(runs).toHaveLength(2)
    run.write('bytes').finish()
    await settled()
    expect(seen(before)).toEqual([['live', 'old bytes.']])
    expect(after.by).toBeUndefined()
    runs[1]?.head().open().write('new').finish()
    await settled()
    expect(seen(await ask(cache))).toEqual([['cache', 'new']])
  })

  it('prevents all waiters from getting the response if the purge comes before the first byte', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache, 'old')
    const waiting = await ask(cache)
    await stampede.purge({ key: 'k' })
    follow()
    await settled()
    expect(waiting.by).toBeUndefined()
    run.finish()
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.head().write('new').finish()
    await settled()
    expect(waiting.by).toBe('app')
  })

  it('prevents storing if the purge is from another process, and followers read the rest', async () => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache, 'old')
    follow()
    const reading = await ask(cache)
    store.next('commit', async (work) => {
      await store.purge(customKey('k'), { soft: false })
      return work()
    })
    run.finish()
    await settled()
    expect(seen(reading)).toEqual([['live', 'old.']])
    expect(events.take()).toContain('fill.fenced')
    await ask(cache)
    expect(runs).toHaveLength(2)
    runs[1]?.head().write('new').finish()
  })
})

it('a streamed response continues for its followers after originTimeoutMs, and gets no new ones', async () => {
  const cache = cacheWith({ originTimeoutMs: 1_000 })
  const { run, follow } = await lead(cache)
  follow()
  const reading = await ask(cache)
  const waiting = await ask(cache, { range: 'bytes=0-1' })
  await clock.advance(1_000)
  expect(status(waiting)).toContain('detail=origin-failed')
  run.write('two').finish()
  await settled()
  expect(seen(reading)).toEqual([['live', 'one two.']])
})
