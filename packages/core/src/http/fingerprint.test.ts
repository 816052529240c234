import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { KeyedHash } from '../idempotency/keyed-hash.ts'
import type { RequestBody, RequestView } from '../ports/exchange.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import { isLinear } from '../testing/cpu-time.ts'
import { repeated } from '../testing/hostile.ts'
import { type FingerprintMode, fingerprint, fingerprintOfValue } from './fingerprint.ts'

const names = new KeyedHash('a secret of some length, for tests')
const JSON_TYPE = 'application/json'
const FORM_TYPE = 'application/x-www-form-urlencoded'
const NONE: RequestBody = { type: 'none' }

interface Sent {
  readonly method?: string
  readonly target?: string
  readonly type?: string
  readonly coding?: string
  readonly body?: RequestBody
}

const bytes = (content: string | Uint8Array): RequestBody => ({
  type: 'bytes',
  bytes: Buffer.from(content),
})
const parsed = (value: unknown): RequestBody => ({ type: 'parsed', value })

function requestOf({ method = 'POST', target = '/orders', type, coding }: Sent): RequestView {
  const headers = { 'content-type': type, 'content-encoding': coding }
  return { method, target, scheme: 'http', host: 'shop.test', headers }
}

function of(sent: Sent, mode: FingerprintMode = 'canonical'): Fingerprints {
  const prints = fingerprint(names, requestOf(sent), sent.body ?? NONE, mode)
  if (typeof prints === 'string') throw new Error(prints)
  return prints
}

/** Compares fingerprints in the same way as the stores. */
function same(a: Sent, b: Sent, mode: FingerprintMode = 'canonical'): boolean {
  const [left, right] = [of(a, mode), of(b, mode)]
  const exact = left.exact !== '' && left.exact === right.exact
  return exact || (left.canonical !== '' && left.canonical === right.canonical)
}

const json = (content: string | Uint8Array): Sent => ({ type: JSON_TYPE, body: bytes(content) })
const form = (content: string): Sent => ({ type: FORM_TYPE, body: bytes(content) })

describe('method, target and media type', () => {
  it.each<[Sent, Sent]>([
    [{ target: '/orders?a=1&b=2' }, { target: '/orders?b=2&a=1' }],
    [{ target: '/orders?a=1&b=2&a=3' }, { target: '/orders?b=2&a=1&a=3' }],
    [{ target: '/orders?%61=1&b=2' }, { target: '/orders?b=2&%61=1' }],
  ])('have equal fingerprints: %j, %j', (a, b) => {
    expect(same(a, b)).toBe(true)
    expect(same(a, b, 'bytes')).toBe(true)
  })

  it.each<[Sent, Sent]>([
    [{ method: 'POST' }, { method: 'PATCH' }],
    [{ target: '/orders' }, { target: '/orders/' }],
    [{ target: '/orders' }, { target: '/Orders' }],
    [{ target: '/orders' }, { target: '/orders?' }],
    [{ target: '/orders?a=1' }, { target: '/orders?a=2' }],
    [{ target: '/orders?a=1&a=2' }, { target: '/orders?a=2&a=1' }],
    [{ target: '/orders?a=1&%61=2' }, { target: '/orders?%61=2&a=1' }],
    [{ target: '/orders?a[]=1&a=2' }, { target: '/orders?a=2&a[]=1' }],
    [{ target: '/orders?a%5B%5D=1&a=2' }, { target: '/orders?a=2&a%5B%5D=1' }],
    [{ target: '/orders?a=1+2' }, { target: '/orders?a=1%202' }],
    [{ target: '/orders?a=1;b=2&c=3' }, { target: '/orders?c=3&a=1;b=2' }],
    [{ target: '/orders?%ff=1&a=2' }, { target: '/orders?a=2&%ff=1' }],
    [{ target: `/orders?z&${'a&'.repeat(1_000)}` }, { target: `/orders?${'a&'.repeat(1_000)}z` }],
    [
      { type: 'text/plain', body: bytes('a') },
      { type: JSON_TYPE, body: bytes('a') },
    ],
    [{ type: 'text/plain' }, {}],
    [{ type: '' }, {}],
    [{ coding: '' }, {}],
    [
      { method: 'POSTx', target: '/' },
      { method: 'POST', target: 'x/' },
    ],
  ])('have different fingerprints: %j, %j', (a, b) => {
    expect(same(a, b)).toBe(false)
    expect(same(a, b, 'bytes')).toBe(false)
  })

  it('ignore the letter case and the parameters of the media type', () => {
    const body = bytes('{"a":1}')
    expect(same({ type: 'Application/JSON; charset=utf-8', body }, { type: JSON_TYPE, body })).toBe(
      true,
    )
  })

  it('have the same fingerprint in every version, unless VERSION is raised', () => {
    const sent = { ...json('{"b":1.0,"a":"\u00e9"}'), target: '/orders?b=1&a=2' }
    expect([of(sent), fingerprintOfValue(names, requestOf(sent), ['a'])]).toMatchInlineSnapshot(`
      [
        {
          "canonical": "SAEr17CAO0jJSMFCXxztorpr9lTVeAclcZRaPUSIWe0",
          "exact": "9gJLVr1c25UxPn5DUDpengVlqscO8J2JUNiWZ_-IlFU",
        },
        {
          "canonical": "AT1E9Wti_hCmIX6sIil5iSH2HF02fVmPAg_Ykf8Bvbc",
          "exact": "",
        },
      ]
    `)
  })

  it('have a fingerprint that depends on the secret in every part', () => {
    expect(fingerprint(new KeyedHash('another'), requestOf({}), NONE, 'canonical')).not.toEqual(
      of({}),
    )
  })
})

describe('request bodies as sent', () => {
  it.each<[string, Sent, Sent]>([
    ['order, space, numbers', json('{"a":1,"b":[2.0]}'), json(' {"b":[2],\n"a":1e0}')],
    ['escapes', json('{"\\u0061":"\\/"}'), json('{"a":"/"}')],
    ['a repeated name', json('{"a":1,"a":2}'), json('{"a":2}')],
    [
      'long digits in text',
      json('{"card": "4111111111111111"}'),
      json('{"card":"4111111111111111"}'),
    ],
    ['a byte order mark', json('\ufeff{"a":1}'), json('{"a":1}')],
    [
      '+json',
      { ...json('[1]'), type: 'application/x+json' },
      { ...json('[1.0]'), type: 'Application/X+JSON' },
    ],
    ['a charset', { ...json('[1]'), type: `${JSON_TYPE};charset="UTF-8"` }, json('[1.0]')],
    ['identity', { ...json('[1]'), coding: 'identity' }, { ...json('[1.0]'), coding: 'Identity' }],
    ['form fields', form('a=1&b=2&a=3'), form('b=2&a=1&a=3')],
    ['form fields beyond ASCII', form('\u00e9=1&b=2'), form('b=2&\u00e9=1')],
  ])('have equal fingerprints for any %s', (_, a, b) => {
    expect(same(a, b)).toBe(true)
    expect(same(a, b, 'bytes')).toBe(false)
    expect(same(a, a, 'bytes')).toBe(true)
  })

  it.each<[string, Sent, Sent]>([
    ['different amounts', json('{"a":9007199254740992}'), json('{"a":9007199254740993}')],
    ['numbers beyond a double', json('{"a":1e400}'), json('{"a":1e401}')],
    ['lists', json('[1,2]'), json('[2,1]')],
    ['kinds', json('"1"'), json('1')],
    ['no body and an empty one', { type: JSON_TYPE }, json('')],
    ['two bodies that are no JSON', json('{"a":1'), json('{"a": 1')],
    ['bad UTF-8', json(Buffer.from([0x22, 0xff, 0x22])), json(Buffer.from([0x22, 0xfe, 0x22]))],
    ['bad UTF-8 and its replacement', json(Buffer.from([0x22, 0xff, 0x22])), json('"\ufffd"')],
    ['codings', { ...json('[1]'), coding: 'gzip' }, json('[1]')],
    ['field values', form('a=1'), form('a=2')],
    ['field order in a list', form('a=1&a=2'), form('a=2&a=1')],
    ['text', { type: 'text/plain', body: bytes('a') }, { type: 'text/plain', body: bytes('a ') }],
    ['a body without a type', { body: bytes('[1]') }, { body: bytes('[1.0]') }],
    ['UTF-16', { ...json('[1]'), type: `${JSON_TYPE};charset=utf-16` }, json('[1.0]')],
    [
      'two charsets',
      { ...json('[1]'), type: `${JSON_TYPE};charset=utf-8;charset=x` },
      json('[1.0]'),
    ],
  ])('have different fingerprints for %s', (_, a, b) => {
    expect(same(a, b)).toBe(false)
    expect(same(a, a)).toBe(true)
    expect(same(a, b, 'bytes')).toBe(false)
  })

  it.each<[string, Sent, [exact: boolean, canonical: boolean]]>([
    ['none', {}, [true, true]],
    ['JSON', json('{}'), [true, true]],
    ['no JSON', json('{'), [true, false]],
    ['nested too deep', json('['.repeat(600) + ']'.repeat(600)), [true, false]],
    ['packed', { ...json(gzipSync('{}')), coding: 'gzip' }, [true, false]],
    ['text', { type: 'text/plain', body: bytes('{}') }, [true, false]],
    ['a form', form('a=1'), [true, true]],
    ['parsed', { type: JSON_TYPE, body: parsed({}) }, [false, true]],
  ])('have or lack an exact and a canonical fingerprint: %s', (_, sent, [exact, canonical]) => {
    const prints = of(sent)
    expect([prints.exact !== '', prints.canonical !== '']).toEqual([exact, canonical])
    expect(prints.exact).not.toBe(prints.canonical)
    expect(of(sent, 'bytes').canonical).toBe('')
    expect(of(sent, 'bytes').exact).not.toBe('')
  })
})

describe('multipart/form-data', () => {
  const type = (boundary: string): string => `multipart/form-data; boundary=${boundary}`
  const content = (boundary: string, parts: readonly string[], end = '\r\n'): string =>
    [...parts.map((part) => `--${boundary}\r\n${part}\r\n`), `--${boundary}--${end}`].join('')
  const PARTS = [
    'Content-Disposition: form-data; name="a"\r\n\r\n1',
    'Content-Disposition: form-data; name="f"; filename="x"\r\n\r\n\r\n--no\r\n-- \0',
  ]
  const sent = (boundary: string, body: string, field = type(boundary)): Sent => ({
    type: field,
    body: bytes(body),
  })
  const whole = (boundary: string, parts: readonly string[] = PARTS): Sent =>
    sent(boundary, content(boundary, parts))

  it('has the same fingerprint with a new boundary', () => {
    expect(same(whole('----WebKitFormBoundaryA'), whole('----WebKitFormBoundaryB'))).toBe(true)
    expect(same(whole('A'), sent('A b', content('A b', PARTS), type('"A b"')))).toBe(true)
    expect(same(whole('A'), sent('B', content('B', PARTS, '')))).toBe(true)
    expect(same(whole('A', []), whole('B', []))).toBe(true)
    expect(same(whole('A'), whole('B'), 'bytes')).toBe(false)
  })

  it.each<[string, Sent]>([
    ['other content', whole('B', [PARTS[0] as string, `${PARTS[1]}!`])],
    ['another order', whole('B', [...PARTS].reverse())],
    ['a part more', whole('B', [...PARTS, ''])],
    ['parts in one', whole('B', [PARTS.join('\r\n')])],
    ['a preamble', sent('B', `x\r\n${content('B', PARTS)}`)],
    ['an epilogue', sent('B', content('B', PARTS, '\r\nx'))],
    ['no end', sent('B', content('B', PARTS).slice(0, -6))],
    ['no boundary', sent('B', content('B', PARTS), 'multipart/form-data')],
    ['an empty boundary', sent('', content('', PARTS), type('""'))],
    ['two boundaries', sent('B', content('B', PARTS), `${type('B')}; boundary=C`)],
    ['another boundary than it says', sent('B', content('C', PARTS))],
    [
      'a line that begins with the boundary',
      whole('B', [PARTS[0] as string, `${PARTS[1]}\r\n--Bx`]),
    ],
    ['another subtype', sent('B', content('B', PARTS), 'multipart/mixed; boundary=B')],
  ])('has another fingerprint with %s', (_, other) => {
    expect(same(whole('A'), other)).toBe(false)
    expect(same(other, other)).toBe(true)
  })

  it('has the same fingerprint with a boundary of 70 characters, not with a longer one', () => {
    const [long, longer] = ['b'.repeat(70), 'b'.repeat(71)]
    expect(same(whole(long), whole('A'))).toBe(true)
    expect(same(whole(longer), whole('A'))).toBe(false)
    expect(same(whole(longer), whole(longer))).toBe(true)
    expect(same(whole(longer), whole(longer, ['other']))).toBe(false)
  })

  it.each([1, 70, 71, 300, 2_000, 15_000])(
    'takes linear time with a boundary of %d characters',
    (length) => {
      const bodies: ReadonlyArray<(boundary: string, size: number) => string> = [
        (boundary, size) => repeated(`\r\n--${boundary.slice(0, -1)}`, size),
        (boundary, size) => repeated(`\r\n--${boundary.slice(0, -1)}!`, size),
        (_, size) => repeated('\r\n--', size),
        (boundary, size) => repeated(boundary, size),
        (_, size) => repeated('\r\n', size),
        (boundary, size) => repeated(`--${boundary}\r\n`, size),
      ]
      const most = 2 ** 18
      for (const alphabet of ['A', 'ab-'])
        for (const [index, bodyOf] of bodies.entries()) {
          // The boundary grows with the body, because the time may depend on their product.
          const inputOf = (size: number): Sent => {
            const boundary = repeated(alphabet, Math.ceil((length * size) / most))
            return sent(boundary, `--${boundary}\r\n${bodyOf(boundary, size)}`)
          }
          expect(isLinear(inputOf, of, most), `${alphabet} ${index}`).toBe(true)
        }
    },
  )
})

describe('request bodies that a parser has read', () => {
  const value = { b: [1.5, 'é', null, { '': true }], a: 'x/y' }
  const sent = (body: unknown, type = JSON_TYPE): Sent => ({ type, body: parsed(body) })

  it.each([
    ['{"b":[1.50,"\\u00e9",null,{"":true}],"a":"x\\/y"}'],
    ['[]'],
    ['"text"'],
    ['-0'],
    ['0.1'],
    ['1e21'],
    ['123456789.125e-3'],
    ['{"__proto__":{"a":1},"10":1,"2":2}'],
  ])('have the same canonical fingerprint as their original bytes: %s', (text) => {
    expect(of(sent(JSON.parse(text))).canonical).toBe(of(json(text)).canonical)
    expect(same(sent(JSON.parse(text)), json(text))).toBe(true)
  })

  it('are compared by their JSON even if the fingerprint is of bytes', () => {
    expect(same(sent(value), sent({ ...value }), 'bytes')).toBe(true)
    expect(same(sent({ a: 1, b: 2 }), sent({ b: 2, a: 1 }), 'bytes')).toBe(false)
    expect(same(sent({ a: 1, b: 2 }), sent({ b: 2, a: 1 }))).toBe(true)
  })

  it.each<[string, unknown, string]>([
    ['bytes', Buffer.from('[1]'), JSON_TYPE],
    ['text', 'a body', 'text/plain'],
    ['a form as text', 'a=1&b=2', FORM_TYPE],
  ])('have the fingerprint of their original bytes if they are %s', (_, body, type) => {
    const raw: Sent = { type, body: bytes(body as string) }
    for (const mode of ['canonical', 'bytes'] as const) {
      expect(of(sent(body, type), mode)).toEqual(of(raw, mode))
    }
  })

  it('have another fingerprint as a JSON string than as text', () => {
    expect(same(sent('{"a":1}'), json('"{\\"a\\":1}"'))).toBe(true)
    expect(same(sent('{"a":1}'), sent({ a: 1 }))).toBe(false)
    expect(same(sent('\ud800'), sent('\ufffd'))).toBe(false)
  })

  it('are compared by their JSON text if it is too deep for canonical JSON', () => {
    const nested = (depth: number, value: string) =>
      JSON.parse('['.repeat(depth) + value + ']'.repeat(depth))
    expect(of(sent(nested(600, '1'))).canonical).toBe('')
    expect(same(sent(nested(600, '1')), sent(nested(600, '1')))).toBe(true)
    expect(same(sent(nested(600, '1')), sent(nested(600, '2')))).toBe(false)
  })
})

describe('request bodies without a known form', () => {
  const told = (body: RequestBody, mode: FingerprintMode) =>
    fingerprint(names, requestOf({ type: JSON_TYPE }), body, mode)
  const cycle: unknown[] = []
  cycle.push(cycle)

  it.each<[string, RequestBody, string]>([
    ['too large', { type: 'too-large' }, 'too-large'],
    ['unseen', { type: 'unseen' }, 'unseen'],
    ['undefined', parsed(undefined), 'unseen'],
    ['a cycle', parsed(cycle), 'unseen'],
    ['a bigint', parsed({ a: 1n }), 'unseen'],
    ['a map', parsed(new Map([['a', 1]])), 'unseen'],
    ['nested too deep', parsed(JSON.parse('['.repeat(100_000) + ']'.repeat(100_000))), 'too-large'],
  ])('have no fingerprint: %s', (_, body, expected) => {
    expect(told(body, 'canonical')).toBe(expected)
    expect(told(body, 'bytes')).toBe(expected)
  })
})

describe('fingerprintOfValue', () => {
  const custom = (sent: Sent, value: unknown) => fingerprintOfValue(names, requestOf(sent), value)

  it('uses the value, method and path', () => {
    const prints = custom({}, { order: 1, to: 'a' })
    expect(prints).toEqual({ exact: '', canonical: expect.stringMatching(/^[\w-]{43}$/) })
    expect(custom({ target: '/orders?x=1', type: JSON_TYPE }, { to: 'a', order: 1 })).toEqual(
      prints,
    )
    expect(custom({}, { order: 2, to: 'a' })).not.toEqual(prints)
    expect(custom({ method: 'PUT' }, { order: 1, to: 'a' })).not.toEqual(prints)
    expect(custom({ target: '/other' }, { order: 1, to: 'a' })).not.toEqual(prints)
  })

  it('never equals a fingerprint of the body', () => {
    const value = { a: 1 }
    expect(custom({}, value)?.canonical).not.toBe(of({ body: parsed(value) }).canonical)
  })

  it.each([[undefined], [1n], [Promise.resolve('a')], [() => 'a']])(
    'is undefined for %o',
    (value) => {
      expect(custom({}, value)).toBeUndefined()
    },
  )
})
