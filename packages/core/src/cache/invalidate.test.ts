// Tests of purges by unsafe requests, with a test double in place of a server.

import fc from 'fast-check'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { type CacheOptions, createHttpCache, type HttpCache } from '../http-cache.ts'
import { createStampede, type Stampede } from '../index.ts'
import type {
  CapturedHead,
  Exchange,
  HeaderList,
  HeadWatch,
  OriginObserver,
  Reply,
  RequestView,
} from '../ports/exchange.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { FaultyStore, Gate, refuse } from '../testing/store-doubles.ts'

type Options = CacheOptions<RequestView>

let store: FaultyStore
let stampede: Stampede
let purged: string[]

beforeEach(() => {
  store = new FaultyStore()
  stampede = createStampede({ store, clock: new ManualClock() })
  purged = []
  stampede.on('entry.purged', ({ internalKey }) => purged.push(internalKey))
})

const cacheWith = (options: Options = {}) =>
  createHttpCache<RequestView>({ stampede, ttlMs: 10_000, ...options })

const viewOf = (rest: Partial<RequestView>): RequestView => ({
  method: 'GET',
  scheme: 'http',
  host: 'shop.test',
  target: '/a',
  headers: {},
  ...rest,
})

/** Sends a GET. The app sends a different body each time. */
async function get(
  cache: HttpCache<RequestView>,
  rest: Partial<RequestView> = {},
  fields: HeaderList = [],
) {
  const request = viewOf(rest)
  let from = ''
  const exchange: Exchange<RequestView> = {
    request,
    native: request,
    forward: () => {
      from = 'bypass'
    },
    send: ({ headers }: Reply) => {
      from = headers.some(([name]) => name === 'age') ? 'cache' : 'problem'
    },
    async runOrigin(observer: OriginObserver): Promise<void> {
      from = 'app'
      const head = { status: 200, headers: [['vary', 'x-lang'], ...fields] as HeaderList }
      observer.onHead(head)
      observer.ended({ type: 'complete', head, body: new Uint8Array() })
    },
    redispatch: () => {},
  }
  await cache.handle(exchange)
  await settled()
  return from
}

/**
 * Sends an unsafe request, to which the app responds with this head. Returns `watched` if the cache
 * wanted to see the head.
 */
function send(
  cache: HttpCache<RequestView>,
  method: string,
  head: Partial<CapturedHead> = {},
  rest: Partial<RequestView> = {},
): 'watched' | 'unwatched' {
  const request = viewOf({ method, ...rest })
  let watched: HeadWatch | undefined
  const never = () => {
    throw new Error('an unsafe request takes no part')
  }
  void cache.handle({
    request,
    native: request,
    forward: (_add, watch) => {
      watched = watch?.onHead
    },
    send: never,
    runOrigin: never,
    redispatch: never,
  })
  watched?.({ status: 200, headers: [], ...head }, ['the request', 'the response'])
  return watched === undefined ? 'unwatched' : 'watched'
}

const KEY_A = 'http:GET 4:http9:shop.test2:/a0:'

describe('an unsafe request', () => {
  it.each([200, 201, 204, 299, 301, 303, 304, 399])(
    'purges after a response of %d',
    async (status) => {
      const cache = cacheWith()
      await get(cache)
      send(cache, 'POST', { status })
      expect(await get(cache)).toBe('app')
    },
  )

  it('purges its URL with a method that is not known as safe', async () => {
    const cache = cacheWith()
    await get(cache)
    send(cache, 'M-SEARCH')
    expect(await get(cache)).toBe('app')
  })

  it.each([400, 404, 409, 500, 503])('purges nothing after a response of %d', async (status) => {
    const cache = cacheWith()
    await get(cache)
    send(cache, 'POST', { status, headers: [['location', '/a']] })
    expect(await get(cache)).toBe('cache')
    expect(purged).toEqual([])
  })

  it('purges every variant, by Vary fields and by caller', async () => {
    const cache = cacheWith({ identity: ({ headers }) => String(headers['x-user']) })
    const all = ['de', 'fr'].flatMap((lang) =>
      ['ann', 'bob'].map((user) => ({ headers: { 'x-lang': lang, 'x-user': user } })),
    )
    for (const each of all) await get(cache, each)
    for (const each of all) expect(await get(cache, each)).toBe('cache')
    send(cache, 'POST')
    for (const each of all) expect(await get(cache, each)).toBe('app')
  })

  it('purges nothing after close()', async () => {
    const cache = cacheWith()
    await stampede.close()
    expect(send(cache, 'POST')).toBe('unwatched')
  })

  it('purges the key that the query option of its middleware gives', async () => {
    const cache = cacheWith({ query: ['page'] })
    await get(cache, { target: '/a?page=1' })
    await get(cache, { target: '/a?page=2' })
    send(cache, 'POST', {}, { target: '/a?page=1&utm=x' })
    expect(await get(cache, { target: '/a?page=1' })).toBe('app')
    expect(await get(cache, { target: '/a?page=2' })).toBe('cache')
  })

  it.each(['/%70', '/P', '/p/', '/x/../p', '/./p', '/%50/', '/x/%2e%2e/p'])(
    'purges the usual spelling of its URL: %s for /p',
    async (target) => {
      const cache = cacheWith()
      for (const query of ['', '?a=1']) {
        for (const other of ['/p', '/q', '/p/q']) await get(cache, { target: other + query })
        send(cache, 'PUT', {}, { target: target + query })
        const found = ['/p', '/q', '/p/q'].map((other) => get(cache, { target: other + query }))
        expect(await Promise.all(found)).toEqual(['app', 'cache', 'cache'])
      }
    },
  )

  it('purges its URL only for its own host and scheme', async () => {
    const cache = cacheWith()
    await get(cache)
    send(cache, 'POST', {}, { host: 'other.test' })
    send(cache, 'POST', {}, { scheme: 'https' })
    expect(await get(cache)).toBe('cache')
    send(cache, 'POST', {}, { host: 'SHOP.test' })
    expect(await get(cache)).toBe('app')
  })

  it('purges its URL if the target is a full URL, and nothing if the target is *', async () => {
    const cache = cacheWith()
    await get(cache)
    send(cache, 'POST', {}, { target: '*' })
    expect(await get(cache)).toBe('cache')
    send(cache, 'POST', {}, { target: 'http://shop.test/a' })
    expect(await get(cache)).toBe('app')
  })
})

describe('an unsafe request whose target is a full URL', () => {
  it.each([
    ['http://shop.test', '/a'],
    ['http://shop.test', '/a/../b?x="1"'],
    ['HTTP://shop.test:80', '/a//b/%7Ec?x=1&x'],
    ['https://shop.test', '/a'],
    // Frameworks route by the path alone, so the handler of this host has run.
    ['http://user@other.test:99', '/a?x=//b'],
    ['http://shop.test', '/'],
  ])('purges what its path alone purges: %s%s', async (authority, path) => {
    const cache = cacheWith()
    send(cache, 'POST', {}, { target: path })
    await settled()
    const byPath = purged.splice(0)
    send(cache, 'POST', {}, { target: authority + path })
    await settled()
    expect(purged).toEqual(byPath)
    expect(byPath.length).toBeGreaterThan(0)
  })

  it.each(['http://shop.test', 'http://shop.test?x=1'])('purges / if it is %s', async (target) => {
    const cache = cacheWith()
    await get(cache, { target: target.replace('http://shop.test', '/') })
    send(cache, 'POST', {}, { target })
    expect(await get(cache, { target: target.replace('http://shop.test', '/') })).toBe('app')
  })
})

describe('the response to an unsafe request', () => {
  it.each([
    ['location', '/b/c?x=1'],
    ['location', 'c?x=1'],
    ['location', 'http://shop.test/b/c?x=1#part'],
    ['location', 'HTTP://SHOP.TEST:80/b/./d/../c?x=1'],
    ['location', '//shop.test/b/c?x=1'],
    ['content-location', '/b/c?x=1'],
    ['content-location', './c?x=1'],
  ])('purges the URL in its %s: %s', async (name, reference) => {
    const cache = cacheWith()
    const named = { target: '/b/c?x=1' }
    await get(cache, named)
    await get(cache)
    send(cache, 'POST', { status: 201, headers: [[name, reference]] }, { target: '/b/new' })
    expect(await get(cache, named)).toBe('app')
    expect(await get(cache)).toBe('cache')
  })

  it.each([
    'http://other.test/b',
    'https://shop.test/b',
    'http://shop.test:8080/b',
    '//other.test/b',
    'http://shop.test@other.test/b',
    'mailto:shop.test/b',
    'http://[/b',
    'http://',
    '\0',
    '',
  ])('purges nothing for a URL of another host, or an invalid one: %j', async (reference) => {
    const cache = cacheWith()
    await get(cache, { target: '/b' })
    const headers = ['location', 'content-location'].map((name) => [name, reference] as const)
    send(cache, 'POST', { status: 201, headers }, { target: '/a' })
    expect(await get(cache, { target: '/b' })).toBe('cache')
    expect(purged).toEqual([KEY_A])
  })

  it('purges nothing on another host, with any scheme', async () => {
    const cache = cacheWith()
    const here = { scheme: 'proxied', target: '/b' }
    await get(cache, here)
    const headers: HeaderList = [['location', 'proxied://other.test/b']]
    send(cache, 'POST', { headers }, { scheme: 'proxied' })
    expect(await get(cache, here)).toBe('cache')
  })

  it('never causes an error, with any text as the URL', () => {
    const cache = cacheWith()
    const text = fc.string()
    fc.assert(
      fc.property(text, text, text, text, (scheme, host, target, reference) => {
        const headers: HeaderList = [['location', reference]]
        send(cache, 'POST', { headers }, { scheme, host, target })
      }),
    )
  })
})

it('gives waitUntil one task, which ends when the store has replied to every purge', async () => {
  const lines: string[] = []
  store = new FaultyStore()
  const waitUntil = (task: Promise<unknown>) => {
    lines.push('task begins')
    void task.then(() => lines.push('task ends'))
  }
  stampede = createStampede({ store, clock: new ManualClock(), waitUntil })
  const [key, tag] = [new Gate(), new Gate()]
  store.next('purge', key.delayReply).next('mark', tag.delayReply)
  send(cacheWith({ invalidateOn: { tags: () => ['products'] } }), 'PUT')
  for (const gate of [key, tag]) {
    await settled()
    lines.push('the store replies')
    gate.open()
  }
  await settled()
  expect(lines).toEqual(['task begins', 'the store replies', 'the store replies', 'task ends'])
})

describe('the key option of an unsafe request', () => {
  it('gives the key to purge, and the Location field then has no effect', async () => {
    const cache = cacheWith({ key: ({ target }) => target.slice(0, 2) })
    await get(cache, { target: '/a1' })
    await get(cache, { target: '/b1' })
    send(cache, 'POST', { headers: [['location', '/b1']] }, { target: '/a2' })
    expect(await get(cache, { target: '/a1' })).toBe('app')
    expect(await get(cache, { target: '/b1' })).toBe('cache')
  })

  it('is called before the handler gets the request', async () => {
    const asked: string[] = []
    const cache = cacheWith({ key: ({ method }) => `${asked.push(method)}` })
    send(cache, 'POST', { status: 500 })
    expect(asked).toEqual(['POST'])
  })

  it.each<[string, NonNullable<Options['key']>]>([
    [
      'throws',
      () => {
        throw new Error('no such parameter')
      },
    ],
    ['returns no string', () => undefined as never],
    ['returns a promise', (async () => 'x') as never],
  ])('purges nothing and causes no failure if the option %s', (_, key) => {
    send(cacheWith({ key }), 'POST')
    expect(purged).toEqual([])
  })
})

describe('the purge of an unsafe request', () => {
  it('reaches the store before the head of the response is sent', async () => {
    const cache = cacheWith()
    await get(cache)
    store.calls.length = 0
    send(cache, 'POST')
    expect(store.calls).toEqual([`purge ${KEY_A}`])
  })

  it('still applies in this process while the store is unavailable, and an event reports the failure', async () => {
    const cache = cacheWith()
    await get(cache)
    const failed: string[] = []
    stampede.on('store.failed', ({ operation, key }) => failed.push(`${operation} ${key}`))
    store.next('purge', refuse)
    send(cache, 'POST')
    await settled()
    expect(failed).toEqual(['purge GET http://shop.test/a'])
    expect(stampede.stats().l1.entries).toBe(0)
  })
})

describe("an unsafe request with invalidateOn 'parents' or 'all'", () => {
  const marks = () => store.calls.filter((call) => call.startsWith('mark '))
  const mountedAt = (mount: string, options: Options = {}) =>
    createHttpCache<RequestView>(
      { stampede, ttlMs: 10_000, invalidateOn: 'parents', ...options },
      { mountOf: () => mount },
    )

  it.each<[mount: string, target: string, paths: readonly string[]]>([
    ['', '/', ['/']],
    ['', '/api/Items/7?x', ['/', '/api', '/api/items', '/api/items/7']],
    ['/api', '/api/items/7/', ['/api', '/api/items', '/api/items/7']],
    ['/api/', '/api/items', ['/api', '/api/items']],
    ['/:tenant/v1', '/acme/v1/items', ['/acme/v1', '/acme/v1/items']],
    ['/api', '/api', ['/api']],
    ['/api', '/api//items', ['/api', '/api/', '/api//items']],
    ['', '//items', ['/', '//items']],
    ['', '/caf%C3%A9/a%2Fb', ['/', '/café', '/café/a%2fb']],
    ['', '/%zz/b', ['/', '/%zz', '/%zz/b']],
    ['/api', '/api/x/../b', ['/api', '/api/x', '/api/x/..', '/api/x/../b', '/api/b']],
    ['/api', 'http://SHOP.test/api/items?x', ['/api', '/api/items']],
    ['/api', 'http://other.test/api/items', ['/api', '/api/items']],
    ['/api', 'no path', []],
    ['', '*', []],
  ])('purges the paths from the mount %j to %j', (mount, target, paths) => {
    send(mountedAt(mount), 'POST', {}, { target, host: 'Shop.test' })
    const named = new Set(paths.map((path) => `h=shop.test${path}`))
    expect(new Set(marks().flatMap((call) => call.slice(5).split(',')))).toEqual(named)
    expect(marks().length).toBe(paths.length === 0 ? 0 : 1)
  })

  it('ignores the mount if the path was rewritten, because entries have the received path', () => {
    send(mountedAt('/api/v2'), 'POST', {}, { target: '/items/7', rewritten: '/api/v2/items/7' })
    expect(marks()).toEqual(['mark h=shop.test/,h=shop.test/items,h=shop.test/items/7'])
  })

  it('purges the 15 levels nearest to the mount, and the path, of a path with more', () => {
    const target = '/a'.repeat(8_000)
    send(mountedAt(''), 'POST', {}, { target })
    const [, names = ''] = (marks()[0] ?? '').split(' ')
    expect(marks().length).toBe(1)
    expect(names.split(',').length).toBe(16)
    expect(names.split(',').slice(0, 2)).toEqual(['h=shop.test/', 'h=shop.test/a'])
  })

  it.each<[string, Options]>([
    ['parents', { invalidateOn: 'parents' }],
    ['all', { invalidateOn: 'all' }],
  ])('purges %s in this process before the store has the purge', async (name, options) => {
    const gate = new Gate()
    const cache = cacheWith(options)
    await get(cache, { target: '/list?page=2' })
    await get(cache, { target: '/other' }, [['surrogate-key', 't']])
    store.next('mark', async (work) => {
      await gate.delayReply(async () => {})
      return work()
    })
    send(cache, 'POST', {}, { target: '/list/7' })
    expect(await get(cache, { target: '/list?page=2' })).toBe('app')
    gate.open()
    await settled()
    expect(await get(cache, { target: '/list?page=2' })).toBe('app')
    expect(await get(cache, { target: '/list?page=2' })).toBe('cache')
    expect(await get(cache, { target: '/other' })).toBe(name === 'all' ? 'app' : 'cache')
  })

  it('sends one purge of tags, groups and paths, and an event for each if it fails', async () => {
    const failed: string[] = []
    stampede.on('store.failed', ({ key }) => failed.push(key))
    store.next('mark', refuse)
    const headers: HeaderList = [['cache-group-invalidation', '"list"']]
    send(cacheWith({ invalidateOn: 'parents' }), 'POST', { headers })
    await settled()
    expect(marks()).toEqual(['mark h=shop.test/,h=shop.test/a,g=http://shop.test list'])
    expect(failed).toEqual(['shop.test/', 'shop.test/a', 'http://shop.test list'])
  })
})

describe('an unsafe request with invalidateOn.tags', () => {
  const tagged = { tags: () => ['list'] }
  it('still purges its URL if the callback for tags fails, and warns once', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const cache = cacheWith({
      invalidateOn: {
        tags: () => {
          throw new Error('no product')
        },
      },
    })
    for (const _ of [1, 2]) {
      await get(cache)
      send(cache, 'PUT')
      expect(await get(cache)).toBe('app')
    }
    expect(warn.mock.calls.map(([text]) => text)).toEqual([
      'stampedeCache.invalidateOn.tags: the function threw: no product; no tag was purged',
    ])
    warn.mockRestore()
  })

  it('purges its tags in this process before the store has the purge', async () => {
    const gate = new Gate()
    const cache = cacheWith({ ...tagged, invalidateOn: { tags: ['list'] } })
    await get(cache, { target: '/list' })
    store.next('mark', async (work) => {
      await gate.delayReply(async () => {})
      return work()
    })
    send(cache, 'PUT')
    expect(await get(cache, { target: '/list' })).toBe('app')
    gate.open()
    await settled()
    expect(await get(cache, { target: '/list' })).toBe('app')
    expect(await get(cache, { target: '/list' })).toBe('cache')
  })

  it('purges the cache groups of its response for its own host and scheme only', async () => {
    const grouped: HeaderList = [['cache-groups', '"a", "list"']]
    const headers: HeaderList = [['cache-group-invalidation', '"b", "list"']]
    const cache = cacheWith()
    await get(cache, { target: '/list' }, grouped)
    send(cache, 'POST', { headers }, { host: 'other.test' })
    send(cache, 'POST', { headers }, { scheme: 'https' })
    send(cache, 'POST', { status: 500, headers })
    expect(await get(cache, { target: '/list' }, grouped)).toBe('cache')
    send(cache, 'POST', { headers }, { host: 'SHOP.test', target: '' })
    expect(await get(cache, { target: '/list' }, grouped)).toBe('app')
  })

  it('keeps entries that only share a cache group with its URL (RFC 9875 §2.2.1)', async () => {
    const grouped: HeaderList = [['cache-groups', '"a"']]
    const cache = cacheWith()
    for (const target of ['/a', '/b']) await get(cache, { target }, grouped)
    send(cache, 'POST')
    expect(await get(cache, { target: '/b' })).toBe('cache')
    expect(await get(cache, { target: '/a' })).toBe('app')
  })
})
