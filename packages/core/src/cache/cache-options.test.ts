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

/** Properties of the checked options that the test of undefined options leaves out. */
const DERIVED = ['addsSubjects', 'afterWait', 'cacheName', 'invalidatedTags', 'queryBody']

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
      addsSubjects: false,
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
    ['maxBody', 'maxBodyBytes'],
    ['cookie', 'cookies'],
    ['overideHeaders', 'overrideHeaders'],
    ['status', 'statuses'],
    ['stampde', 'stampede'],
  ])('is rejected with a hint: %s, did you mean %s?', (name, near) => {
    expect(refusal({ [name]: 5 })).toBe(
      `stampedeCache.${name}: received 5; there is no such option; did you mean ${near}?`,
    )
  })

  it('is rejected with the list of options if none has a similar name', () => {
    expect(refusal({ prewarm: true })).toContain('known options: stampede, ttlMs, ')
  })
})

const fn = () => 'x'
const tags = () => ['a']
const OWN = 'stampede-cache-control'

describe('an option', () => {
  it.each<[options: object, config: object]>([
    [{ waitMs: 10 }, { waitMs: 10, afterWait: 'origin' }],
    [{ afterWait: 'unavailable' }, { waitMs: 30_000, afterWait: 'unavailable' }],
    [{ requestDirectives: 'respect' }, { requestDirectives: 'respect' }],
    [{ targetedFields: ['X-B', 'A', 'a', OWN] }, { targetedFields: [OWN, 'x-b', 'a'] }],
    [{ targetedFields: [] }, { targetedFields: [OWN] }],
    [{ jitter: 0 }, { jitter: 0 }],
    [{ jitter: 0.5 }, { jitter: 0.5 }],
    [
      { key: fn, identity: fn, bypass: fn },
      { key: fn, identity: fn, bypass: fn },
    ],
    [{ overrideHeaders: true }, { overrideHeaders: true }],
    [{ query: ['page', 'sort'] }, { query: { only: ['page', 'sort'] } }],
    [{ query: [] }, { query: { only: [] } }],
    [{ query: { ignore: ['utm_source'] } }, { query: { ignore: ['utm_source'] } }],
    [{ vary: ['X-B', 'accept', 'x-b'] }, { vary: ['accept', 'x-b'] }],
    [{ authorization: 'ignore' }, { authorization: 'ignore' }],
    [
      { authorization: { ignore: ['X-B', 'x-a', 'x-b'] } },
      { authorization: { ignore: ['x-a', 'x-b'] } },
    ],
    [{ cookies: 'ignore' }, { cookies: 'ignore' }],
    [{ cookies: { key: ['theme', 'currency'] } }, { cookies: { key: ['currency', 'theme'] } }],
    [{ statuses: [200, 302, 404] }, { statuses: new Set([200, 302, 404]) }],
    [{ statuses: [] }, { statuses: new Set() }],
    [{ maxBodyBytes: 0 }, { maxBodyBytes: 0 }],
    [{ invalidateOn: 'never' }, { invalidateOn: 'never' }],
    [{ invalidateOn: { tags } }, { invalidateOn: 'unsafe', invalidatedTags: tags }],
    [{ invalidateOn: { tags: ['a'] } }, { invalidatedTags: ['a'] }],
    [{ tags: ['a', 'b'] }, { tags: ['a', 'b'] }],
    [{ tags }, { tags, addsSubjects: true }],
    [{ invalidateOn: 'all' }, { invalidateOn: 'all', addsSubjects: true }],
    [{ revalidate: 'foreground' }, { revalidate: 'foreground' }],
    [{ cacheStatus: true }, { cacheName: 'Stampede' }],
    [{ cacheStatus: false }, { cacheName: undefined }],
    [{ cacheStatus: 'shop/1:a' }, { cacheName: 'shop/1:a' }],
  ])('may be %o', (options, config) => {
    expect(read(options)).toMatchObject(config)
  })

  it.each([
    ['ttlMs', 1],
    ['staleWhileRevalidateMs', 0],
    ['staleIfErrorMs', 0],
    ['negativeTtlMs', 1],
    ['leaseMs', 100],
    ['waitMs', 0],
    ['originTimeoutMs', 1],
  ] as const)('is the duration %s, from %d ms to a year', (name, least) => {
    expect(read({ [name]: least })[name]).toBe(least)
    expect(read({ [name]: LONGEST_MS })[name]).toBe(LONGEST_MS)
    const range = `use a whole number of milliseconds from ${least} to ${LONGEST_MS}`
    expect(refusal({ [name]: least - 1 })).toBe(
      `stampedeCache.${name}: received ${least - 1}; ${range}`,
    )
  })
})

const FIELDS = 'name response fields'
const NAMES = 'use an array of non-empty strings'
const STATUSES = 'use an array of statuses from 200 to 499'
const NEVER_STORED = 'this status is never stored; leave it out'
const UNKNOWN = 'received an array of 1; there is no such option'

/** Values of one option, with the part of the error after its name. */
const REFUSED: Record<string, ReadonlyArray<[value: unknown, message: string]>> = {
  afterWait: [['stale', `: received "stale"; use one of 'origin', 'unavailable'`]],
  waitMs: [
    [{ ms: 10 }, ": received an object (Object); use { waitMs: 30_000, afterWait: 'unavailable' }"],
  ],
  requestDirectives: [[true, ": received true; use one of 'ignore', 'respect'"]],
  targetedFields: [
    ['CDN-Cache-Control', `: received "CDN-Cache-Control"; ${NAMES}`],
    [[''], `[0]: received ""; ${NAMES}`],
    [['a b'], `: received "a b"; ${FIELDS}: ['CDN-Cache-Control']`],
    [['Cache-Control'], `: received "Cache-Control"; ${FIELDS}`],
    [['expires'], `: received "expires"; ${FIELDS}`],
  ],
  jitter: [[0.51, ': received 0.51; use a number from 0 to 0.5, as a multiple of the lifetime']],
  key: [['url', ': received "url"; use a function']],
  identity: [[true, ': received true; use a function']],
  bypass: [[null, ': received null; use a function']],
  overrideHeaders: [[1, ': received 1; use true']],
  query: [
    [[''], `[0]: received ""; ${NAMES}`],
    [['a', 5], `[1]: received 5; ${NAMES}`],
    [{ ignore: ['a', 5] }, '.ignore[1]: received 5; use an array'],
    ['page', ': received "page"'],
    [null, ': received null'],
    [{ only: ['a'] }, `.only: ${UNKNOWN}`],
    [{ ignore: 'a' }, '.ignore: received "a"; use an array'],
    [{}, '.ignore: received undefined; use an array'],
  ],
  vary: [
    ['accept', `: received "accept"; ${NAMES}`],
    [[5], `[0]: received 5; ${NAMES}`],
  ],
  authorization: [
    ['Ignore', `: received "Ignore"; use 'bypass', 'ignore' or { ignore: ['x-tenant-id'] }`],
    [['x-tenant-id'], ": received an array of 1; use 'bypass', 'ignore' or"],
    [{}, '.ignore: received undefined; use an array of non-empty'],
    [{ ignore: [] }, '.ignore: received an array of 0; name a'],
    [{ ignore: ['x y'] }, '.ignore: received "x y"; name request'],
    [{ ignore: ['*'] }, '.ignore: received "*"; name request'],
    [{ ignore: ['Cookie'] }, `.ignore: received "Cookie"; use cookies: 'ignore'`],
    [{ ignores: ['x'] }, `.ignores: ${UNKNOWN}`],
  ],
  cookies: [
    ['all', ": received \"all\"; use 'bypass', 'ignore' or { key:"],
    [['theme'], ": received an array of 1; use 'bypass', 'ignore' or { key"],
    [{}, `.key: received undefined; ${NAMES}`],
    [{ key: 'theme' }, '.key: received "theme"'],
    [{ keys: ['theme'] }, `.keys: ${UNKNOWN}`],
    // It would ignore all cookies silently.
    [{ key: [] }, '.key: received an array of 0'],
  ],
  statuses: [
    [200, `: received 200; ${STATUSES}`],
    [[200, 199], `[1]: received 199; ${STATUSES}`],
    [[200, 500], `[1]: received 500; ${STATUSES}`],
    [[200, '404'], `[1]: received "404"; ${STATUSES}`],
    ...[206, 304, 401, 403, 407, 408, 421, 425, 429].map((status): [unknown, string] => [
      [status],
      `[0]: received ${status}; ${NEVER_STORED}`,
    ]),
  ],
  maxBodyBytes: [['1mb', ': received "1mb"; use a whole number of bytes from 0']],
  invalidateOn: [
    ['always', ': received "always"; use \'unsa'],
    [{ tags: 'a' }, ''],
    [{ tags: [''] }, ''],
    [{ tags: ['a'], on: 'unsafe' }, ''],
    [{}, ''],
  ],
  tags: ['a', [''], [1], {}, null, Array(257).fill('a')].map((value) => [value, '']),
  revalidate: [['behind', ': received "behind"; use one of \'back']],
  cacheStatus: ['', '1shop', 'a b', 'a;hit', 'a\r\nb', 'a,b', 'é', null, 5].map((value) => [
    value,
    '',
  ]),
}
/** The fixes of options whose values all have the same. */
const FIXES: Record<string, string> = {
  tags: 'use up to 256 names',
  cacheStatus: 'use true, false, or a name',
}

describe.each(Object.entries(REFUSED))('the option %s', (name, values) => {
  it.each(values)('may not be %o', (value, message) => {
    const error = refusal({ [name]: value })
    expect(error).toContain(`stampedeCache.${name}${message}`)
    expect(error).toContain(FIXES[name] ?? '')
  })
})
