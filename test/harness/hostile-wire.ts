// A client that sends requests no client should send, as raw bytes on a socket of their own, and
// such requests.

import { connect } from 'node:net'

export interface WireAnswer {
  /** 0: the connection was closed without a response. */
  readonly status: number
  /** Names in lower case, in alphabetical order. */
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  /** As sent. A chunked body has its chunk sizes. */
  readonly body: string
}

/** Sends the bytes, and reads until the server closes the connection. */
export async function exchangeBytes(port: number, bytes: Buffer): Promise<WireAnswer> {
  const socket = connect(port, '127.0.0.1')
  const received: Buffer[] = []
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => received.push(chunk))
  socket.write(bytes)
  await new Promise<void>((resolve, reject) => {
    const late = () => reject(new Error(`no end of an answer to ${bytes.subarray(0, 80)}`))
    const timer = setTimeout(late, 60_000)
    socket.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
  }).finally(() => socket.destroy())
  const text = Buffer.concat(received).toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  const [first = '', ...lines] = text.slice(0, Math.max(end, 0)).split('\r\n')
  const fields = lines.map((line): [string, string] => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  })
  fields.sort(([a], [b]) => (a < b ? -1 : Number(a > b)))
  return { status: Number(first.split(' ')[1] ?? 0), fields, body: text.slice(end + 4) }
}

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

/** One request. `lines` may hold anything. The connection is closed after it. */
export function requestBytes(first: string, lines: readonly string[], body = ''): Buffer {
  return latin1([first, ...lines, 'Connection: close', '', body].join('\r\n'))
}

const GET = (target: string, ...lines: string[]): Buffer =>
  requestBytes(`GET ${target} HTTP/1.1`, ['Host: shop.test', ...lines])

const PARAMETERS = Array.from({ length: 10_000 }, (_, i) => `${i}`).join('&')

/** Requests by their defect. */
export const HOSTILE_REQUESTS: Readonly<Record<string, Buffer>> = {
  'nothing odd': GET('/page?a=1'),
  'a path of two slashes': GET('//evil.test/page'),
  'a path of many slashes': GET('////////'),
  'dots in the path': GET('/a/../b/./c'),
  'encoded dots': GET('/%2e%2e/%2E%2e/page'),
  'an encoded slash': GET('/a%2Fb%2fc'),
  'an encoded NUL': GET('/a%00b?c%00=%00'),
  'a bad escape': GET('/%ZZ/%/%C3?%ZZ=%&%=1'),
  'an encoded half of a character': GET('/%ED%A0%80?%ED%B0%80'),
  'bytes beyond ASCII in the path': GET('/caf\xe9/\xff\xfe?\xe9=\xff'),
  'a NUL in the path': GET('/a\0b'),
  'a space in the path': GET('/a b'),
  'a fragment': GET('/a#b?c'),
  'a backslash': GET('/\\evil.test\\page'),
  'a target of an absolute form': GET('http://evil.test/page?a=1'),
  'a target of an absolute form without a path': GET('http://evil.test?a=1'),
  'a target with another scheme': GET('file:///etc/passwd'),
  'a target with a user': GET('http://user:secret@evil.test/'),
  'a target of an authority form': GET('evil.test:443'),
  'a star': GET('*'),
  'no target': requestBytes('GET  HTTP/1.1', ['Host: a']),
  CONNECT: requestBytes('CONNECT evil.test:443 HTTP/1.1', ['Host: evil.test:443']),
  'OPTIONS of a star': requestBytes('OPTIONS * HTTP/1.1', ['Host: a']),
  'an unknown method': requestBytes('BREW /page HTTP/1.1', ['Host: a']),
  'a method in lower case': requestBytes('get /page HTTP/1.1', ['Host: a']),
  'HTTP/1.0 without a host': requestBytes('GET /page HTTP/1.0', []),
  'HTTP/1.1 without a host': requestBytes('GET /page HTTP/1.1', []),
  'HTTP/9.9': requestBytes('GET /page HTTP/9.9', ['Host: a']),
  'two hosts': requestBytes('GET /page HTTP/1.1', ['Host: shop.test', 'Host: evil.test']),
  'an empty host': requestBytes('GET /page HTTP/1.1', ['Host: ']),
  'a host that is none': requestBytes('GET /page HTTP/1.1', ['Host: a/b?c#d@e:f']),
  'a host of bytes': requestBytes('GET /page HTTP/1.1', ['Host: \xe9\xff[::1']),
  'a port that is none': requestBytes('GET /page HTTP/1.1', ['Host: shop.test:99999999999']),
  'ten thousand parameters': GET(`/page?${PARAMETERS.slice(0, 12_000)}`),
  'one name a thousand times': GET(`/page?${'a=1&'.repeat(1_000)}`),
  'brackets in brackets': GET(`/page?${'a[b][c]'.repeat(300)}=1&${'['.repeat(2_000)}`),
  'names that every object has': GET('/__proto__/constructor?__proto__=1&constructor=2&toString=3'),
  'parts of a prototype': GET('/page?__proto__[polluted]=1&constructor[prototype][polluted]=1'),
  'encoded parts of a prototype': GET('/page?__proto__%5Bpolluted%5D=1&__proto__.polluted=1'),
  'fields that every object has': GET(
    '/page',
    '__proto__: a',
    'constructor: b',
    'hasOwnProperty: c',
  ),
  'a field of many lines': GET('/page', ...Array.from({ length: 100 }, (_, i) => `X-Lang: ${i}`)),
  'a Vary’d field of bytes': GET('/page', 'X-Lang: \xff\xfe\t\x80'),
  'a Vary’d field that is empty': GET('/page', 'X-Lang: '),
  'a Vary’d field on two lines': GET('/page', 'X-Lang: a', 'X-Lang: b'),
  'a long field': GET('/page', `X-Lang: ${'a'.repeat(12_000)}`),
  'a field too long': GET('/page', `X-Lang: ${'a'.repeat(40_000)}`),
  'too many fields': GET('/page', ...Array.from({ length: 3_000 }, (_, i) => `X-${i}: 1`)),
  'a folded field': GET('/page', 'X-Lang: a', ' b'),
  'a field with a NUL': GET('/page', 'X-Lang: a\0b'),
  'a field with a lone CR': GET('/page', 'X-Lang: a\rb'),
  'a field without a colon': GET('/page', 'X-Lang'),
  'a field with a space in its name': GET('/page', 'X-Lang : a'),
  'a field without a name': GET('/page', ': a'),
  'conditions that are none': GET('/page', 'If-None-Match: ",,"W/', 'If-Modified-Since: never'),
  'a range that is none': GET('/page', 'Range: bytes=9-1,,-', 'If-Range: "'),
  'a range beyond all numbers': GET('/page', `Range: bytes=${'9'.repeat(400)}-`),
  'many ranges': GET('/page', `Range: bytes=${'0-0,'.repeat(2_000)}`),
  'directives that are none': GET(
    '/page',
    'Cache-Control: max-age="1, =,;"no-store',
    'Pragma: \xff',
  ),
  'encodings that are none': GET('/page', `Accept-Encoding: ${'gzip;q=0,'.repeat(500)};;q=2,*`),
  'a claimed host': GET('/page', 'X-Forwarded-Host: evil.test', 'X-Original-URL: /admin'),
  'a tag that is asked for': GET('/page', 'Surrogate-Key: x', 'Stampede-Cache-Control: no-store'),
  'a body that is told twice': requestBytes(
    'GET /page HTTP/1.1',
    ['Host: a', 'Content-Length: 5', 'Transfer-Encoding: chunked'],
    '0\r\n\r\n',
  ),
  'two lengths': requestBytes(
    'GET /page HTTP/1.1',
    ['Host: a', 'Content-Length: 1', 'Content-Length: 2'],
    'ab',
  ),
  'a negative length': requestBytes('GET /page HTTP/1.1', ['Host: a', 'Content-Length: -1']),
  'chunks that are none': requestBytes(
    'GET /page HTTP/1.1',
    ['Host: a', 'Transfer-Encoding: chunked'],
    'zz\r\n',
  ),
  'an upgrade to nothing': GET('/page', 'Upgrade: \xff', 'Connection: upgrade'),
  'no HTTP at all': latin1('\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n'),
  'random bytes': Buffer.from(Array.from({ length: 512 }, (_, i) => (i * 7919 + 13) % 256)),
}
