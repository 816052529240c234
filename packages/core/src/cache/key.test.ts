import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import type { RequestView } from '../ports/exchange.ts'
import { groupOf } from '../ports/key.ts'
import { type CacheRules, readCacheOptions } from './cache-options.ts'
import { cacheKey, customKey } from './key.ts'

type Options = CacheRules<unknown>

const view = (target: string, rest: Partial<RequestView> = {}): RequestView => ({
  method: 'GET',
  scheme: 'http',
  host: 'example.com',
  target,
  headers: {},
  ...rest,
})
const keyOf = (
  request: RequestView,
  options: Options = {},
  learned: string[] = [],
  native: unknown = {},
) => cacheKey(request, native, readCacheOptions(options), learned)
const key = (target: string, options: Options = {}) => keyOf(view(target), options)
const withHeaders = (
  headers: RequestView['headers'],
  options: Options = {},
  learned: string[] = [],
) => keyOf(view('/', { headers }), options, learned)

describe('the key of a URL', () => {
  it('is readable, with each part after its length', () => {
    expect(key('/a')).toBe('http:GET 4:http11:example.com2:/a0:')
    expect(key('/a?b=1')).toBe('http:GET 4:http11:example.com2:/a3:b=1')
  })

  it('is shared by GET and HEAD, and by every letter case of the host', () => {
    expect(keyOf(view('/a', { method: 'HEAD', host: 'EXAMPLE.com' }))).toBe(key('/a'))
  })
})

describe('the key of a recently used URL', () => {
  it('is made from the host, the scheme and the query option of its own request', () => {
    const [all, some] = [readCacheOptions({}), readCacheOptions({ query: ['a'] })]
    const target = '/late?a=1&b=2'
    const asked = [
      [view(target), all, 'http:GET 4:http11:example.com5:/late7:a=1&b=2'],
      [view(target), some, 'http:GET 4:http11:example.com5:/late3:a=1'],
      [view(target, { host: 'b.example' }), all, 'http:GET 4:http9:b.example5:/late7:a=1&b=2'],
      [view(target, { scheme: 'https' }), all, 'http:GET 5:https11:example.com5:/late7:a=1&b=2'],
    ] as const
    for (const [request, config, wanted] of [...asked, ...asked.toReversed(), ...asked])
      expect(cacheKey(request, {}, config, [])).toBe(wanted)
  })
})

it('the key of a URL does not change if the app later changes the array that it passed as query option', () => {
  const names = ['a']
  const rules = [readCacheOptions({ query: names }), readCacheOptions({ query: { ignore: names } })]
  const keys = () => {
    const of = (target: string) => rules.map((rule) => cacheKey(view(target), {}, rule, []))
    return [of('/made?a=1&b=2'), of('/made?a=1&b=3')]
  }
  const before = keys()
  names.push('b')
  expect(keys()).toEqual(before)
  const [only, ignore] = rules.map((rule) => cacheKey(view('/later?a=1&b=2'), {}, rule, []))
  expect(only).toBe('http:GET 4:http11:example.com6:/later3:a=1')
  expect(ignore).toBe('http:GET 4:http11:example.com6:/later3:b=2')
})

describe('the query in the key', () => {
  const same = (a: string, b: string, options?: Options) =>
    key(`/?${a}`, options) === key(`/?${b}`, options)

  it('is equal for another order of different names', () => {
    expect(same('a=1&b=2&a=3', 'b=2&a=1&a=3')).toBe(true)
    expect(same('b=2&%61=1', '%61=1&b=2')).toBe(true)
  })

  it('is absent if nothing follows the question mark', () => {
    expect(key('/?')).toBe(key('/'))
    expect(key('/?&')).not.toBe(key('/'))
  })

  it.each([
    ['a=1&a=2', 'a=2&a=1'],
    ['a=1&%61=2', '%61=2&a=1'],
    ['a[]=1&a=2', 'a=2&a[]=1'],
    ['a%5B%5D=1&a=2', 'a=2&a%5B%5D=1'],
    ['[a]=1&a=2', 'a=2&[a]=1'],
    ['[]=1&[][a]=2', '[][a]=2&[]=1'],
    ['[[]a=1&[[]b=2', '[[]b=2&[[]a=1'],
    ['a.b=1&a=2', 'a=2&a.b=1'],
    ['a+b=1&a%20b=2', 'a%20b=2&a+b=1'],
    ['a%ff=1&%61%ff=2', '%61%ff=2&a%ff=1'],
    ['a=1;b=2&b=3', 'b=3&a=1;b=2'],
    ['a=1', '%61=1'],
    ['a', 'a='],
    ['a=1&', 'a=1'],
  ])('differs for %s and %s', (a, b) => expect(same(a, b)).toBe(false))

  it('is the whole query, unchanged, if there are too many parameters', () => {
    const flood = 'utm=1&'.repeat(1000)
    const options = { query: { ignore: ['utm'] } }
    expect(same(`${flood}a=1`, 'a=1', options)).toBe(false)
    expect(same('utm=1&a=1', 'a=1', options)).toBe(true)
  })

  it.each<[string, string, Options?]>([
    ['?id=1', '', { query: ['id'] }],
    ['a=1&?id=1', 'a=1', { query: ['id'] }],
    ['?id=1', 'id=1', { query: ['id'] }],
    ['utm=1?id=1', '', { query: { ignore: ['utm'] } }],
    ['?utm=1', '', { query: { ignore: ['utm'] } }],
    ['utm=1&?id=1', '?id=1', { query: { ignore: ['utm'] } }],
    ['?a=1&b=2', 'b=2&?a=1'],
    ['?a=1&a=2', 'a=2&?a=1'],
    ['b=2&a=1?', 'a=1?&b=2'],
  ])('differs for %s and %s, because some parsers start a query at a second ?', (a, b, options) =>
    expect(same(a, b, options)).toBe(false),
  )

  it('leaves out the ignored parameters, and compares their names decoded', () => {
    const options = { query: { ignore: ['utm source', 'x'] } }
    expect(same('utm+source=1&a=1&%78=3', 'a=1', options)).toBe(true)
    expect(same('X=1&a=1', 'a=1', options)).toBe(false)
    expect(same('x=1;a=2', '', options)).toBe(false)
    expect(same('x=1;x=2', '', options)).toBe(true)
    expect(same('%ff=1', '', options)).toBe(false)
  })

  it('has only the listed parameters, and compares their names decoded', () => {
    const options = { query: ['a', 'b[]'] }
    expect(same('a=1&c=2&%ff=3', '%61=1', options)).toBe(false)
    expect(same('a=1&c=2&%ff=3', 'a=1', options)).toBe(true)
    expect(same('a[x]=1', '', options)).toBe(false)
    expect(same('b[]=1', '', options)).toBe(false)
    // For some parsers, all of these parameters are named `b`.
    expect(same('b=1', '', options)).toBe(false)
    expect(same('b[x]=1', '', options)).toBe(false)
    expect(same('c[b]=1', '', options)).toBe(true)
    expect(same('a[%ff=1', '', options)).toBe(false)
    expect(same('%61[%ff]=1', '', options)).toBe(false)
    expect(same('c=1;a=2', '', options)).toBe(false)
    expect(same('c=1', '', { query: [] })).toBe(true)
  })
})

describe('header fields in the key', () => {
  it('are compared by meaning, whether an option or a response names them', () => {
    const gzip = { 'accept-encoding': 'gzip, br' }
    const brotli = { 'accept-encoding': 'br;q=1, gzip' }
    const learned = ['accept-encoding']
    expect(withHeaders(gzip, {}, learned)).toBe(withHeaders(brotli, {}, learned))
    expect(withHeaders(gzip, { vary: ['Accept-Encoding'] })).toBe(withHeaders(gzip, {}, learned))
    expect(withHeaders(gzip, { vary: learned }, learned)).toBe(withHeaders(gzip, {}, learned))
    expect(withHeaders({}, {}, learned)).not.toBe(withHeaders(gzip, {}, learned))
  })

  it('distinguish an absent field, an empty one and a dash', () => {
    const keys = [{}, { 'x-a': '' }, { 'x-a': '-' }].map((h) => withHeaders(h, { vary: ['x-a'] }))
    expect(new Set(keys).size).toBe(3)
    expect(withHeaders({})).not.toBe(withHeaders({}, { vary: ['x-a'] }))
  })

  it('are separated, so that two fields cannot look like one', () => {
    const options = { vary: ['x-a', 'x-b'] }
    expect(withHeaders({ 'x-a': '1v3:x-b1:2' }, options)).not.toBe(
      withHeaders({ 'x-a': '1', 'x-b': '2' }, options),
    )
  })
})

describe('cookies in the key', () => {
  const options: Options = { cookies: { key: ['lang', 'tier'] } }
  const cookie = (value: string) => withHeaders({ cookie: value }, options)

  it('are only those that the option names', () => {
    expect(cookie('_ga=1; lang=de')).toBe(cookie('lang=de; _ga=2'))
    expect(cookie('_ga=1')).toBe(withHeaders({}, options))
    expect(cookie('lang=de')).not.toBe(cookie('lang=en'))
    expect(cookie('_ga=1;lang=de')).toBe(cookie('_ga=1;  lang=de'))
  })

  it.each([
    ['lang=', ''],
    ['lang', ''],
    ['lang', 'lang='],
    ['lang=de; lang=en', 'lang=en; lang=de'],
    ['lang=de; lang=en', 'lang=de'],
    ['lang =de', ''],
    ['lang=de', 'tier=de'],
    ['lang=a=b', 'lang=a'],
    ['lang="de"', 'lang=de'],
    // Some parsers remove these characters. For others, they are a part of the name or value. A
    // client may send any of them.
    ['\u00a0lang=de', 'lang=de'],
    ['\u00a0lang=de', ''],
    ['a=1;\tlang=de', 'a=1; lang=de'],
    ['lang=de ; a=1', 'lang=de; a=1'],
    ['lang=de\u00a0', 'lang=de'],
  ])('differ for %j and %j', (a, b) => expect(cookie(a)).not.toBe(cookie(b)))
})

describe('the spelling of the host in the key', () => {
  const spelt = (known: string, headers: RequestView['headers'], servername?: string) =>
    keyOf(view('/a', { host: known, headers, servername }))
  const plain = key('/a')

  it('does not change the key if the Host field is the host of the request in lower case', () => {
    expect(spelt('example.com', { host: 'example.com' })).toBe(plain)
    expect(spelt('example.com', { ':authority': 'example.com' }, 'example.com')).toBe(plain)
    expect(spelt('example.com:81', { host: 'example.com:81' }, 'example.com')).toBe(
      keyOf(view('/a', { host: 'example.com:81' })),
    )
  })

  it.each([
    ['another case', 'EXAMPLE.com', { host: 'EXAMPLE.com' }],
    ['another case over HTTP/2', 'Example.com', { ':authority': 'Example.com' }],
    ['a text from which Koa takes a host', 'example.com', { host: 'evil.test:80@example.com' }],
    ['a list', 'example.com', { host: 'example.com, evil.test' }],
    ['the host of a proxy', 'example.com', { host: 'internal', 'x-forwarded-host': 'example.com' }],
    ['an empty one', 'example.com', { host: '' }],
    ['a Host beside :authority', 'example.com', { ':authority': 'example.com', host: 'b.test' }],
  ] as const)('makes a variant of the URL: %s', (_what, known, headers) => {
    expect(spelt(known, headers)).not.toBe(plain)
    expect(groupOf(spelt(known, headers))).toBe(plain)
  })

  it('is distinguished letter by letter', () => {
    const asked = [
      ...['EVIL', 'evil', 'Evil'].map((host) => spelt('example.com', { host })),
      ...['OTHER', 'other', 'Other'].map((host) =>
        spelt('example.com', { ':authority': 'example.com', host }),
      ),
      ...['example.COM', 'Example.com'].map((host) =>
        spelt('example.com', { host: 'example.com', 'x-forwarded-host': host }),
      ),
      ...['À.test', 'à.test'].map((host) => spelt(host, { host })),
    ]
    expect(new Set(asked).size).toBe(asked.length)
  })

  it('includes the TLS server name if it differs from the host', () => {
    const names = ['', 'evil.test', 'example.co', 'com', 'EXAMPLE.com', 'example.com']
    const keys = names.map((name) => spelt('example.com', { host: 'example.com' }, name))
    expect(new Set(keys).size).toBe(names.length)
    expect(keys.at(-1)).toBe(plain)
    expect(keys.map(groupOf)).toEqual(names.map(() => plain))
  })
})

describe('fields such as X-Forwarded-Host, in which a client claims a URL', () => {
  const claim = (headers: Record<string, string>, rest: Partial<RequestView> = {}) =>
    keyOf(view('/a', { headers, ...rest }))

  it.each([
    ['x-forwarded-host', 'evil.test'],
    ['x-forwarded-proto', 'http'],
    ['x-forwarded-proto', 'https'],
    ['x-original-url', '/admin'],
  ])('are in the key: %s: %s', (name, value) => {
    expect(claim({ [name]: value })).not.toBe(key('/a'))
    expect(claim({ [name]: value })).not.toBe(claim({ [name]: 'other' }))
    expect(groupOf(claim({ [name]: value }))).toBe(key('/a'))
  })

  it('are not in the key if they only repeat the trusted value', () => {
    const https = { scheme: 'https', host: 'Example.com' }
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'example.com' }
    expect(claim(headers, https)).toBe(claim({}, https))
  })

  it.each([
    ['forwarded', 'not parsed'],
    ['x-forwarded-server', 'evil.test'],
    ['x-forwarded-uri', '/evil'],
    ['x-forwarded-context', '/evil'],
    ['x-original-uri', '/evil'],
    ['x-original-forwarded-host', 'evil.test'],
    ['x-envoy-original-path', '/evil'],
    ['x-script-name', '/evil'],
    ['cf-visitor', '{"scheme":"http"}'],
    ['cloudfront-forwarded-proto', 'http'],
    ['x-arr-ssl', '2048|256|CN=evil'],
  ])('are in the key with their whole value: %s', (name, value) => {
    expect(claim({ [name]: value })).toBe(
      `${key('/a')}\u0000f${name.length}:${name}${value.length}:${value}`,
    )
  })

  const ADDRESSES = [
    '192.0.2.43',
    '192.0.2.43:4711',
    '"192.0.2.43:4711"',
    '"[2001:db8::17]"',
    '"[2001:db8::17]:4711"',
    'unknown',
    '_gazonk',
    '"_a, _b"',
  ]
  const hopsOf = (address: string) => [
    `for=${address}`,
    `For=${address}; By=203.0.113.60`,
    `by=${address};for=_x`,
    `for=${address}, for="[::1]"`,
    `for=_x\t,\tFOR=${address};by=_y`,
    `for=${address};host=example.com`,
    `for=${address};host=example.com;proto=https, for=10.0.0.1`,
    `proto=https;for=${address},for=_x;host=example.com`,
  ]
  it.each(ADDRESSES.flatMap(hopsOf))(
    'make one key for all clients and no variant, if Forwarded has only addresses: %s',
    (forwarded) => {
      const https = { scheme: 'https', host: 'example.com' }
      expect(claim({ forwarded }, https)).toBe(claim({}, https))
    },
  )

  it.each(['host=a.test', 'HOST=example.com', 'host="example.com"', 'proto=http', 'ext=1'])(
    'make one key for all clients behind a proxy that sends Forwarded with %s',
    (own) => {
      const sent = ADDRESSES.map((address) => claim({ forwarded: `for=${address};${own},for=_x` }))
      expect(new Set(sent).size).toBe(1)
      expect(sent[0]).not.toBe(key('/a'))
    },
  )

  const EVIL = [
    'host=evil',
    'HOST="evil"',
    'Host = evil',
    'proto=http',
    'proto="https"',
    'secret=1',
    'host=example.com.evil',
    'host="example.com',
    'for="_x;host=evil"',
    'for="_x, host=evil"',
    'for="_x\\";host=evil"',
    'for=_x host=evil',
    'for=_x;host=evil;host=example.com',
    'for=_x;host=example.com;host=evil',
    'host=',
    'evil',
  ]
  const placed = EVIL.flatMap((evil) => [
    evil,
    `for=_x, ${evil}`,
    `${evil}, for=_x`,
    `for=_x;${evil}`,
    `host=example.com, ${evil}`,
    `host=example.com;${evil}, for=_x`,
  ])
  it.each(placed)(
    'make a key of its own of another host, scheme or text in Forwarded: %s',
    (own) => {
      const https = { scheme: 'https', host: 'example.com' }
      expect(claim({ forwarded: own }, https)).not.toBe(claim({}, https))
      for (const other of placed) {
        if (other === own) continue
        const isShared = claim({ forwarded: other }, https) === claim({ forwarded: own }, https)
        // Only text of `for` may differ, and it contains nothing that reads as a parameter.
        if (isShared)
          expect([own.replaceAll('for=_x;', ''), own]).toContain(other.replaceAll('for=_x;', ''))
      }
    },
  )

  it('make different keys of the hops in another order', () => {
    const orders = [
      'host=evil, for=_x',
      'for=_x, host=evil',
      'host=evil',
      'host=evil, host=example.com',
    ]
    expect(new Set(orders.map((forwarded) => claim({ forwarded }))).size).toBe(orders.length)
  })

  it('joins the lines of Forwarded', () => {
    const request = view('/a', { headers: { forwarded: ['for=_x', 'host=evil'] } })
    expect(keyOf(request)).toBe(claim({ forwarded: 'for=_x, host=evil' }))
  })

  it('do not hide a path that a middleware has rewritten, which makes a variant of the URL', () => {
    const sent = (rewritten?: string) => keyOf(view('/a', { rewritten }))
    expect(new Set([sent(), sent('/de/a'), sent('/en/a')]).size).toBe(3)
    expect(groupOf(sent('/de/a'))).toBe(key('/a'))
  })

  it('are not in the key if the key option is set', () => {
    const options: Options = { key: () => 'k' }
    expect(withHeaders({ 'x-forwarded-host': 'evil.test' }, options)).toBe(withHeaders({}, options))
  })
})

describe('the options key and identity', () => {
  it('get the native request, and the result of key replaces only the URL part of the cache key', () => {
    const options: Options = { key: (native) => `k${native}`, vary: ['x-a'], identity: () => 'me' }
    const one = keyOf(view('/a', { headers: { 'x-a': '1' } }), options, [], 7)
    expect(one).toBe('http:key 3:=k7\u0000v3:x-a1:1i3:=me')
    const elsewhere = view('/b?c', { host: 'other', scheme: 'https', headers: { 'x-a': '1' } })
    expect(keyOf(elsewhere, options, [], 7)).toBe(one)
  })

  it('give the key that a purge computes without a request', () => {
    expect(customKey('a:b')).toBe(key('/', { key: () => 'a:b' }))
  })

  it('cannot give a key that equals the key of a URL', () => {
    const imitation = key('/a').slice('http:'.length)
    expect(key('/', { key: () => imitation })).not.toBe(key('/a'))
  })

  it('separate callers from each other and from requests without a caller', () => {
    const identities = ['', 'a', 'b', '\ud800', '\ud801', '"\\ud800"', '\ufffd']
    const keys = identities.map((identity) => key('/', { identity: () => identity }))
    const asStored = [...keys, key('/')].map((text) => Buffer.from(text, 'utf8').toString('hex'))
    expect(new Set(asStored).size).toBe(identities.length + 1)
  })

  it.each([undefined, null, 42, {}, Promise.resolve('a')])(
    'make the request fail if they return %s',
    (value) => {
      const callback = (() => value) as unknown as () => string
      for (const option of ['key', 'identity'] as const) {
        expect(() => key('/', { [option]: callback })).toThrow(
          expect.objectContaining({
            code: 'ERR_STAMPEDE_OPTION',
            message: expect.stringMatching(`^stampedeCache.${option}: the function returned `),
          }),
        )
      }
    },
  )

  it('leave no unhandled rejection behind if they are async and throw', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const callback = (() => Promise.reject(new Error('async'))) as unknown as () => string
    for (const option of ['key', 'identity'] as const)
      expect(() => key('/', { [option]: callback })).toThrow('return a string for every request')
    await setImmediate()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })

  it('make the request fail if they throw, and the error states the reason', () => {
    const cause = new Error('no user')
    const identity = () => {
      throw cause
    }
    expect(() => key('/', { identity })).toThrow(expect.objectContaining({ cause }))
  })
})
