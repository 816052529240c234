// Tests of tags and of purges by tag, with a test double in place of a server.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type CacheOptions, createHttpCache, type HttpCache } from '../http-cache.ts'
import { createStampede, type Stampede } from '../index.ts'
import type { HeaderList, OriginEnd, OriginObserver, RequestView } from '../ports/exchange.ts'
import { ManualClock, settled } from '../testing/index.ts'

interface Response {
  readonly locals: string
}
type Options = CacheOptions<RequestView, Response>
type Tags = NonNullable<Options['tags']>

let clock: ManualClock
let stampede: Stampede
let runs: number
let warned: string[]

beforeEach(() => {
  clock = new ManualClock()
  stampede = createStampede({ clock })
  runs = 0
  warned = []
  vi.spyOn(process, 'emitWarning').mockImplementation((text) => void warned.push(String(text)))
})
afterEach(() => vi.restoreAllMocks())

const cacheWith = (options: Options = {}) =>
  createHttpCache<RequestView, Response>({ stampede, ttlMs: 10_000, ...options })

/** Sends a GET. Returns `hit`, or the number of the run with its Cache-Status. */
async function get(
  cache: HttpCache<RequestView>,
  fields: HeaderList = [],
  rest: Partial<RequestView> & { readonly status?: number } = {},
): Promise<string> {
  const { status = 200, ...view } = rest
  const request: RequestView = {
    ...{ method: 'GET', scheme: 'http', host: 'shop.test', target: '/a', headers: {} },
    ...view,
  }
  let got = ''
  const note = (headers: HeaderList, run?: number) => {
    const said = headers.find(([name]) => name === 'cache-status')?.[1] ?? ''
    const about = /detail=[\w-]+|stored/.exec(said)?.[0] ?? ''
    got = run === undefined ? 'hit' : `run ${run} ${about}`
  }
  const run = async (behind: boolean, observer: OriginObserver): Promise<OriginEnd> => {
    runs += 1
    const head = { status, headers: fields }
    const locals = `${request.target}, run ${runs}${behind ? ' behind' : ''}`
    const decision = observer.onHead(head, undefined, [{ ...request }, { locals }])
    if (!behind && decision.action === 'send') note(decision.add, runs)
    return { type: 'complete', head, body: Buffer.from(`run ${runs}`) }
  }
  await cache.handle({
    request,
    native: request,
    forward: () => {
      got = 'bypass'
    },
    send: ({ headers }) => note(headers),
    runOrigin: (observer) => run(false, observer).then(observer.ended),
    redispatch: (observer) => run(true, observer).then(observer.ended),
  })
  await settled()
  return got
}

describe('the tags option', () => {
  it('is called once for each run whose response is stored, with its request and response', async () => {
    const asked: string[] = []
    const tags: Tags = (req, { locals }) => {
      asked.push(`${req.target}: ${locals}`)
      return [`of ${locals}`]
    }
    const cache = cacheWith({ tags, staleWhileRevalidateMs: 60_000 })
    await get(cache)
    await get(cache, [['cache-control', 'no-store']], { target: '/private' })
    await get(cache, [], { target: '/missing', status: 404 })
    await get(cache, [], { target: '/broken', status: 500 })
    await get(cache, [], { method: 'HEAD' })
    expect(asked).toEqual(['/a: /a, run 1'])
    await clock.advance(11_000)
    expect(await get(cache)).toBe('hit')
    expect(asked).toEqual(['/a: /a, run 1', '/a: /a, run 5 behind'])
    await stampede.purge({ tag: 'of /a, run 1' })
    expect(await get(cache)).toBe('hit')
    await stampede.purge({ tag: 'of /a, run 5 behind' })
    expect(await get(cache)).toMatch(/^run 6/)
  })

  it.each<[string, Tags, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no product')
      },
      /^stampedeCache\.tags: the function threw: no product; the response was not stored$/,
    ],
    ['returns no tags', () => 'a' as never, /^stampedeCache\.tags: received "a"; return up to 256/],
    ['returns nothing', () => undefined as never, /^stampedeCache\.tags: received undefined/],
    ['returns an empty string', () => ['a', ''], /received an array of 2; .+; \[1\] is ""; the/],
    [
      'returns a value that is not a string',
      () => [undefined] as never,
      /; \[0\] is undefined; the/,
    ],
    ['is async', (async () => ['a']) as never, /^stampedeCache\.tags: received .+; return up to/],
    [
      'is async and fails',
      (async () => {
        throw new Error('no product')
      }) as never,
      /^stampedeCache\.tags: received .+; return up to/,
    ],
  ])(
    'prevents storing and warns once if the function %s, and sets no hit-for-miss marker',
    async (_, tags, text) => {
      const cache = cacheWith({ tags })
      expect(await get(cache)).toBe('run 1 detail=tags')
      expect(await get(cache)).toBe('run 2 detail=tags')
      expect(await get(cache, [], { target: '/b' })).toBe('run 3 detail=tags')
      expect(warned).toEqual([expect.stringMatching(text)])
      await get(cacheWith({ tags }))
      expect(warned).toHaveLength(2)
    },
  )

  it('counts together with tags in the response, and too many of them prevent storing', async () => {
    const names = (n: number) => Array.from({ length: n }, (_, i) => `${i}`)
    const cache = cacheWith({ tags: names(200) })
    const tagged = (n: number): HeaderList => [['cache-tag', names(n).join(',')]]
    expect(await get(cache, tagged(256), { target: '/b' })).toBe('run 1 stored')
    expect(await get(cache, tagged(257), { target: '/c' })).toBe('run 2 detail=too-many-tags')
    const groups: HeaderList = [
      [
        'cache-groups',
        names(57)
          .map((name) => `"${name}"`)
          .join(', '),
      ],
    ]
    expect(await get(cache, groups, { target: '/d' })).toBe('run 3 detail=too-many-tags')
    expect(warned).toEqual([])
  })
})
