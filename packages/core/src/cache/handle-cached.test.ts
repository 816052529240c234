// Tests of one cached request, with a test double in place of a server. They check the response to
// the client and the request to the app.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type CacheOptions, createHttpCache, type HttpCache } from '../http-cache.ts'
import { createStampede, type Stampede, type StampedeOptions } from '../index.ts'
import type {
  Exchange,
  HeaderList,
  OriginEnd,
  OriginObserver,
  Reply,
  RequestView,
} from '../ports/exchange.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { FaultyStore, refuse } from '../testing/store-doubles.ts'

/**
 * The response to one client. `by` is its source: the cache, a run of the app for the cache, or the
 * app after a bypass.
 */
interface Got {
  by?: 'cache' | 'app' | 'bypass'
  status?: number
  headers: HeaderList
  body?: string
  /** Ends a response that the handler sends by itself. */
  end?: (() => void) | undefined
}

interface Answer {
  status?: number
  headers?: Record<string, string>
  body?: string
  /** Whether the cache gets the whole body together with the head. */
  whole?: boolean
}

/** One run of the app for the cache: for a client, or in the background. */
interface Run {
  readonly request: RequestView
  readonly behind: boolean
  answer(answer?: Answer): void
  /** Sends the head. The body comes with `finish`. */
  head(answer?: Answer): void
  finish(): void
  end(end: OriginEnd): void
  /** Call this when the whole response has been sent. That may be after `end`. */
  close(): void
}

let clock: ManualClock
let store: FaultyStore
let stampede: Stampede
let runs: Run[]

beforeEach(() => start())
afterEach(async () => {
  await clock.advance(60_000)
  expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  expect(clock.timers).toBe(0)
  await stampede.close()
})

function start(options: StampedeOptions = {}): void {
  clock = new ManualClock()
  store = new FaultyStore()
  stampede = createStampede({ store, clock, ...options })
  runs = []
}

const cacheWith = (options: CacheOptions<RequestView> = {}) =>
  createHttpCache<RequestView>({ stampede, ttlMs: 10_000, ...options })

type Asked = Got & { readonly done: Promise<void> }

function ask(
  cache: HttpCache<RequestView>,
  headers: RequestView['headers'] = {},
  rest: Partial<RequestView> = {},
  client: { gone: boolean } = { gone: false },
): Asked {
  const request: RequestView = {
    method: 'GET',
    scheme: 'http',
    host: 'shop.test',
    target: '/a',
    headers,
    ...rest,
  }
  const got: Got & { done: Promise<void> } = { headers: [], done: Promise.resolve() }
  const take = (by: Got['by'], reply: { status: number; headers: HeaderList; body?: unknown }) => {
    if (got.by !== undefined) throw new Error('the client was answered twice')
    const { status, headers, body } = reply
    Object.assign(got, { by, status, headers })
    if (body !== undefined) got.body = Buffer.from(body as Uint8Array).toString()
  }
  const exchange: Exchange<RequestView> = {
    request,
    native: request,
    isGone: () => client.gone,
    forward: (add, watch) => {
      take('bypass', { status: 200, headers: add })
      if (request.method === 'GET') watch?.onHead?.({ status: 200, headers: [] })
      got.end = watch?.onEnd
    },
    send: (reply: Reply) => take('cache', reply),
    runOrigin: (observer) => run(request, observer, false, take).then(observer.ended),
    redispatch: (observer) => run(request, observer, true, () => {}).then(observer.ended),
  }
  got.done = (async () => cache.handle(exchange))()
  return got
}

function run(
  request: RequestView,
  observer: OriginObserver,
  behind: boolean,
  take: (by: Got['by'], reply: { status: number; headers: HeaderList; body?: unknown }) => void,
): Promise<OriginEnd> {
  return new Promise((end) => {
    let finish = () => {}
    const head = ({ status = 200, headers = {}, body = '', whole }: Answer = {}) => {
      const list = Object.entries(headers)
      const atHand = whole ? Buffer.from(body) : undefined
      const decision = observer.onHead({ status, headers: list }, atHand)
      if (decision.action === 'replace') {
        take('cache', decision.reply)
        end({ type: 'not-captured', reason: 'declined' })
        return
      }
      const bytes = Buffer.from(body)
      take('app', { status, headers: [...list, ...decision.add], body: bytes })
      if (!decision.capture) end({ type: 'not-captured', reason: 'declined' })
      if (bytes.length > observer.maxBodyBytes) end({ type: 'not-captured', reason: 'too-large' })
      finish = () => end({ type: 'complete', head: { status, headers: list }, body: bytes })
    }
    runs.push({
      request,
      behind,
      head,
      end,
      finish: () => finish(),
      close: () => observer.onEnd?.(),
      answer(answer) {
        head(answer)
        finish()
      },
    })
  })
}

const field = (got: Got, name: string) =>
  got.headers.filter(([key]) => key === name).map(([, value]) => value)
const status = (got: Got) => field(got, 'cache-status')[0]

/** Sends a request, lets the app respond, and waits for the end. */
async function fill(cache: HttpCache<RequestView>, answer: Answer = {}, headers = {}, rest = {}) {
  const got = ask(cache, headers, rest)
  await settled()
  runs.at(-1)?.answer(answer)
  await got.done
  await settled()
  return got
}

describe('a response from the cache', () => {
  it('is no 206 for HEAD, for a status other than 200, or if If-None-Match matches', async () => {
    const cache = cacheWith()
    const range = { range: 'bytes=0-1' }
    await fill(cache, { headers: { etag: '"e"' }, body: '0123456789' })
    const head = ask(cache, range, { method: 'HEAD' })
    await head.done
    expect(head).toMatchObject({ status: 200 })
    expect(ask(cache, { ...range, 'if-none-match': '"e"' })).toMatchObject({ status: 304 })
    expect(ask(cache, { ...range, 'if-none-match': '"x"' })).toMatchObject({ status: 206 })
    await fill(cache, { status: 203, body: '0123456789' }, {}, { target: '/other' })
    const other = ask(cache, range, { target: '/other' })
    expect(other).toMatchObject({ status: 203, body: '0123456789' })
  })
})

describe('an ETag that the cache adds', () => {
  const etag = (got: Got) => field(got, 'etag')[0]

  it('is not added to a response that is not stored', async () => {
    const answers: Array<[CacheOptions<RequestView>, Answer]> = [
      [{}, { headers: { 'cache-control': 'no-store' } }],
      [{}, { status: 404 }],
      [{ maxBodyBytes: 4 }, { body: 'hello', whole: true }],
    ]
    for (const [i, [options, answer]] of answers.entries()) {
      const got = await fill(cacheWith(options), answer, {}, { target: `/${i}` })
      expect([got.by, etag(got)]).toEqual(['app', undefined])
    }
    store.always = refuse
    expect(
      etag(await fill(cacheWith(), { body: 'hello', whole: true }, {}, { target: '/away' })),
    ).toBeUndefined()
  })
})

describe('Cache-Status', () => {
  it('has the name that the option cacheStatus gives', async () => {
    const cache = cacheWith({ cacheStatus: 'shop' })
    expect(status(await fill(cache))).toMatch(/^shop; fwd=uri-miss/)
    expect(status(ask(cache))).toBe('shop; hit; ttl=10')
  })

  it('is absent if cacheStatus is false, while Age is present', async () => {
    const cache = cacheWith({ cacheStatus: false })
    const all = [await fill(cache), ask(cache), ask(cache, {}, { method: 'POST' })]
    expect(all.flatMap((got) => field(got, 'cache-status'))).toEqual([])
    expect(field(all[1] as Got, 'age')).toEqual(['0'])
  })
})

describe('a bypass', () => {
  it.each([
    ['Stampede; fwd=method', {}, { method: 'POST' }],
    ['Stampede; fwd=bypass; detail=authorization', { authorization: 'Bearer x' }, {}],
    ['Stampede; fwd=bypass; detail=cookie', { cookie: 'a=1' }, {}],
    ['Stampede; fwd=bypass; detail=upgrade', { upgrade: 'websocket' }, {}],
    ['Stampede; fwd=bypass; detail=request-body', { 'content-length': '1' }, {}],
    ['Stampede; fwd=bypass; detail=precondition', { 'if-match': '"1"' }, {}],
    ['Stampede; fwd=bypass; detail=target', {}, { target: '*' }],
    ['Stampede; fwd=bypass; detail=option', {}, { target: '/never' }],
  ])('has Cache-Status %s, and sends no store command', (text, headers, rest) => {
    const cache = cacheWith({ bypass: ({ target }) => target === '/never' })
    const got = ask(cache, headers, rest)
    expect(got.by).toBe('bypass')
    expect(status(got)).toBe(text)
    expect(store.calls).toEqual([])
  })

  it.each(['key', 'identity', 'bypass'] as const)(
    'does not hide an error of the option %s, which becomes ERR_STAMPEDE_OPTION',
    async (name) => {
      const thrown = () => {
        throw new Error('mine')
      }
      const got = ask(cacheWith({ [name]: thrown }))
      await expect(got.done).rejects.toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
      expect(got.by).toBeUndefined()
    },
  )
})

describe('a HEAD request', () => {
  const HEAD = { method: 'HEAD' }

  it('gets a stale response within the window, and leaves the refresh to a GET', async () => {
    const cache = cacheWith({ staleWhileRevalidateMs: 60_000 })
    await fill(cache)
    await clock.advance(12_000)
    const got = ask(cache, {}, HEAD)
    await got.done
    expect(status(got)).toBe('Stampede; hit; ttl=-2')
    expect(runs).toHaveLength(1)
    expect(ask(cache).by).toBe('cache')
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.answer()
    await settled()
  })

  it('does not end the back-off after a failed refresh', async () => {
    const cache = cacheWith({ staleWhileRevalidateMs: 60_000 })
    await fill(cache)
    await clock.advance(12_000)
    ask(cache)
    await settled()
    runs[1]?.answer({ status: 503 })
    await settled()
    await ask(cache, {}, HEAD).done
    store.calls.length = 0
    expect(ask(cache).by).toBe('cache')
    await settled()
    expect(store.calls).toEqual([])
  })

  it('is counted once, also if it found another variant first or an entry it may not get', async () => {
    const cache = cacheWith({ requestDirectives: 'respect' })
    const vary = { vary: 'accept-language' }
    await fill(cache, { headers: vary }, { 'accept-language': 'de' })
    await fill(cache, { headers: vary }, { 'accept-language': 'fr' })
    const counted = () => {
      const { hits, misses } = stampede.stats()
      return [hits.l1 + hits.l2, misses]
    }
    expect(counted()).toEqual([0, 2])
    for (const lang of ['de', 'fr']) await ask(cache, { 'accept-language': lang }, HEAD).done
    expect(counted()).toEqual([2, 2])
    await ask(cache, { 'accept-language': 'it' }, HEAD).done
    expect(counted()).toEqual([2, 3])
    const refused = { 'accept-language': 'de', 'cache-control': 'no-cache' }
    await ask(cache, refused, HEAD).done
    expect(counted()).toEqual([2, 4])
  })

  it('is forwarded to the handler while the store is unavailable', async () => {
    store.always = refuse
    const got = ask(cacheWith(), {}, HEAD)
    await got.done
    expect(got.by).toBe('bypass')
  })
})

describe('Vary of a response', () => {
  const german = { 'accept-language': 'de' }
  const french = { 'accept-language': 'fr' }
  const varying = (body: string): Answer => ({ headers: { vary: 'Accept-Language' }, body })

  it('prevents waiters with other values of the named fields from getting the response', async () => {
    const cache = cacheWith()
    const all = [ask(cache, german), ask(cache, french), ask(cache, french), ask(cache, german)]
    await settled()
    runs[0]?.answer(varying('guten Tag'))
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.answer(varying('bonjour'))
    await Promise.all(all.map(({ done }) => done))
    expect(all.map(({ body }) => body)).toEqual(['guten Tag', 'bonjour', 'bonjour', 'guten Tag'])
    expect(all.map((got) => /fwd=[a-z-]+|hit/.exec(status(got) ?? '')?.[0])).toEqual([
      'fwd=uri-miss',
      'fwd=vary-miss',
      'fwd=vary-miss',
      'fwd=uri-miss',
    ])
  })

  it.each([
    [
      'cannot be shared',
      { headers: { 'set-cookie': 'a=b', vary: 'Accept-Language' } },
      'set-cookie',
    ],
    ['fails', { status: 502 }, 'origin-failed'],
  ])(
    'causes fwd=vary-miss for a waiter even if the next response %s',
    async (_, answer, detail) => {
      const cache = cacheWith()
      await fill(cache, varying('guten Tag'), german)
      await fill(cache, varying('bonjour'), french)
      await clock.advance(12_000)
      const all = [ask(cache, french), ask(cache, french)]
      await settled()
      runs[2]?.answer(answer)
      await settled()
      runs[3]?.answer(answer)
      await Promise.all(all.map(({ done }) => done))
      expect(status(all[1] as Got)).toMatch(/^Stampede; fwd=vary-miss;/)
      expect(status(all[1] as Got)).toContain(`detail=${detail}`)
    },
  )
})

describe('a hit-for-miss marker', () => {
  const COOKIE: Answer = { headers: { 'set-cookie': 'a=1' }, body: 'mine' }

  /** After two responses that cannot be shared, the process may ask for the lease in 100 ms. */
  async function mark(cache: HttpCache<RequestView>, answer = COOKIE) {
    for (const _ of [1, 2]) await fill(cache, answer)
    await clock.advance(100)
  }

  it.each([
    ['401', { status: 401 }],
    ['503', { status: 503 }],
  ])('remains after a response with status %s', async (_, answer) => {
    const cache = cacheWith()
    await mark(cache)
    await fill(cache, answer)
    const all = [ask(cache), ask(cache)]
    await settled()
    expect(all.map(({ by }) => by)).toEqual([undefined, 'bypass'])
    runs[3]?.answer(COOKIE)
    await all[0]?.done
  })

  it.each([
    ['If-None-Match', { 'if-none-match': '"1"' }],
    ['If-Modified-Since', { 'if-modified-since': 'Thu, 01 Jan 2026 00:00:00 GMT' }],
    ['Range', { range: 'bytes=0-1' }],
  ])('lets the handler see the %s of a client', async (_, headers) => {
    const cache = cacheWith()
    await mark(cache)
    expect(ask(cache, headers).by).toBe('bypass')
    // The result is the same if the process gets the marker from the store.
    start({ l1: { maxBytes: 0 } })
    const second = cacheWith()
    await mark(second)
    const got = ask(second, headers)
    await got.done
    expect(got.by).toBe('bypass')
    await settled()
    expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
  })

  it.each([
    ['too-large', { maxBodyBytes: 3 }, { body: 'four' }],
    ['private', {}, { headers: { 'cache-control': 'private' } }],
    ['status', {}, { status: 404 }],
    ['vary-star', {}, { headers: { vary: '*' } }],
  ])('is set after two responses with the reason %s', async (_, options, answer: Answer) => {
    const cache = cacheWith(options)
    await mark(cache, answer)
    const observed = ask(cache)
    await settled()
    expect(ask(cache).by).toBe('bypass')
    runs[2]?.answer(answer)
    await observed.done
  })
})

describe('a failing origin', () => {
  it('causes no stale response that is too old or has other values of the Vary fields', async () => {
    const cache = cacheWith({ staleIfErrorMs: 5_000 })
    await fill(cache, { headers: { vary: 'x-a' }, body: 'old' }, { 'x-a': '1' })
    await clock.advance(12_000)
    expect(await fill(cache, { status: 503 }, { 'x-a': '2' })).toMatchObject({ status: 503 })
    await clock.advance(4_000)
    expect(await fill(cache, { status: 503 }, { 'x-a': '1' })).toMatchObject({ status: 503 })
  })

  it('shares only its status, not its body, with waiters and with requests in the back-off', async () => {
    const cache = cacheWith()
    const all = [ask(cache), ask(cache)]
    await settled()
    runs[0]?.answer({ status: 502, body: 'secret' })
    await Promise.all(all.map(({ done }) => done))
    await settled()
    await clock.advance(400)
    const late = ask(cache)
    await late.done
    expect(runs).toHaveLength(1)
    expect(all[0]).toMatchObject({ by: 'app', status: 502, body: 'secret' })
    for (const got of [all[1] as Got, late]) {
      expect(got).toMatchObject({ by: 'cache', status: 502 })
      expect(JSON.parse(got.body ?? '')).toMatchObject({ status: 502, code: 'origin-failed' })
      expect(field(got, 'retry-after')).toEqual(['1'])
      expect(field(got, 'cache-control')).toEqual(['no-store'])
      expect(status(got)).toContain('fwd=uri-miss; fwd-status=502; collapsed')
    }
  })

  it('is called for an unlike request even while the store is unavailable', async () => {
    store.always = refuse
    const cache = cacheWith()
    const all = [ask(cache, { 'accept-language': 'x_x' }), ask(cache), ask(cache)]
    await settled()
    runs[0]?.answer({ status: 500 })
    await settled()
    runs[1]?.answer({ body: 'well' })
    await Promise.all(all.map(({ done }) => done))
    expect(all.map(({ body }) => body)).toEqual(['', 'well', 'well'])
  })

  it('is called once if the store cannot distinguish unlike requests', async () => {
    const cache = cacheWith()
    const lookup = store.lookup.bind(store)
    store.lookup = (key, { like: _, ...request }) => lookup(key, request)
    const all = [ask(cache, { 'accept-language': 'x_x' }), ask(cache), ask(cache)]
    await settled()
    runs[0]?.answer({ status: 500 })
    await Promise.all(all.map(({ done }) => done))
    expect(all.map(({ status }) => status)).toEqual([500, 500, 500])
    expect(runs).toHaveLength(1)
  })

  it('causes a 504 for waiters after originTimeoutMs even if the first client has left', async () => {
    const cache = cacheWith({ originTimeoutMs: 3_000 })
    const client = { gone: false }
    ask(cache, {}, {}, client)
    const waiting = ask(cache)
    await settled()
    client.gone = true
    await clock.advance(3_000)
    expect(waiting).toMatchObject({ by: 'cache', status: 504 })
    runs[0]?.answer({ body: 'late' })
  })
})

describe('Cache-Control of a request', () => {
  const respectful = (options: CacheOptions<RequestView> = {}) =>
    cacheWith({ requestDirectives: 'respect', ...options })
  const says = (cacheControl: string) => ({ 'cache-control': cacheControl })

  it('limits how stale a response may be', async () => {
    const cache = respectful({ staleWhileRevalidateMs: 60_000 })
    await fill(cache)
    await clock.advance(15_000)
    expect(ask(cache, says('max-age=60, max-stale=9')).by).toBe('cache')
    const strict = ask(cache, says('max-age=60'))
    await settled()
    expect([strict.by, status(strict)]).toEqual(['bypass', 'Stampede; fwd=stale'])
    expect(ask(cache, says('max-stale=4')).by).toBe('bypass')
    expect(ask(cache, says('max-stale=5')).by).toBe('cache')
    await settled()
    runs.at(-1)?.answer()
  })

  it('limits how stale an entry may be that replaces an error', async () => {
    const cache = respectful({ staleIfErrorMs: 60_000 })
    await fill(cache, { body: 'old' })
    await clock.advance(15_000)
    expect(await fill(cache, { status: 503 }, says('stale-if-error=4'))).toMatchObject({
      status: 503,
    })
    await clock.advance(1_000)
    expect(await fill(cache, { status: 503 }, says('no-cache'))).toMatchObject({ status: 503 })
    await clock.advance(1_000)
    const covered = await fill(cache, { status: 503 }, says('stale-if-error=9'))
    expect(covered).toMatchObject({ status: 200, body: 'old' })
  })

  it('makes the cache send an entry or 504 if it is only-if-cached', async () => {
    const cache = respectful()
    const none = ask(cache, says('only-if-cached'))
    await none.done
    expect(none).toMatchObject({ by: 'cache', status: 504 })
    expect(JSON.parse(none.body ?? '')).toMatchObject({ code: 'only-if-cached' })
    expect(status(none)).toBeUndefined()
    await fill(cache, { headers: { vary: 'x-lang' }, body: 'de' }, { 'x-lang': 'de' })
    const some = ask(cache, { ...says('only-if-cached'), 'x-lang': 'de' })
    await some.done
    expect(some).toMatchObject({ by: 'cache', status: 200, body: 'de' })
    await fill(cache, { headers: { vary: 'x-lang' }, body: 'fr' }, { 'x-lang': 'fr' })
    const other = ask(cache, { ...says('only-if-cached'), 'x-lang': 'fr' })
    await other.done
    expect(other).toMatchObject({ status: 200, body: 'fr' })
    const old = ask(cache, { ...says('only-if-cached, min-fresh=99'), 'x-lang': 'fr' })
    await old.done
    expect(old.status).toBe(504)
    expect(runs).toHaveLength(2)
  })
})

describe('the option waitMs', () => {
  it.each([
    ['origin', 'bypass', undefined, 'Stampede; fwd=uri-miss; detail=wait-timeout'],
    ['unavailable', 'cache', 503, 'Stampede; fwd=uri-miss; collapsed=?0; detail=wait-timeout'],
  ] as const)(
    'ends the wait of a waiter, but not that of the leader, if afterWait is %s',
    async (afterWait, by, code, text) => {
      const cache = cacheWith({ waitMs: 500, afterWait })
      const all = [ask(cache), ask(cache)]
      await clock.advance(500)
      expect(all.map((got) => got.by)).toEqual([undefined, by])
      const [, waiter] = all
      if (code !== undefined) expect(waiter?.status).toBe(code)
      expect(status(waiter as Got)).toBe(text)
      if (code !== undefined) expect(field(waiter as Got, 'retry-after')).toEqual(['1'])
      await clock.advance(1_000)
      runs[0]?.answer({ body: 'late' })
      await Promise.all(all.map(({ done }) => done))
      await settled()
      expect(ask(cache)).toMatchObject({ by: 'cache', body: 'late' })
    },
  )
})

describe('a cache while the store is unavailable', () => {
  it('runs the handler once for all requests, and reports that the response was not stored', async () => {
    store.always = refuse
    const cache = cacheWith()
    const all = [ask(cache), ask(cache)]
    await settled()
    runs[0]?.answer({ body: 'v' })
    await Promise.all(all.map(({ done }) => done))
    expect(all.map(({ body }) => body)).toEqual(['v', 'v'])
    expect(status(all[0] as Got)).toBe(
      'Stampede; fwd=uri-miss; fwd-status=200; detail=store-unavailable',
    )
    expect(runs).toHaveLength(1)
  })

  it('serves an older entry in place of an error', async () => {
    const cache = cacheWith({ staleIfErrorMs: 60_000 })
    await fill(cache, { body: 'old' })
    await clock.advance(12_000)
    store.always = refuse
    expect(await fill(cache, { status: 503 })).toMatchObject({ by: 'cache', body: 'old' })
  })
})

describe('requests beyond originConcurrency while the store is unavailable', () => {
  const target = (name: string) => ({ target: `/${name}` })
  /** Starts a cache in which a request for another key has the only concurrency slot. */
  async function crowded(options: CacheOptions<RequestView> = {}) {
    start({ originConcurrency: 1 })
    store.always = refuse
    const cache = cacheWith(options)
    const first = ask(cache, {}, target('first'))
    await settled()
    return { cache, first }
  }

  it('keep their slot for originTimeoutMs if the response does not end', async () => {
    const { first } = await crowded({ originTimeoutMs: 5_000 })
    runs[0]?.head({ headers: { 'set-cookie': 'a=b' } })
    await first.done
    await clock.advance(4_999)
    expect(stampede.stats().unleased.running).toBe(1)
    await clock.advance(1)
    expect(stampede.stats().unleased.running).toBe(0)
  })

  it('all run the handler at once if the response cannot be shared', async () => {
    start({ originConcurrency: 1 })
    store.always = refuse
    const cache = cacheWith()
    const all = [ask(cache), ask(cache), ask(cache)]
    await settled()
    runs[0]?.answer({ headers: { 'set-cookie': 'a=b' } })
    await Promise.all(all.map(({ done }) => done))
    expect(all.map(({ by }) => by)).toEqual(['app', 'bypass', 'bypass'])
  })

  it('do not run if their client left while they waited', async () => {
    const { cache, first } = await crowded()
    const client = { gone: false }
    ask(cache, {}, target('second'), client)
    const third = ask(cache, {}, target('third'))
    await settled()
    client.gone = true
    runs[0]?.answer({ body: 'one' })
    await first.done
    await settled()
    expect(runs.map(({ request }) => request.target)).toEqual(['/first', '/third'])
    runs[1]?.answer({ body: 'three' })
    await third.done
    expect(third.body).toBe('three')
  })

  it('get 503 with Retry-After if afterWait is unavailable', async () => {
    const { cache } = await crowded({ waitMs: 500, afterWait: 'unavailable' })
    const got = ask(cache, {}, target('second'))
    await clock.advance(500)
    expect(got).toMatchObject({ by: 'cache', status: 503 })
    expect(field(got, 'retry-after')).toEqual(['1'])
    expect(JSON.parse(got.body ?? '')).toMatchObject({ status: 503, code: 'wait-timeout' })
  })
})

describe('the option softTimeoutMs', () => {
  const late = { staleIfErrorMs: 60_000, softTimeoutMs: 300 }

  async function expired(options: CacheOptions<RequestView> = {}) {
    const cache = cacheWith({ ...late, jitter: 0, ...options })
    await fill(cache, { body: 'old' })
    await clock.advance(12_000)
    return cache
  }

  it('applies also to the client that waits for a foreground refresh', async () => {
    const cache = await expired({ staleWhileRevalidateMs: 60_000, revalidate: 'foreground' })
    const got = ask(cache)
    await settled()
    const other = ask(cache)
    await other.done
    expect(status(other)).toBe('Stampede; hit; ttl=-2')
    expect(got.by).toBeUndefined()
    await clock.advance(300)
    expect(status(got)).toBe('Stampede; hit; ttl=-3; detail=soft-timeout')
    runs[1]?.answer({ body: 'new' })
    await settled()
    expect(ask(cache)).toMatchObject({ body: 'new' })
  })
})

describe('two caches', () => {
  it.each([null, {}, 'stampede'])('cannot be created with %o as the Stampede', (wrong) => {
    const options = { stampede: wrong } as unknown as CacheOptions
    expect(() => createHttpCache(options)).toThrow('stampedeCache.stampede')
  })

  it('cannot be created with a Stampede in place of the options', () => {
    expect(() => createHttpCache(stampede as CacheOptions)).toThrow('among the options: { stampede')
  })

  it('have separate Stampedes by default', async () => {
    const [one, two] = [createHttpCache<RequestView>({ ttlMs: 1 }), createHttpCache<RequestView>()]
    expect(ask(one, {}, { method: 'POST' }).by).toBe('bypass')
    expect(ask(two, {}, { method: 'POST' }).by).toBe('bypass')
  })
})
