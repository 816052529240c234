import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { encodeFrame } from '../entry/frame.ts'
import { CREDENTIAL_FIELDS } from '../http/headers.ts'
import type { HeaderList } from '../ports/exchange.ts'
import { turnBit } from '../testing/frames.ts'
import {
  decodeKept,
  encodeKept,
  type Kept,
  keptWithoutBody,
  replayableHeaders,
} from './kept-response.ts'

const response = (over: Partial<Kept & { type: 'response' }> = {}): Kept => ({
  type: 'response',
  status: 201,
  headers: [
    ['location', '/orders/1'],
    ['link', '</a>'],
    ['link', '</b>'],
    ['x-latin1', 'caf\u00e9'],
  ],
  body: Buffer.from([0, 255, 13, 10]),
  ...over,
})

/** A result with its body as a plain array, so that the class of the body does not matter. */
function plain(kept: Kept | undefined): unknown {
  if (kept?.type === 'response') return { ...kept, body: kept.body && [...kept.body] }
  if (kept?.type === 'value') return [kept.stored.encoding, [...kept.stored.body]]
  return kept
}

const returned = (kept: Kept): unknown => plain(decodeKept('k', encodeKept('k', kept)))
const withoutBody = (location: unknown): Uint8Array =>
  encodeKept('k', keptWithoutBody({ headers: [['location', location as string]] }))

describe('a stored result', () => {
  it.each<[string, Kept]>([
    ['a response', response()],
    ['an empty response', response({ status: 204, headers: [], body: new Uint8Array() })],
    ['a refusal', response({ status: 422 })],
    [
      'a response not retained',
      keptWithoutBody({ status: 201, headers: [['location', '/orders/1']] }),
    ],
    ['one without location', keptWithoutBody()],
    [
      'JSON',
      {
        type: 'value',
        stored: {
          type: 'value',
          encoding: 'json',
          body: Buffer.from('{"a":1}'),
          provenance: UNKNOWN_PROVENANCE,
        },
      },
    ],
    [
      'bytes',
      {
        type: 'value',
        stored: {
          type: 'value',
          encoding: 'bytes',
          body: Buffer.from([0, 1]),
          provenance: UNKNOWN_PROVENANCE,
        },
      },
    ],
  ])('is equal after it was written and parsed: %s', (_, kept) => {
    expect(returned(kept)).toEqual(plain(kept))
  })

  it('contains the parsed value of a job', () => {
    const body = Buffer.from('{"a":[1]}')
    const kept = decodeKept(
      'k',
      encodeKept('k', {
        type: 'value',
        stored: { type: 'value', encoding: 'json', body, provenance: UNKNOWN_PROVENANCE },
      }),
    )
    expect(kept?.type === 'value' && kept.stored.parsed?.deref()).toEqual({ value: { a: [1] } })
  })

  it.each([...CREDENTIAL_FIELDS])('can be parsed if the handler has set %s', (name) => {
    const headers = replayableHeaders([
      ['x-order', '1'],
      [name, 'secret'],
    ])
    expect(returned(response({ headers }))).toEqual(
      plain(response({ headers: [['x-order', '1']] })),
    )
  })

  it('is equal after parsing, with any status, headers and body', () => {
    const name = fc.string({ unit: fc.constantFrom(...'abc-1'), minLength: 1 })
    const value = fc.string({ unit: fc.constantFrom(...'a \t\u00e9"') })
    const headers = fc.array(fc.tuple(name, value))
    const returns = fc.property(
      fc.integer({ min: 200, max: 599 }),
      headers,
      fc.uint8Array(),
      (status, ...rest) => {
        const kept = response({ status, headers: rest[0], body: rest[1] })
        expect(returned(kept)).toEqual(plain(kept))
      },
    )
    fc.assert(returns, { seed: 7 })
  })
})

describe('a result from a store', () => {
  const frame = (status: number, headers: unknown): Uint8Array =>
    encodeKept('k', response({ status, headers: headers as HeaderList }))

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['an unknown kind', Buffer.from([3, 1, 2])],
    ['a kind alone', Buffer.from([1])],
    [
      'a bare frame',
      encodeFrame('k', {
        type: 'value',
        encoding: 'bytes',
        body: Buffer.from('a'),
        provenance: UNKNOWN_PROVENANCE,
      }),
    ],
    ['an invalid status', frame(99, [])],
    ['a header with two lines', frame(200, [['x-a', 'b\r\nset-cookie: c']])],
    ['an invalid name', frame(200, [['X A', 'b']])],
    ['invalid headers', encodeKept('k', response()).map((byte) => (byte === 0x68 ? 0x69 : byte))],
    ['the kind of an earlier layout', encodeKept('k', keptWithoutBody()).fill(2, 0, 1)],
    ['a location of two lines', withoutBody('/\r\nx: y')],
    ['a location that is no text', withoutBody(null)],
  ])('is refused if it is %s', (_, bytes) => {
    expect(decodeKept('k', bytes)).toBeUndefined()
  })

  it('is refused under another record name', () => {
    const lost = keptWithoutBody({ status: 201, headers: [['location', '/a']] })
    for (const kept of [response(), lost]) {
      expect(decodeKept('other', encodeKept('k', kept))).toBeUndefined()
    }
  })

  it('is refused if it is cut off or changed anywhere', () => {
    const frames = [
      encodeKept('k', response()),
      encodeKept('k', keptWithoutBody({ status: 201, headers: [['location', '/a']] })),
      encodeKept('k', {
        type: 'value',
        stored: {
          type: 'value',
          encoding: 'json',
          body: Buffer.from('[1]'),
          provenance: UNKNOWN_PROVENANCE,
        },
      }),
    ]
    for (const whole of frames) {
      for (let at = 0; at < whole.length; at++) {
        expect(decodeKept('k', whole.subarray(0, at))).toBeUndefined()
      }
      for (let bit = 0; bit < whole.length * 8; bit++) {
        expect(decodeKept('k', turnBit(whole, bit)), `bit ${bit}`).toBeUndefined()
      }
    }
    const any = fc.property(fc.uint8Array(), fc.constantFrom(1, 4), (rest, kind) => {
      decodeKept('k', Uint8Array.from([kind, ...rest]))
      decodeKept('k', rest)
    })
    fc.assert(any, { seed: 7, numRuns: 1_000 })
  })
})
