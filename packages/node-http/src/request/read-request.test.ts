import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { lostLines } from './read-request.ts'

interface Head {
  readonly rawHeaders: string[]
  readonly headers: Record<string, string>
  readonly version?: number
  readonly server?: object
}

function requestOf({ rawHeaders, headers, version = 1, server = {} }: Head): IncomingMessage {
  const req = new IncomingMessage(Object.assign(new Socket(), { server }))
  return Object.assign(req, { rawHeaders, headers, httpVersionMajor: version })
}

const lines = (n: number): string[] => Array.from({ length: n }, (_, i) => [`X-${i}`, '1']).flat()

describe('a head that is too long', () => {
  it.each<[count: number, server: object, found: string | undefined]>([
    [999, {}, undefined],
    [1_000, {}, 'cut-head'],
    [1_023, {}, 'cut-head'],
    [1_500, { maxHeadersCount: 0 }, undefined],
    [1_500, { maxHeadersCount: -1 }, undefined],
    [1_500, { maxHeadersCount: 2_000 }, undefined],
    [1_000, { maxHeadersCount: null }, 'cut-head'],
    [19, { maxHeadersCount: 20 }, undefined],
    [20, { maxHeadersCount: 20 }, 'cut-head'],
    [32, { maxHeadersCount: 32 }, 'cut-head'],
  ])('of %d lines on a server with %o is %s', (count, server, found) => {
    expect(lostLines(requestOf({ rawHeaders: lines(count), headers: {}, server }))).toBe(found)
  })

  it('is whole over HTTP/2, and in a request without a server', () => {
    const head = { rawHeaders: lines(1_500), headers: {} }
    expect(lostLines(requestOf({ ...head, version: 2 }))).toBe(undefined)
    const inject = Object.assign(new IncomingMessage(new Socket()), head)
    expect(lostLines(inject)).toBe(undefined)
  })
})

/** Fields of which Node 20 keeps the first line over HTTP/2. */
const OVER_HTTP2 = [
  ...['access-control-allow-credentials', 'access-control-max-age', 'age', 'authorization', 'date'],
  ...['access-control-request-method', 'content-encoding', 'content-language', 'content-length'],
  ...['content-location', 'content-md5', 'content-range', 'content-type', 'dnt', 'etag', 'expires'],
  ...['from', 'host', 'if-match', 'if-modified-since', 'if-none-match', 'if-range', 'range', 'tk'],
  ...['if-unmodified-since', 'last-modified', 'location', 'max-forwards', 'proxy-authorization'],
  ...['referer', 'retry-after', 'upgrade-insecure-requests', 'user-agent'],
  ...['x-content-type-options'],
]

describe('a repeated field', () => {
  it.each(OVER_HTTP2)('is found over HTTP/2 if Node drops a line: %s', (name) => {
    const rawHeaders = ['accept', 'a', name, 'own', 'accept-language', 'de', name, 'evil']
    const head = { version: 2, rawHeaders }
    expect(lostLines(requestOf({ ...head, headers: { [name]: 'own' } }))).toBe('repeated-field')
    // As with `joinDuplicateHeaders`.
    expect(lostLines(requestOf({ ...head, headers: { [name]: 'own, evil' } }))).toBe(undefined)
  })

  it('is found with equal lines and in any case, not for lines of different fields', () => {
    const found = (...rawHeaders: string[]) =>
      lostLines(requestOf({ rawHeaders, headers: { host: 'a', 'user-agent': 'b' } }))
    expect(found('Host', 'a', 'hOST', 'a')).toBe('repeated-field')
    expect(found('Host', 'a', 'User-Agent', 'b', 'Hoof', 'c', 'HOOF', 'd')).toBe(undefined)
    expect(found('X-Own', 'a', 'X-Own', 'b')).toBe(undefined)
    expect(found('__proto__', '[object Object]')).toBe('repeated-field')
    expect(found()).toBe(undefined)
  })
})
