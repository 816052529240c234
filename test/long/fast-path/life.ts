// Random events for both apps: options, layers, responses, requests, time.

import fc from 'fast-check'
import type { Outside, Says, Seen } from '../../harness/apps.ts'

const TEXT = 'one line as the other\n'.repeat(100)

/** Responses of the app, in each of its versions. */
export const PAGES: ReadonlyArray<(version: number) => (seen: Seen) => Says> = [
  (v) => () => ({
    body: `${v} ${TEXT}`,
    headers: { 'content-type': 'text/plain', etag: `"${v}"` },
  }),
  (v) => () => ({ body: `${v} ${TEXT}`, headers: { 'content-type': 'text/plain' } }),
  (v) => () => ({ body: `${v}`, headers: { link: ['<a>', '<b>'], etag: `W/"${v}"` } }),
  (v) => (seen) => ({
    body: `${v} ${seen.headers['accept-language']} ${TEXT}`,
    headers: { vary: 'Accept-Language', 'content-type': 'text/html' },
  }),
  (v) => (seen) => ({
    body: `${v} ${seen.headers['accept-encoding']}`,
    headers: { vary: 'Accept-Encoding, Cookie', 'cache-status': 'Further; hit' },
  }),
  (v) => () => ({ body: `${v}`, headers: { 'cache-control': 'max-age=2, must-revalidate' } }),
  (v) => () => ({ body: `${v}`, headers: { 'last-modified': 'Tue, 14 Nov 2023 00:00:00 GMT' } }),
  (v) => () => ({ body: `${v}`, headers: { age: '3', 'x-powered-by': 'Own' } }),
  () => () => ({ status: 204 }),
  (v) => () => ({ status: 404, body: `none ${v}` }),
  () => () => ({ status: 301, headers: { location: '/b' } }),
  (v) => () => ({ body: `${v}`, headers: { 'set-cookie': 'a=1' } }),
  (v) => () => ({
    body: `${v}`,
    headers: { 'surrogate-key': 't', 'cache-control': 'no-transform' },
  }),
  () => () => ({ status: 500, body: 'broken' }),
]

export const OUTSIDE: ReadonlyArray<Outside | undefined> = [
  undefined,
  (res, next) => {
    res.setHeader('X-Powered-By', 'Outer')
    return next()
  },
  (res, next) => {
    res.setHeader('Vary', 'Origin')
    res.setHeader('Link', ['<c>', '<d>'])
    return next()
  },
  (res, next) => {
    res.setHeader('Cache-Status', 'Outer; fwd=miss')
    res.setHeader('Surrogate-Key', 'outer')
    return next()
  },
  (res, next) => {
    res.setHeader('Set-Cookie', ['session=1', 'other=2'])
    return next()
  },
  (res, next) => {
    res.setHeader('Content-Type', 'text/x-outer')
    res.setHeader('ETag', '"outer"')
    return next()
  },
  (res, next) => {
    res.statusMessage = 'Odd'
    res.statusCode = 202
    return next()
  },
  (res, next) => {
    const { writeHead } = res
    const own = (...args: unknown[]): unknown => {
      res.setHeader('X-Late', '1')
      return Reflect.apply(writeHead, res, args)
    }
    Object.assign(res, { writeHead: own })
    return next()
  },
  (res, next) => {
    res.sendDate = false
    res.shouldKeepAlive = false
    return next()
  },
]

const LINES: Readonly<Record<string, readonly string[]>> = {
  'accept-language': ['de', 'en', 'de, en'],
  'accept-encoding': [
    'br',
    'gzip',
    'gzip, br',
    'gzip;q=0',
    'identity;q=0, *',
    'gzip;q=0.5, identity',
  ],
  cookie: ['a=1', 'b=2', ''],
  authorization: ['Bearer x'],
  'if-none-match': ['"1"', 'W/"1"', '*', '"2"'],
  'if-modified-since': ['Tue, 14 Nov 2023 00:00:00 GMT', 'Fri, 01 Jan 2100 00:00:00 GMT'],
  'if-range': ['"1"', '"2"'],
  'if-match': ['"1"'],
  range: ['bytes=0-3', 'bytes=9999999-', 'lines=1'],
  'cache-control': [
    'no-cache',
    'max-age=0',
    'only-if-cached',
    'max-age=4',
    'max-stale',
    'min-fresh=3',
  ],
  pragma: ['no-cache'],
  'content-length': ['0'],
  'x-forwarded-host': ['else.test'],
  'x-http-method-override': ['POST'],
  expect: ['100-continue'],
  connection: ['keep-alive'],
  te: ['trailers'],
}

/** Each of `names` in about every second request. */
function headersOf(names: readonly string[]): fc.Arbitrary<readonly string[]> {
  const lines = names.map((name) =>
    fc.constantFrom('', ...(LINES[name] ?? []).map((value) => `${name}: ${value}`)),
  )
  const all = fc.tuple(...lines).map((said) => said.filter((line) => line !== ''))
  return fc.oneof(fc.constant([]), all)
}

export type Step =
  | { type: 'ask'; method: string; path: string; version: string; lines: readonly string[] }
  | { type: 'advance'; ms: number }
  | { type: 'purge'; what: number; soft: boolean }
  | { type: 'page'; index: number }
  /** Whether the store is certain to report every purge. */
  | { type: 'hear'; well: boolean }
  | { type: 'close' }

const PATHS = [...Array<string>(7).fill('/a'), '/b', '/a?x=1&y=2', '/a?y=2&x=1']

function stepOf(names: readonly string[], pages: readonly number[]): fc.Arbitrary<Step> {
  const ask = fc.record({
    type: fc.constant('ask' as const),
    method: fc.constantFrom(...Array<string>(9).fill('GET'), 'HEAD', 'POST'),
    path: fc.constantFrom(...PATHS),
    version: fc.constantFrom('1.1', '1.1', '1.1', '1.0'),
    lines: headersOf(names),
  })
  const ms = fc.constantFrom(1, 500, 999, 2_000, 4_000, 5_000, 10_000, 60_000)
  return fc.oneof(
    { weight: 25, arbitrary: ask },
    { weight: 3, arbitrary: fc.record({ type: fc.constant('advance' as const), ms }) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('purge' as const),
        what: fc.nat(3),
        soft: fc.boolean(),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant('page' as const),
        index: fc.constantFrom(...pages),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('hear' as const), well: fc.boolean() }),
    },
  )
}

/** Few kinds of pages and fields, so that they meet. */
export const anySteps: fc.Arbitrary<readonly Step[]> = fc
  .tuple(
    fc.subarray(Object.keys(LINES), { minLength: 1, maxLength: 3 }),
    fc.subarray([...PAGES.keys()], { minLength: 1, maxLength: 4 }),
  )
  .chain(([names, pages]) =>
    fc
      .array(stepOf(names, pages), { minLength: 15, maxLength: 40 })
      .map((steps) => [{ type: 'page' as const, index: pages[0] ?? 0 }, ...steps]),
  )

const maybe = <T>(...values: T[]) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom(...values) },
  )
export const anyOptions = fc.record({
  ttlMs: fc.constantFrom(5_000, 10_000, 100_000),
  overrideHeaders: maybe(true),
  staleWhileRevalidateMs: maybe(8_000),
  staleIfErrorMs: maybe(60_000),
  negativeTtlMs: maybe(3_000),
  jitter: maybe(0.3),
  vary: maybe(['accept-language'], ['accept-encoding', 'x-none']),
  cookies: maybe<unknown>('ignore', { key: ['a'] }),
  authorization: maybe('ignore'),
  identity: maybe(() => 'me', callerOf),
  bypass: maybe((native: Native) => native.headers.te === 'trailers'),
  tags: maybe(['t']),
  requestDirectives: maybe('respect'),
  revalidate: maybe('foreground'),
  cacheStatus: maybe<unknown>(false, 'Shop'),
  query: maybe<unknown>({ ignore: ['x'] }),
  audit: maybe(true),
})

interface Native {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}
function callerOf({ headers }: Native): string {
  return String(headers.authorization)
}
