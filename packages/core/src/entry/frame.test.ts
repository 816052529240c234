import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { reusableHeaders, toFields } from '../http/headers.ts'
import { forgeFrame, keyDigest } from '../testing/frames.ts'
import {
  type Provenance,
  type StoredEntry,
  type StoredResponse,
  UNKNOWN_PROVENANCE,
} from './entry.ts'
import { decodeFrame, encodeFrame } from './frame.ts'

const response: StoredResponse = {
  type: 'response',
  status: 200,
  fields: ['content-type', 'text/plain', 'x-a', 'é\t~', 'x-a', ''],
  body: Buffer.from('hello'),
  provenance: { asOf: 7, tookMs: 12, subjects: ['t=a'], path: '/p', host: 'h:1' },
  initialAgeMs: 3_000,
  vary: [
    ['accept', 'text/html'],
    ['origin', null],
  ],
}

const comparable = (entry: StoredEntry | undefined) =>
  entry && {
    ...entry,
    body: [...entry.body],
    fields: undefined,
    vary: undefined,
    parsed: undefined,
  }

const name = fc
  .stringMatching(/^[!#$%&'*+\-.^_`|~0-9a-z]+$/)
  .filter((each) => reusableHeaders([[each, '']]).length > 0)
const value = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]*$/)
const body = fc.uint8Array({ maxLength: 300 })
const anyMade: fc.Arbitrary<Provenance> = fc.oneof(
  fc.constant(UNKNOWN_PROVENANCE),
  fc.record(
    {
      asOf: fc.maxSafeNat(),
      tookMs: fc.nat(),
      subjects: fc.array(fc.string()),
      path: fc.string(),
      host: fc.string(),
    },
    { requiredKeys: ['asOf', 'tookMs', 'subjects', 'path'] },
  ),
)
const anyResponse: fc.Arbitrary<StoredResponse> = fc.record({
  type: fc.constant('response' as const),
  status: fc.integer({ min: 200, max: 599 }),
  fields: fc.array(fc.tuple(name, value)).map(reusableHeaders).map(toFields),
  body,
  provenance: anyMade,
  initialAgeMs: fc.nat(),
  vary: fc.array(fc.tuple(name, fc.option(value, { nil: null }))),
})
const anyEntry: fc.Arbitrary<StoredEntry> = fc.oneof(
  anyResponse,
  fc.record({
    type: fc.constant('value' as const),
    encoding: fc.constant('bytes' as const),
    body,
    provenance: anyMade,
  }),
  fc.record({
    type: fc.constant('value' as const),
    encoding: fc.constant('json' as const),
    body: fc.json().map((json) => Buffer.from(json)),
    provenance: anyMade,
  }),
)

/** A frame that is valid except perhaps for its head, which is this JSON. */
function frameOf(head: unknown): Buffer {
  return forgeFrame(typeof head === 'string' ? head : JSON.stringify(head), { body: '' })
}

const HEAD = { p: 0, d: 0, t: [], s: 200, h: [], a: 0, v: [] }

describe('a frame', () => {
  it('is parsed to what was written, with any content', () => {
    fc.assert(
      fc.property(anyEntry, (entry) => {
        const read = decodeFrame('k', encodeFrame('k', entry))
        expect(comparable(read)).toEqual(comparable(entry))
        if (entry.type !== 'response') return
        expect(read).toMatchObject({ fields: entry.fields, vary: entry.vary })
      }),
    )
  })

  it('has the layout of the current version', () => {
    const frame = encodeFrame('k', {
      type: 'value',
      encoding: 'json',
      body: Buffer.from('{}'),
      provenance: UNKNOWN_PROVENANCE,
    })
    // The first 8 bytes of the output of `printf k | sha256sum`.
    expect(keyDigest('k').toString('hex')).toBe('8254c329a92850f6')
    expect(frame.toString('hex')).toBe(
      `53038ea613d5020000000014000000028254c329a92850f6${Buffer.from('{"p":0,"d":0,"t":[]}{}').toString('hex')}`,
    )
    expect(frame).toEqual(forgeFrame('{"p":0,"d":0,"t":[]}', { kind: 2, body: '{}' }))
    expect(encodeFrame('k', response).subarray(24, 57).toString()).toBe(
      '{"p":7,"d":12,"t":["t=a"],"u":"/p',
    )
  })

  it.each(['json', 'string', 'stream'] as const)('contains the kind %s of its body', (kind) => {
    expect(decodeFrame('k', encodeFrame('k', { ...response, kind }))).toMatchObject({ kind })
    expect(decodeFrame('k', encodeFrame('k', response))).toMatchObject({ kind: undefined })
  })

  it.each(['J', '', 'json', 1, null, {}, ['j'], '__proto__'])(
    'has no body kind if the given kind is %j',
    (k) => {
      const read = decodeFrame('k', frameOf({ ...HEAD, k }))
      expect(read).toMatchObject({ status: 200, kind: undefined })
    },
  )

  it('contains the source of its ETag, and Stampede-Cache-Control', () => {
    const entry = { ...response, minted: true as const, own: 'max-age=60' }
    expect(decodeFrame('k', encodeFrame('k', entry))).toMatchObject({
      minted: true,
      own: 'max-age=60',
    })
    expect(decodeFrame('k', encodeFrame('k', response))).toMatchObject({
      minted: undefined,
      own: undefined,
    })
  })

  it('is not parsed if its end is missing, or if bytes were added', () => {
    const frame = encodeFrame('k', response)
    for (let length = 0; length < frame.length; length++) {
      expect(decodeFrame('k', frame.subarray(0, length)), `${length} bytes`).toBeUndefined()
    }
    expect(decodeFrame('k', Buffer.concat([frame, Buffer.alloc(1)]))).toBeUndefined()
  })

  it('is not parsed in another version, or with another magic or kind', () => {
    for (const [at, byte] of [
      [0, 0x52],
      [1, 0],
      [1, 1],
      [1, 2],
      [1, 4],
    ] as const) {
      const frame = encodeFrame('k', response)
      frame[at] = byte
      expect(decodeFrame('k', frame), `byte ${at} = ${byte}`).toBeUndefined()
    }
    for (const kind of [0, 4, 5, 6, 255]) {
      expect(
        decodeFrame('k', forgeFrame(JSON.stringify(HEAD), { kind })),
        `${kind}`,
      ).toBeUndefined()
    }
  })

  it.each([
    ...['content-length', 'transfer-encoding', 'connection', 'age', 'set-cookie', 'te'],
    ...['authorization', 'authentication-info', 'x-auth-token', 'x-csrf-token', 'clear-site-data'],
  ])('is not parsed with %s, which is never stored and must come from another writer', (field) => {
    expect(decodeFrame('k', frameOf({ ...HEAD, h: [['x-a', '1']] }))).toBeDefined()
    expect(
      decodeFrame(
        'k',
        frameOf({
          ...HEAD,
          h: [
            ['x-a', '1'],
            [field, '1'],
          ],
        }),
      ),
    ).toBeUndefined()
  })

  it.each([
    'no json',
    '',
    null,
    5,
    [],
    'null',
    '"s"',
    { ...HEAD, s: 199 },
    { ...HEAD, s: 600 },
    { ...HEAD, s: 200.5 },
    { ...HEAD, s: '200' },
    { ...HEAD, a: -1 },
    { ...HEAD, a: null },
    { ...HEAD, h: undefined },
    { ...HEAD, h: {} },
    { ...HEAD, h: ['ab'] },
    { ...HEAD, h: [['a']] },
    { ...HEAD, h: [['a', 'b', 'c']] },
    { ...HEAD, h: [['a', 5]] },
    { ...HEAD, h: [['a', null]] },
    { ...HEAD, h: [['', 'b']] },
    { ...HEAD, h: [['A', 'b']] },
    { ...HEAD, h: [['a b', 'c']] },
    { ...HEAD, h: [['a:', 'c']] },
    { ...HEAD, h: [['a\r\n', 'c']] },
    { ...HEAD, h: [['a', 'b\r\nset-cookie: c']] },
    { ...HEAD, h: [['a', 'b\nc']] },
    { ...HEAD, h: [['a', 'b\rc']] },
    { ...HEAD, h: [['a', 'b\0']] },
    { ...HEAD, h: [['a', '\x7f']] },
    { ...HEAD, h: [['a', '☃']] },
    { ...HEAD, h: [['a', '\ud800']] },
    { ...HEAD, v: undefined },
    { ...HEAD, v: [['accept', 5]] },
    { ...HEAD, v: [['accept', 'a\r\nb']] },
    { ...HEAD, m: true },
    { ...HEAD, w: 5 },
    { ...HEAD, w: 'max-age=1\r\n' },
  ])('is not parsed with the head %j', (head) => {
    expect(decodeFrame('k', frameOf(head))).toBeUndefined()
  })

  it('is parsed with the smallest valid head', () => {
    expect(decodeFrame('k', frameOf(HEAD))).toMatchObject({ status: 200, fields: [], vary: [] })
  })

  it('keeps no large read buffer in memory for a small body', () => {
    const frame = encodeFrame('k', response)
    const socket = Buffer.alloc(64 * 1024)
    frame.copy(socket, 1_000)
    const read = decodeFrame('k', socket.subarray(1_000, 1_000 + frame.length))
    expect(read?.body.buffer.byteLength).toBe(5)
    socket.fill(0)
    expect(String(read?.body)).toBe('hello')
  })

  it('is parsed from any kind of byte view', () => {
    const frame = encodeFrame('k', response)
    const plain = new Uint8Array(frame.length + 3)
    plain.set(frame, 3)
    expect(comparable(decodeFrame('k', plain.subarray(3)))).toEqual(comparable(response))
  })
})
