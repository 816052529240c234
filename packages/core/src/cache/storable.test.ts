import { describe, expect, it } from 'vitest'
import { NO_WINDOWS } from '../entry/entry.ts'
import { CREDENTIAL_FIELDS } from '../http/headers.ts'
import { LONGEST_MS } from '../options.ts'
import type { HeaderList, RequestView } from '../ports/exchange.ts'
import { type CacheRules, readCacheOptions } from './cache-options.ts'
import { judgeHead } from './storable.ts'

type Options = CacheRules<unknown>

const NOW = Date.UTC(2026, 0, 1)
const REQUEST: RequestView = {
  method: 'GET',
  scheme: 'http',
  host: 'example.com',
  target: '/',
  headers: {},
}
const TTL: Options = { ttlMs: 10_000 }

const judge = (headers: HeaderList, options: Options = TTL, status = 200, request = REQUEST) =>
  judgeHead({ status, headers }, request, readCacheOptions(options), NOW)
const reason = (headers: HeaderList, options?: Options, status?: number) => {
  const verdict = judge(headers, options, status)
  return typeof verdict === 'string' ? verdict : 'stored'
}
const freshMs = (headers: HeaderList, options?: Options, status?: number) => {
  const verdict = judge(headers, options, status)
  return typeof verdict === 'string' ? verdict : verdict.freshMs
}
const cc = (value: string): HeaderList => [['cache-control', value]]

describe('the lifetime of a response', () => {
  it('is ttlMs for a response without explicit freshness', () => {
    expect(judge([])).toEqual({
      freshMs: 10_000,
      ...NO_WINDOWS,
      initialAgeMs: 0,
      varyNames: [],
      subjects: [],
    })
  })

  it('can be shortened by the response, and never lengthened', () => {
    expect(freshMs(cc('max-age=5'))).toBe(5_000)
    expect(freshMs(cc('max-age=60'))).toBe(10_000)
    expect(freshMs(cc('max-age=60, s-maxage=5'))).toBe(5_000)
    expect(freshMs([['expires', new Date(NOW + 3_000).toUTCString()]])).toBe(3_000)
  })

  it('comes from the fields of the response if ttlMs is not set', () => {
    expect(freshMs(cc('max-age=60'), {})).toBe(60_000)
    expect(freshMs(cc('max-age=0, s-maxage=60'), {})).toBe(60_000)
    expect(freshMs([], {})).toBe('no-freshness')
    expect(freshMs(cc('public'), {})).toBe('no-freshness')
    expect(freshMs([['last-modified', new Date(0).toUTCString()]], {})).toBe('no-freshness')
  })

  it.each([
    cc('max-age=0'),
    cc('max-age=60, s-maxage=0'),
    cc('max-age=x'),
    [['expires', '0'] as const],
  ])('is 0 for %j, with or without ttlMs', (...headers: HeaderList) => {
    expect(reason(headers)).toBe('expired')
    expect(reason(headers, {})).toBe('expired')
  })

  it('is ttlMs if overrideHeaders is set', () => {
    const options = { ...TTL, overrideHeaders: true }
    expect(freshMs(cc('max-age=0'), options)).toBe(10_000)
    expect(freshMs(cc('s-maxage=99'), options)).toBe(10_000)
    expect(freshMs([['expires', '0']], options)).toBe(10_000)
    expect(freshMs(cc('max-age=60'), { overrideHeaders: true })).toBe(60_000)
  })

  it('is explicit freshness minus the upstream Age', () => {
    const aged = (value: string, age: string): HeaderList => [...cc(value), ['age', age]]
    expect(judge(aged('max-age=60', '50'), {})).toMatchObject({
      freshMs: 10_000,
      initialAgeMs: 50_000,
    })
    expect(freshMs(aged('max-age=60', '55'))).toBe(5_000)
    expect(freshMs(aged('max-age=60', '60'))).toBe('expired')
    expect(freshMs(aged('max-age=60', 'x'), {})).toBe(60_000)
  })

  it('comes from a targeted field, in spite of Cache-Control and Expires', () => {
    const own = (value: string): HeaderList => [['stampede-cache-control', value]]
    const others: HeaderList = [...cc('no-store, private, max-age=1'), ['expires', '0']]
    expect(freshMs([...own('max-age=5'), ...others])).toBe(5_000)
    expect(freshMs([...own('max-age=60'), ...others], {})).toBe(60_000)
    expect(freshMs([...own('must-revalidate'), ...others])).toBe(10_000)
    expect(freshMs([...own('must-revalidate'), ...others], {})).toBe('no-freshness')
    expect(freshMs([...own('no-store'), ...cc('max-age=60')])).toBe('no-store')
    expect(freshMs([...own('max-age="60"'), ...cc('max-age=60')])).toBe('expired')
    expect(freshMs([...own('max-age=60, &'), ...cc('private')])).toBe('private')
    expect(freshMs([...own('max-age=5'), ['age', '2'], ['pragma', 'no-cache']])).toBe(3_000)
  })

  it('comes from a targeted field only if the options name the field', () => {
    const headers: HeaderList = [['cdn-cache-control', 'max-age=5'], ...cc('max-age=9')]
    expect(freshMs(headers)).toBe(9_000)
    expect(freshMs(headers, { ...TTL, targetedFields: ['CDN-Cache-Control'] })).toBe(5_000)
  })

  it('is 0 for a cookie or Vary: *, in spite of a targeted field', () => {
    const own = ['stampede-cache-control', 'max-age=60, public'] as const
    expect(reason([own, ['set-cookie', 'a=1']])).toBe('set-cookie')
    expect(reason([own, ['vary', '*']])).toBe('vary-star')
    expect(reason([own], TTL, 500)).toBe('server-error')
  })

  it('is ttlMs from now for an aged response without explicit freshness', () => {
    expect(judge([['age', '50']])).toMatchObject({ freshMs: 10_000, initialAgeMs: 50_000 })
  })

  it('does not overflow', () => {
    expect(freshMs(cc('max-age=99999999999'), {})).toBe(LONGEST_MS)
  })
})

describe('the status of a response', () => {
  it.each([500, 501, 502, 503, 504, 599])(
    'makes %d a failure of the origin, which is not stored',
    (status) => {
      const expected = 'server-error'
      expect(judge(cc('public, max-age=60'), TTL, status)).toEqual(expected)
    },
  )

  it.each([100, 103, 206, 304, 401, 403, 407, 408, 421, 425, 429])(
    'prevents %d from being stored',
    (status) => {
      const expected = 'status'
      expect(judge(cc('public, max-age=60'), TTL, status)).toEqual(expected)
    },
  )

  it.each([200, 203, 300, 301, 308])('lets %d be stored for ttlMs', (status) => {
    expect(freshMs([], TTL, status)).toBe(10_000)
  })

  it.each([201, 202, 204, 302, 303, 307])(
    'lets %d be stored with explicit freshness, or if the option statuses lists it',
    (status) => {
      expect(reason([], TTL, status)).toBe('status')
      expect(freshMs(cc('max-age=5'), TTL, status)).toBe(5_000)
      expect(freshMs([], { ...TTL, statuses: [status] }, status)).toBe(10_000)
    },
  )

  it.each([400, 405, 406, 409, 413, 414, 431])(
    'lets %d be stored only if the option statuses lists it',
    (status) => {
      expect(reason(cc('max-age=5'), TTL, status)).toBe('status')
      expect(freshMs(cc('max-age=5'), { ...TTL, statuses: [status] }, status)).toBe(5_000)
    },
  )

  it.each([404, 410])('gives %d at most the lifetime negativeTtlMs', (status) => {
    const negative = { ...TTL, negativeTtlMs: 2_000 }
    expect(reason([], TTL, status)).toBe('status')
    expect(freshMs([], negative, status)).toBe(2_000)
    expect(freshMs([], { negativeTtlMs: 2_000 }, status)).toBe(2_000)
    expect(freshMs(cc('max-age=1'), negative, status)).toBe(1_000)
    expect(freshMs(cc('max-age=5'), negative, status)).toBe(2_000)
    expect(freshMs(cc('max-age=5'), { ...negative, overrideHeaders: true }, status)).toBe(2_000)
    expect(freshMs(cc('max-age=0'), { ...negative, overrideHeaders: true }, status)).toBe('expired')
    expect(freshMs(cc('max-age=5'), TTL, status)).toBe(5_000)
    expect(freshMs(cc('max-age=50'), TTL, status)).toBe(10_000)
    expect(freshMs([], { ...TTL, statuses: [status] }, status)).toBe(10_000)
  })
})

describe('the reason not to store a response', () => {
  const always: Options = { ttlMs: 10_000, overrideHeaders: true, identity: () => 'me' }

  it.each([
    ['no-store', 'public, max-age=60, no-store'],
    ['no-store', 'must-understand, no-store'],
    ['private', 'PRIVATE'],
    ['private', 'private=""'],
    ['private', 'max-age=60, private="set-cookie"'],
    ['no-cache', 'no-cache, max-age=60'],
    ['no-cache', 'no-cache="set-cookie"'],
    ['no-store', 'public; no-store'],
  ])('is %s for Cache-Control: %s', (expected, value) => {
    expect(reason(cc(value))).toBe(expected)
    expect(reason(cc(value), always)).toBe(expected)
  })

  it('is private for the directive on a second Cache-Control line', () => {
    expect(reason([...cc('public, max-age=60'), ...cc('private')])).toBe('private')
  })

  it('is set-cookie for Set-Cookie, even in a public response', () => {
    const headers: HeaderList = [...cc('public, max-age=60'), ['set-cookie', 'a=1']]
    expect(reason(headers)).toBe('set-cookie')
    expect(reason(headers, always)).toBe('set-cookie')
    expect(reason([['set-cookie2', '']])).toBe('set-cookie')
  })

  it.each([...CREDENTIAL_FIELDS])(
    'is credentials for %s, even in a public response or with the caller in the key',
    (name) => {
      const headers: HeaderList = [...cc('public, max-age=60'), [name, 'x']]
      expect(reason(headers)).toBe('credentials')
      expect(reason(headers, always)).toBe('credentials')
    },
  )

  it.each([
    ...['cf-ray', 'x-amz-cf-id', 'x-amz-request-id', 'x-akamai-session-info', 'x-cache', 'nel'],
    ...['x-served-by', 'x-azure-ref', 'x-vercel-id', 'fly-request-id', 'x-goog-hash', 'report-to'],
  ])('is absent for %s, which a CDN adds to every response', (name) => {
    expect(reason([[name, 'x']])).toBe('stored')
  })

  it('is content-range for Content-Range', () => {
    expect(reason([['content-range', 'bytes 0-1/2']])).toBe('content-range')
  })

  it('is no-cache for Pragma: no-cache without Cache-Control', () => {
    expect(reason([['pragma', 'No-Cache']])).toBe('no-cache')
    expect(reason([['pragma', 'no-cache'], ...cc('max-age=60')])).toBe('stored')
    expect(reason([['pragma', 'x']])).toBe('stored')
  })

  it('is method for a response to HEAD', () => {
    const head = judge(cc('max-age=60'), TTL, 200, { ...REQUEST, method: 'HEAD' })
    expect(head).toEqual('method')
  })
})

describe('Vary of a response', () => {
  it('names the request fields that select a variant', () => {
    expect(judge([['vary', 'Accept-Encoding, X-A']])).toMatchObject({
      varyNames: ['accept-encoding', 'x-a'],
    })
  })

  it('forbids storing if it is *', () => {
    expect(
      reason([
        ['vary', 'a'],
        ['vary', 'b, *'],
      ]),
    ).toBe('vary-star')
  })

  it('forbids storing if it names Cookie, unless cookies are in the key', () => {
    const headers: HeaderList = [['vary', 'Cookie']]
    expect(reason(headers)).toBe('vary-cookie')
    expect(reason(headers, { ...TTL, cookies: 'ignore' })).toBe('vary-cookie')
    expect(reason(headers, { ...TTL, cookies: { key: ['a'] } })).toBe('stored')
    expect(reason(headers, { ...TTL, vary: ['Cookie'] })).toBe('stored')
    expect(reason(headers, { ...TTL, identity: () => 'me' })).toBe('stored')
  })

  it('forbids storing if it names Authorization, unless that field is in the key', () => {
    const headers: HeaderList = [['vary', 'Authorization']]
    expect(reason(headers)).toBe('vary-authorization')
    expect(reason(headers, { ...TTL, authorization: 'ignore' })).toBe('vary-authorization')
    expect(reason(headers, { ...TTL, vary: ['authorization'] })).toBe('stored')
    expect(reason(headers, { ...TTL, identity: () => 'me' })).toBe('stored')
  })
})

describe('Authorization in the request', () => {
  it('does not forbid storing if the option authorization is ignore', () => {
    const request = { ...REQUEST, headers: { authorization: 'Bearer x' } }
    expect(judge([], { ...TTL, authorization: 'ignore' }, 200, request)).toBeTypeOf('object')
  })
})

describe('Access-Control-Allow-Origin', () => {
  const echoed: HeaderList = [['access-control-allow-origin', 'https://a.example']]

  it('forbids storing if it names an origin that is not in the key', () => {
    expect(reason(echoed)).toBe('cors-origin')
    expect(reason([['access-control-allow-origin', 'null']])).toBe('cors-origin')
  })

  it('allows storing as *, or with the origin in the key', () => {
    expect(reason([['access-control-allow-origin', '*']])).toBe('stored')
    expect(reason([...echoed, ['vary', 'Accept, Origin']])).toBe('stored')
    expect(reason(echoed, { ...TTL, vary: ['Origin'] })).toBe('stored')
  })
})

describe('the stale windows', () => {
  const options = { ...TTL, staleWhileRevalidateMs: 1_000, staleIfErrorMs: 2_000 }
  const windows = (value: string) => {
    const verdict = judge(cc(value), options)
    return typeof verdict !== 'string' && [verdict.staleWhileRevalidateMs, verdict.staleIfErrorMs]
  }

  it('are those of the options, unless the response has its own', () => {
    expect(windows('max-age=5')).toEqual([1_000, 2_000])
    expect(windows('max-age=5, stale-while-revalidate=7')).toEqual([7_000, 2_000])
    expect(windows('max-age=5, stale-if-error=0')).toEqual([1_000, 0])
    expect(windows('stale-while-revalidate=x')).toEqual([0, 2_000])
    expect(windows('stale-if-error=99999999999')).toEqual([1_000, LONGEST_MS])
  })

  it.each(['must-revalidate', 'proxy-revalidate', 's-maxage=5', 's-maxage=5, stale-if-error=9'])(
    'are 0 with %s',
    (value) => expect(windows(value)).toEqual([0, 0]),
  )

  it('keep a 200 with a validator for revalidation, also after must-revalidate', () => {
    const keepMs = (headers: HeaderList, status = 200) => {
      const verdict = judge(headers, { ...TTL, negativeTtlMs: 1_000, keepMs: 7_000 }, status)
      return typeof verdict === 'string' ? undefined : verdict.keepMs
    }
    const etag: HeaderList = [['etag', '"a"']]
    expect(keepMs([...etag, ...cc('max-age=5, must-revalidate')])).toBe(7_000)
    expect(keepMs([])).toBe(0)
    // No condition can be made of it.
    expect(keepMs([['etag', 'without-quotes']])).toBe(0)
    expect(keepMs(etag, 404)).toBe(0)
  })
})
