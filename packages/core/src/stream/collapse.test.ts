// `collapse: 'stream'`: who is shown an answer while it comes, who is not, and what becomes of them, over exchanges without
// a server.

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
  /** As it came; `.` at its end, `!` where it broke off. */
  body: string
  done: Promise<void>
}

/** One run of the app, driven by the test as an adapter would: the sink is opened when the head has left. */
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

  /** The head has left without a cookie. */
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
    bypass: (add) => take('bypass', add),
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

/** A leader whose head has left, and who has written `text`. */
async function lead(cache: HttpCache<RequestView>, text = 'one ', headers = {}) {
  const leader = await ask(cache)
  const [run] = runs.slice(-1)
  if (run === undefined) throw new Error('nobody leads')
  const follow = () => run.head(headers).open().write(text)
  return { leader, run, follow }
}

describe('an answer on its way', () => {
  it('is shown to those who wait for it, and to those who come while it comes', async () => {
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

  it('is shown from its first byte on: before it, nothing is lost by looking again', async () => {
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

  it('is shown to nobody before its head has left, and never if it left with a cookie', async () => {
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

  it('breaks off for those who read it when it breaks off, and the next one tries', async () => {
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

  it('that ends before anybody was answered is asked for again', async () => {
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

  it('that is cut three times sends its waiters to the handler, and is no sign of variants', async () => {
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

  it('shorter than it said breaks off', async () => {
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
  ])('is waited for by one with %s', async (_, headers, rest) => {
    const cache = cacheWith()
    const { run, follow } = await lead(cache)
    follow()
    const waiting = await ask(cache, headers, rest)
    expect(waiting.by).toBeUndefined()
    run.finish()
    await settled()
    expect(waiting.by).toBe('cache')
  })

  it('is waited for by everybody unless the option says otherwise', async () => {
    const cache = cacheWith({ collapse: 'wait' })
    const { run, follow } = await lead(cache)
    follow()
    const waiting = await ask(cache)
    expect(waiting.by).toBeUndefined()
    run.finish()
    await settled()
    expect(seen(waiting)).toEqual([['cache', 'one ']])
  })

  it('for another selection is not shown: the request finds its own', async () => {
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

describe('an answer that becomes too large to be kept', () => {
  it('goes on for those who read it; those who come later run their own', async () => {
    const cache = cacheWith({ maxBodyBytes: 8 })
    const { run, follow } = await lead(cache, '12345678')
    follow()
    const reading = await ask(cache)
    run.write('9')
    await settled()
    // The first one may be stored again, if it is not too large.
    const late = [await ask(cache), await ask(cache)]
    expect(late.map((each) => each.by)).toEqual([undefined, 'bypass'])
    run.write('0')
    run.observer.live?.end(true)
    await settled()
    expect(seen(reading)).toEqual([['live', '1234567890.']])
  })

  it('with its first chunk is shown to nobody', async () => {
    const cache = cacheWith({ maxBodyBytes: 2 })
    const { follow } = await lead(cache, 'large')
    const waiting = await ask(cache)
    follow()
    await settled()
    expect(seen(waiting)).toEqual([['bypass', '']])
  })
})

describe('a purge', () => {
  it('while it comes leaves it to those who asked before, and stores nothing of it', async () => {
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

  it('before its first byte keeps it from everybody but its own client', async () => {
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

  it('in another process fences the commit: those who read keep their bytes', async () => {
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

it('after originTimeoutMs, those who read go on, and nobody joins them', async () => {
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
