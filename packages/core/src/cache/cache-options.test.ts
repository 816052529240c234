import { describe, expect, it } from 'vitest'
import { LONGEST_MS } from '../options.ts'
import { readCacheOptions } from './cache-options.ts'

/** Checks options of any type, as a JavaScript caller may pass them. */
const read = (options?: unknown) => readCacheOptions(options as undefined)

function refusal(options: unknown): string {
  try {
    read(options)
  } catch (error) {
    expect(error).toMatchObject({ name: 'StampedeError', code: 'ERR_STAMPEDE_OPTION' })
    return (error as Error).message
  }
  throw new Error('it was accepted')
}

const NOT_DURATIONS: ReadonlyArray<[unknown, string]> = [
  [-1, '-1'],
  [Number.NaN, 'NaN'],
  [Number.POSITIVE_INFINITY, 'Infinity'],
  ['10', '"10"'],
  [1.5, '1.5'],
  [LONGEST_MS + 1, String(LONGEST_MS + 1)],
  [null, 'null'],
  [true, 'true'],
  [10n, '10n'],
]

const DURATIONS = [
  ['ttlMs', 1],
  ['staleWhileRevalidateMs', 0],
  ['staleIfErrorMs', 0],
  ['negativeTtlMs', 1],
  ['leaseMs', 100],
  ['waitMs', 0],
  ['originTimeoutMs', 1],
] as const

/** Properties of the checked options that the test of undefined options leaves out. */
const DERIVED = ['afterWait', 'cacheName', 'invalidatedTags', 'queryBody']

describe('the defaults of stampedeCache', () => {
  it('are complete and frozen, and equal the list in this test', () => {
    const config = read()
    expect(config).toEqual({
      ttlMs: undefined,
      overrideHeaders: false,
      staleWhileRevalidateMs: 0,
      staleIfErrorMs: 0,
      keepMs: 60_000,
      negativeTtlMs: undefined,
      jitter: 0.1,
      key: undefined,
      methods: new Set(['GET', 'HEAD']),
      queryBody: { maxBytes: 65_536, key: 'canonical' },
      query: { ignore: [] },
      vary: [],
      identity: undefined,
      authorization: 'bypass',
      cookies: 'bypass',
      targetedFields: ['stampede-cache-control'],
      tags: undefined,
      statuses: new Set([200, 203, 300, 301, 308]),
      requestDirectives: 'ignore',
      maxBodyBytes: 1024 * 1024,
      leaseMs: 5_000,
      waitMs: 30_000,
      afterWait: 'origin',
      originTimeoutMs: 30_000,
      revalidate: 'background',
      invalidateOn: 'unsafe',
      invalidatedTags: undefined,
      bypass: undefined,
      cacheName: 'Stampede',
      audit: false,
    })
    expect(Object.isFrozen(config)).toBe(true)
  })

  it('apply to options that are undefined', () => {
    const names = Object.keys(read()).filter((name) => !DERIVED.includes(name))
    const unset = Object.fromEntries([...names, 'stampede', 'cacheStatus'].map((name) => [name]))
    expect(read(unset)).toEqual(read())
  })
})

describe('an unknown option', () => {
  it.each([
    ['ttl', 'ttlMs'],
    ['staleWhileRevalidate', 'staleWhileRevalidateMs'],
    ['staleIfError', 'staleIfErrorMs'],
    ['negativeTtl', 'negativeTtlMs'],
    ['maxBody', 'maxBodyBytes'],
    ['lease', 'leaseMs'],
    ['wait', 'waitMs'],
    ['orginTimeoutMs', 'originTimeoutMs'],
    ['cookie', 'cookies'],
    ['overideHeaders', 'overrideHeaders'],
    ['status', 'statuses'],
    ['cacheStatuss', 'cacheStatus'],
    ['stampde', 'stampede'],
  ])('is rejected with a hint: %s, did you mean %s?', (name, near) => {
    expect(refusal({ [name]: 5 })).toBe(
      `stampedeCache.${name}: received 5; there is no such option; did you mean ${near}?`,
    )
  })

  it('is rejected with the list of options if none has a similar name', () => {
    expect(refusal({ prewarm: true })).toContain('known options: stampede, ttlMs, ')
  })

  it.each([null, 5, 'ttlMs', [], () => {}])(
    'is not looked for in %o, which is rejected because it is no object of options',
    (options) => {
      expect(refusal(options)).toContain('stampedeCache: received')
    },
  )
})

describe.each(DURATIONS)('the option %s', (name, least) => {
  it.each(NOT_DURATIONS)('may not be %o', (value, shown) => {
    expect(refusal({ [name]: value })).toBe(
      `stampedeCache.${name}: received ${shown}; use a whole number of milliseconds from ${least} to ${LONGEST_MS}`,
    )
  })

  it(`may be as short as ${least}`, () => {
    expect(read({ [name]: least })[name]).toBe(least)
    if (least > 0) expect(refusal({ [name]: least - 1 })).toContain(`received ${least - 1};`)
  })

  it('may be a year', () => expect(read({ [name]: LONGEST_MS })[name]).toBe(LONGEST_MS))
})

describe('the option afterWait', () => {
  it('is origin or unavailable', () => {
    expect(read({ waitMs: 10 })).toMatchObject({ waitMs: 10, afterWait: 'origin' })
    expect(read({ afterWait: 'unavailable' })).toMatchObject({
      waitMs: 30_000,
      afterWait: 'unavailable',
    })
    expect(refusal({ afterWait: 'stale' })).toBe(
      `stampedeCache.afterWait: received "stale"; use one of 'origin', 'unavailable'`,
    )
  })

  it('is suggested if waitMs is an object', () => {
    expect(refusal({ waitMs: { ms: 10, fallback: 'unavailable' } })).toBe(
      "stampedeCache.waitMs: received an object (Object); use { waitMs: 30_000, afterWait: 'unavailable' }",
    )
  })
})

describe('the option requestDirectives', () => {
  it('may be respect', () =>
    expect(read({ requestDirectives: 'respect' }).requestDirectives).toBe('respect'))

  it.each([true, 'honor'])('may not be %j', (requestDirectives) =>
    expect(refusal({ requestDirectives })).toContain("; use one of 'ignore', 'respect'"),
  )
})

describe('the option targetedFields', () => {
  it('are kept in lower case, in order and once each, after Stampede-Cache-Control', () => {
    const targetedFields = ['X-CDN-Control', 'CDN-Cache-Control', 'cdn-cache-control']
    expect(read({ targetedFields }).targetedFields).toEqual([
      'stampede-cache-control',
      'x-cdn-control',
      'cdn-cache-control',
    ])
    expect(read({ targetedFields: ['Stampede-Cache-Control'] })).toEqual(read())
    expect(read({ targetedFields: [] })).toEqual(read())
  })

  it.each([
    ['CDN-Cache-Control', 'received "CDN-Cache-Control"; use an array of non-empty strings'],
    [[''], 'use an array of non-empty strings'],
    [['a b'], 'received "a b"; name response fields: [\'CDN-Cache-Control\']'],
    [['Cache-Control'], 'received "Cache-Control"; name response fields'],
    [['expires'], 'received "expires"; name response fields'],
  ])('may not be %j', (targetedFields, message) =>
    expect(refusal({ targetedFields })).toContain(message),
  )
})

describe('the option jitter', () => {
  it.each([0, 0.25, 0.5])('may be %d', (jitter) => expect(read({ jitter }).jitter).toBe(jitter))

  it.each([-0.1, 0.51, 1, 10, Number.NaN, '0.1', null])('may not be %o', (jitter) => {
    expect(refusal({ jitter })).toMatch(
      /^stampedeCache\.jitter: .+; use a number from 0 to 0\.5, as a multiple of the lifetime$/,
    )
  })
})

describe.each(['key', 'identity', 'bypass'] as const)('the option %s', (name) => {
  it('is a function', () => {
    const fn = () => 'x'
    expect(read({ [name]: fn })[name]).toBe(fn)
  })

  it.each([null, 'url', true, {}])('may not be %o', (value) => {
    expect(refusal({ [name]: value })).toMatch(
      new RegExp(`^stampedeCache\\.${name}: .+; use a function$`),
    )
  })
})

describe('the option overrideHeaders', () => {
  it.each([true, false])('may be %o', (overrideHeaders) => {
    expect(read({ overrideHeaders })).toMatchObject({ overrideHeaders })
  })

  it.each([1, 'true', null])('may not be %o', (overrideHeaders) => {
    expect(refusal({ overrideHeaders })).toMatch(/^stampedeCache\.overrideHeaders: .+; use true/)
  })
})

describe('the option query', () => {
  it('may be the list of parameters in the key, even an empty one', () => {
    expect(read({ query: ['page', 'sort'] }).query).toEqual({ only: ['page', 'sort'] })
    expect(read({ query: [] }).query).toEqual({ only: [] })
  })

  it('may be the list of parameters that the key leaves out', () => {
    expect(read({ query: { ignore: ['utm_source'] } }).query).toEqual({ ignore: ['utm_source'] })
  })

  it.each([
    [[''], 'stampedeCache.query[0]: received ""; use an array of non-empty strings'],
    [['a', 5], 'stampedeCache.query[1]: received 5; use an array of non-empty strings'],
    [{ ignore: ['a', 5] }, 'stampedeCache.query.ignore[1]: received 5; use an array'],
    ['page', 'stampedeCache.query: received "page"'],
    [null, 'stampedeCache.query: received null'],
    [{ only: ['a'] }, 'stampedeCache.query.only: received an array of 1; there is no such option'],
    [{ ignore: 'a' }, 'stampedeCache.query.ignore: received "a"; use an array'],
    [{}, 'stampedeCache.query.ignore: received undefined; use an array'],
  ])('may not be %j', (query, message) => expect(refusal({ query })).toContain(message))
})

describe('the option vary', () => {
  it('is kept in lower case, sorted, without duplicates', () => {
    expect(read({ vary: ['X-B', 'accept', 'x-b'] }).vary).toEqual(['accept', 'x-b'])
  })

  it.each(['accept', [''], [5], null, {}])('may not be %j', (vary) => {
    expect(refusal({ vary })).toMatch(/^stampedeCache\.vary(\[0\])?: .+; use an array of non-empty/)
  })
})

describe('the option authorization', () => {
  it.each(['bypass', 'ignore'])('may be %s', (authorization) => {
    expect(read({ authorization })).toMatchObject({ authorization })
  })

  it('keeps the names of ignored fields in lower case, sorted, without duplicates', () => {
    const ignore = ['X-Tenant-Id', 'x-org', 'x-tenant-id']
    expect(read({ authorization: { ignore } }).authorization).toEqual({
      ignore: ['x-org', 'x-tenant-id'],
    })
  })

  it.each(['Ignore', true, null, 'key', ['x-tenant-id']])('may not be %o', (authorization) => {
    expect(refusal({ authorization })).toMatch(
      /^stampedeCache\.authorization: .+; use 'bypass', 'ignore' or \{ ignore: \['x-tenant-id'\] \}$/,
    )
  })

  it.each([
    [{}, 'stampedeCache.authorization.ignore: received undefined; use an array of non-empty'],
    [{ ignore: [] }, 'stampedeCache.authorization.ignore: received an array of 0; name a'],
    [{ ignore: ['x y'] }, 'stampedeCache.authorization.ignore: received "x y"; name request'],
    [{ ignore: ['*'] }, 'stampedeCache.authorization.ignore: received "*"; name request'],
    [{ ignore: ['Cookie'] }, `received "Cookie"; use cookies: 'ignore'`],
    [
      { ignores: ['x'] },
      'stampedeCache.authorization.ignores: received an array of 1; there is no',
    ],
  ])('may not be %j', (authorization, message) =>
    expect(refusal({ authorization })).toContain(message),
  )
})

describe('the option cookies', () => {
  it.each(['bypass', 'ignore'])('may be %s', (cookies) => {
    expect(read({ cookies })).toMatchObject({ cookies })
  })

  it('may name the cookies in the key, and sorts them', () => {
    const key = ['theme', 'currency']
    expect(read({ cookies: { key } }).cookies).toEqual({ key: ['currency', 'theme'] })
    expect(key).toEqual(['theme', 'currency'])
  })

  it.each([
    ['all', "stampedeCache.cookies: received \"all\"; use 'bypass', 'ignore' or { key:"],
    [true, 'stampedeCache.cookies: received true'],
    [null, 'stampedeCache.cookies: received null'],
    [['theme'], "stampedeCache.cookies: received an array of 1; use 'bypass', 'ignore' or { key"],
    [{}, 'stampedeCache.cookies.key: received undefined; use an array of non-empty strings'],
    [{ key: 'theme' }, 'stampedeCache.cookies.key: received "theme"'],
    [{ keys: ['theme'] }, 'stampedeCache.cookies.keys: received an array of 1; there is no such'],
  ])('may not be %j', (cookies, message) => expect(refusal({ cookies })).toContain(message))

  it('may not name an empty list of cookies, which would ignore all cookies silently', () => {
    expect(refusal({ cookies: { key: [] } })).toContain('stampedeCache.cookies.key')
  })
})

describe('the option statuses', () => {
  it('may be any status that a handler sends', () => {
    expect(read({ statuses: [200, 302, 404] }).statuses).toEqual(new Set([200, 302, 404]))
    expect(read({ statuses: [] }).statuses).toEqual(new Set())
  })

  it.each([200, null, { 0: 200 }])('may not be %o', (statuses) => {
    expect(refusal({ statuses })).toMatch(
      /^stampedeCache\.statuses: .+; use an array of statuses from 200 to 499$/,
    )
  })

  it.each([
    [199, '199'],
    [500, '500'],
    ['404', '"404"'],
    [200.5, '200.5'],
    [Number.NaN, 'NaN'],
    [null, 'null'],
  ])('may not contain %o, which the error names', (status, shown) => {
    expect(refusal({ statuses: [200, status] })).toBe(
      `stampedeCache.statuses[1]: received ${shown}; use an array of statuses from 200 to 499`,
    )
  })

  it.each([206, 304, 401, 403, 407, 408, 421, 425, 429])('may not be %d', (status) => {
    expect(refusal({ statuses: [status] })).toBe(
      `stampedeCache.statuses[0]: received ${status}; this status is never stored; leave it out`,
    )
  })
})

describe('the option maxBodyBytes', () => {
  it('may be 0', () => expect(read({ maxBodyBytes: 0 }).maxBodyBytes).toBe(0))

  it.each([-1, 1.5, '1mb', Number.POSITIVE_INFINITY, null])('may not be %o', (maxBodyBytes) => {
    expect(refusal({ maxBodyBytes })).toMatch(
      /^stampedeCache\.maxBodyBytes: .+; use a whole number of bytes from 0/,
    )
  })
})

describe('the option invalidateOn', () => {
  it.each(['unsafe', 'never'])('may be %s', (invalidateOn) => {
    expect(read({ invalidateOn })).toMatchObject({ invalidateOn })
  })

  it.each(['always', false, null, ['unsafe']])('may not be %o', (invalidateOn) => {
    expect(refusal({ invalidateOn })).toMatch(/^stampedeCache\.invalidateOn: .+; use 'unsa/)
  })
})

describe('the option invalidateOn with tags', () => {
  const tags = () => ['a']

  it('purges these tags after an unsafe request', () => {
    expect(read({ invalidateOn: { tags } })).toMatchObject({
      invalidateOn: 'unsafe',
      invalidatedTags: tags,
    })
    expect(read({ invalidateOn: { tags: ['a'] } })).toMatchObject({ invalidatedTags: ['a'] })
  })

  it.each([{ tags: 'a' }, { tags: [''] }, { tags: ['a'], on: 'unsafe' }, {}])(
    'may not be %o',
    (invalidateOn) => expect(refusal({ invalidateOn })).toMatch(/^stampedeCache\.invalidateOn/),
  )
})

describe('the option tags', () => {
  it('may be names or a function', () => {
    const tags = () => ['a']
    expect(read({ tags: ['a', 'b'] })).toMatchObject({ tags: ['a', 'b'] })
    expect(read({ tags })).toMatchObject({ tags })
  })

  it.each(['a', [''], [1], {}, null, Array(257).fill('a')])('may not be %o', (tags) => {
    expect(refusal({ tags })).toMatch(/^stampedeCache\.tags: .+; use up to 256 names/)
  })
})

describe('the option revalidate', () => {
  it.each(['background', 'foreground'])('may be %s', (revalidate) => {
    expect(read({ revalidate })).toMatchObject({ revalidate })
  })

  it.each(['behind', true, null])('may not be %o', (revalidate) => {
    expect(refusal({ revalidate })).toMatch(/^stampedeCache\.revalidate: .+; use one of 'back/)
  })
})

describe('the option cacheStatus', () => {
  it.each([
    [true, 'Stampede'],
    [false, undefined],
    ['shop', 'shop'],
    ['shop/1:a', 'shop/1:a'],
  ])('names the cache %o as %s', (cacheStatus, name) => {
    expect(read({ cacheStatus }).cacheName).toBe(name)
  })

  it.each(['', '1shop', 'a b', 'a;hit', 'a\r\nb', 'a,b', 'é', null, 5])(
    'may not be %o',
    (cacheStatus) => {
      expect(refusal({ cacheStatus })).toMatch(
        /^stampedeCache\.cacheStatus: .+; use true, false, or a name/,
      )
    },
  )
})
