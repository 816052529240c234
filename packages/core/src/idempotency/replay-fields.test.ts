import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { isFinal, replayableHeaders } from './kept-response.ts'
import { decodeFor, withoutSetFields } from './replay-fields.ts'

describe('isKept', () => {
  it.each([
    200, 201, 202, 204, 206, 299, 300, 301, 303, 307, 308, 400, 402, 404, 409, 410, 418, 422, 451,
  ])('keeps %d', (status) => expect(isFinal(status)).toBe(true))

  it.each([100, 101, 103, 304, 401, 403, 407, 408, 421, 425, 429, 500, 501, 502, 503, 504, 599])(
    'releases %d',
    (status) => expect(isFinal(status)).toBe(false),
  )
})

describe('replayableHeaders', () => {
  it('keeps fields that describe the result, with every line', () => {
    const kept: HeaderList = [
      ['content-type', 'application/json'],
      ['content-encoding', 'gzip'],
      ['content-disposition', 'attachment'],
      ['location', '/orders/1'],
      ['etag', '"1"'],
      ['last-modified', 'Sun, 06 Nov 1994 08:49:37 GMT'],
      ['cache-control', 'no-store'],
      ['vary', 'origin'],
      ['vary', 'accept'],
      ['link', '</a>'],
      ['retry-after', '10'],
      ['x-order', '1'],
    ]
    expect(replayableHeaders(kept)).toEqual(kept)
  })

  it.each([
    ...['date', 'via', 'age', 'content-length', 'trailer', 'cache-status', 'server-timing'],
    ...['set-cookie', 'set-cookie2', 'idempotency-replayed'],
    ...['connection', 'keep-alive', 'te', 'transfer-encoding', 'upgrade', 'proxy-authenticate'],
    ...[
      'ratelimit',
      'ratelimit-policy',
      'x-ratelimit-remaining',
      'x-ratelimit',
      'x-rate-limit-reset',
    ],
    ...['access-control-allow-origin', 'access-control-expose-headers'],
    ...['x-request-id', 'x-correlation-id', 'traceparent', 'tracestate'],
  ])('drops %s', (name) => {
    const headers: HeaderList = [
      [name, 'x'],
      ['x-order', '1'],
      [name, 'y'],
    ]
    expect(replayableHeaders(headers)).toEqual([['x-order', '1']])
  })

  it('drops fields that Connection names', () => {
    const headers: HeaderList = [
      ['connection', 'close, X-Hop'],
      ['x-hop', '1'],
      ['x-order', '1'],
    ]
    expect(replayableHeaders(headers)).toEqual([['x-order', '1']])
  })
})

describe('withoutSetFields with the fields of the current response', () => {
  const names = [
    ...['strict-transport-security', 'content-security-policy', 'x-frame-options'],
    ...['content-security-policy-report-only', 'x-content-type-options', 'referrer-policy'],
    ...['cross-origin-opener-policy', 'cross-origin-resource-policy', 'permissions-policy'],
    ...['x-dns-prefetch-control', 'x-download-options', 'x-permitted-cross-domain-policies'],
    ...['x-powered-by', 'x-xss-protection', 'origin-agent-cluster'],
  ]

  it.each(names)(
    'keeps %s of the handler, unless a middleware has set it for this response',
    (name) => {
      const headers: HeaderList = [
        [name, 'x'],
        ['x-order', '1'],
      ]
      expect(replayableHeaders(headers)).toEqual(headers)
      expect(withoutSetFields(headers, () => false)).toEqual(headers)
      expect(withoutSetFields(headers, (set) => set === name)).toEqual([['x-order', '1']])
    },
  )

  it('replaces no other field', () => {
    const headers: HeaderList = [['location', '/orders/7']]
    expect(withoutSetFields(headers, () => true)).toEqual(headers)
  })
})

describe('decodeFor', () => {
  const TEXT = 'a body of some length, of some length'
  const PACK: Record<string, (text: string) => Uint8Array> = {
    gzip: gzipSync,
    'x-gzip': gzipSync,
    GZIP: gzipSync,
    br: brotliCompressSync,
    deflate: deflateSync,
  }
  const headersOf = (coding: string): HeaderList => [
    ['content-type', 'text/plain'],
    ['content-encoding', coding],
    ['vary', 'accept-encoding'],
  ]
  const given = (acceptEncoding: string | undefined, coding: string): string => {
    const body = PACK[coding]?.(TEXT) ?? Buffer.from(TEXT)
    const reply = decodeFor(acceptEncoding, headersOf(coding), body)
    if (reply.body === body) {
      expect(reply.headers).toEqual(headersOf(coding))
      return 'as it was'
    }
    expect(reply.headers).toEqual(headersOf(coding).filter(([name]) => name !== 'content-encoding'))
    return Buffer.from(reply.body).toString()
  }

  it.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['deflate;q=0.5, GZIP;q=0.1', 'gzip'],
    ['*', 'br'],
    ['*;q=0.1', 'gzip'],
    ['gzip', 'x-gzip'],
    ['x-gzip', 'gzip'],
    ['gzip', 'GZIP'],
    ['br;q=0, *', 'gzip'],
  ])('returns coded bytes to a client that accepts them: %j, %s', (acceptEncoding, coding) => {
    expect(given(acceptEncoding, coding)).toBe('as it was')
  })

  it.each([
    [undefined, 'gzip'],
    [undefined, 'br'],
    [undefined, 'deflate'],
    ['', 'gzip'],
    ['identity', 'gzip'],
    ['identity', 'GZIP'],
    ['br', 'gzip'],
    ['gzip', 'br'],
    ['gzip;q=0', 'gzip'],
    ['gzip;q=0, *', 'gzip'],
    ['gzip;q=0, *', 'x-gzip'],
    ['*;q=0', 'deflate'],
    ['gzip, gzip;q=0', 'gzip'],
    ['gzip;q=2', 'gzip'],
    ['nonsense;;', 'gzip'],
  ])('decodes for a client that does not accept the coding: %j, %s', (acceptEncoding, coding) => {
    expect(given(acceptEncoding, coding)).toBe(TEXT)
  })

  it.each(['zstd', 'compress', 'identity', 'gzip, br', ''])('cannot decode %j', (coding) => {
    expect(given('identity;q=1, x', coding)).toBe('as it was')
  })

  it('decodes deflate without a zlib header', () => {
    const reply = decodeFor(undefined, [['content-encoding', 'deflate']], deflateRawSync(TEXT))
    expect(Buffer.from(reply.body).toString()).toBe(TEXT)
  })

  it('changes nothing without a coding, with several coding fields, or for a partial response', () => {
    const body = gzipSync(TEXT)
    const lists: HeaderList[] = [
      [],
      [...headersOf('gzip'), ['content-encoding', 'gzip']],
      [...headersOf('gzip'), ['content-range', 'bytes 0-9/10']],
    ]
    for (const headers of lists)
      expect(decodeFor(undefined, headers, body)).toEqual({ headers, body })
  })

  it.each([
    ['broken', Buffer.from('no gzip')],
    ['cut off', gzipSync(TEXT).subarray(0, -4)],
    ['empty', Buffer.alloc(0)],
    ['a bomb', gzipSync(Buffer.alloc(64 * 1024 * 1024 + 1))],
  ])('changes nothing if the body is %s', (_, body) => {
    const headers = headersOf('gzip')
    expect(decodeFor(undefined, headers, body)).toEqual({ headers, body })
  })

  it('weakens the ETag, and drops digests of the coded bytes', () => {
    const headers: HeaderList = [
      ['etag', '"1"'],
      ['content-digest', 'sha-256=:x:'],
      ['repr-digest', 'sha-256=:x:'],
      ['digest', 'sha-256=x'],
      ['content-md5', 'x'],
      ['content-encoding', 'gzip'],
    ]
    expect(decodeFor(undefined, headers, gzipSync(TEXT)).headers).toEqual([['etag', 'W/"1"']])
    const weak: HeaderList = [
      ['etag', 'W/"1"'],
      ['content-encoding', 'gzip'],
    ]
    expect(decodeFor(undefined, weak, gzipSync(TEXT)).headers).toEqual([['etag', 'W/"1"']])
  })
})
