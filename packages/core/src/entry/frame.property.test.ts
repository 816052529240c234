import { validateHeaderName, validateHeaderValue } from 'node:http'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { reusableHeaders, toHeaders } from '../http/headers.ts'
import { forgeFrame, turnBit, withChecksum } from '../testing/frames.ts'
import { HOSTILE_PIECES, runs } from '../testing/hostile.ts'
import type { StoredEntry, StoredResponse } from './entry.ts'
import { decodeFrame, encodeFrame } from './frame.ts'

const RESPONSE: StoredResponse = {
  type: 'response',
  status: 200,
  fields: ['content-type', 'text/plain', 'etag', '"a"', 'x-a', 'é'],
  body: Buffer.from('hello'),
  provenance: { asOf: 7, tookMs: 12, subjects: ['t=a'], path: '/p', host: 'h:1' },
  initialAgeMs: 3_000,
  vary: [['accept', null]],
}
const FRAME = encodeFrame('k', RESPONSE)

/** Checks the rules that a decoded entry must follow, even if its frame is hostile. */
function expectSound(entry: StoredEntry | undefined): void {
  if (entry === undefined) return
  const { asOf, tookMs, subjects, path = '', host = '' } = entry.provenance
  for (const number of [asOf, tookMs]) {
    expect(number >= 0 && number <= Number.MAX_SAFE_INTEGER, String(number)).toBe(true)
  }
  for (const text of [...subjects, path, host]) expect(typeof text).toBe('string')
  if (entry.type === 'value') return
  expect(Number.isInteger(entry.status) && entry.status >= 200 && entry.status < 600).toBe(true)
  expect(String(Math.floor(entry.initialAgeMs / 1000))).toMatch(/^\d+$/)
  const headers = toHeaders(entry.fields)
  for (const [name, value] of headers) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  }
  for (const [name, value] of entry.vary) {
    validateHeaderName(name)
    if (value !== null) validateHeaderValue(name, value)
  }
  expect(reusableHeaders(headers)).toEqual(headers)
}

const text = fc
  .array(fc.constantFrom(...HOSTILE_PIECES, 'x-a', 'set-cookie', 'connection'), { maxLength: 3 })
  .map((pieces) => pieces.join(''))
const number = fc.oneof(
  fc.constantFrom('0', '1', '-0', '-1', '1e999', '-1e999', '1e308', '200', '304', '599', '1e2'),
  fc.constantFrom('9007199254740993', '200.5', '"200"', 'null', '[]', '{}', 'true'),
  fc.nat(700).map(String),
)
const pair = fc.tuple(fc.oneof(text, fc.constantFrom('x-b', 'te', 'upgrade')), fc.option(text))
const field = fc.oneof(
  number,
  fc.array(fc.oneof(text, pair)).map((list) => JSON.stringify(list)),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
  fc.array(pair).map((list) => JSON.stringify(Object.fromEntries(list))),
)
const SOUND = { p: '1', d: '1', t: '[]', s: '200', h: '[["x","y"]]', a: '0', v: '[]' }
const names = [...Object.keys(SOUND), 'u', 'o', 'm', 'w', '__proto__', 'constructor', 'extra']

/**
 * JSON text of a head. It is built as text, because JSON.stringify cannot write some numbers or a
 * name twice.
 */
const head = fc
  .tuple(fc.array(fc.tuple(fc.constantFrom(...names), field), { maxLength: 4 }), fc.boolean())
  .map(([changes, isWhole]) => {
    const members = [...(isWhole ? Object.entries(SOUND) : []), ...changes]
    return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
  })

describe('a planted frame', () => {
  it('is either valid or refused, with any head', () => {
    let read = 0
    fc.assert(
      fc.property(head, fc.constantFrom(1, 2, 3), (each, kind) => {
        const entry = decodeFrame('k', forgeFrame(each, { kind, body: '{"__proto__":{"a":1}}' }))
        if (entry !== undefined) read += 1
        expectSound(entry)
      }),
      runs(4_000),
    )
    // Some frames must be valid. Otherwise the test would check nothing.
    expect(read).toBeGreaterThan(100)
  })

  it('is either valid or refused after any change of its bytes', () => {
    for (let bit = 0; bit < FRAME.length * 8; bit++) {
      expect(decodeFrame('k', turnBit(FRAME, bit))).toBeUndefined()
      expectSound(decodeFrame('k', withChecksum(turnBit(FRAME, bit))))
    }
    const at = fc.nat(FRAME.length)
    fc.assert(
      fc.property(at, at, at, fc.uint8Array({ maxLength: 8 }), (from, to, where, bytes) => {
        const part = FRAME.subarray(Math.min(from, to), Math.max(from, to))
        const rest = FRAME.subarray(where)
        for (const parts of [
          [FRAME.subarray(0, where), part, rest],
          [FRAME.subarray(0, where), bytes, rest],
          [FRAME.subarray(0, from), FRAME.subarray(to)],
        ]) {
          expectSound(decodeFrame('k', withChecksum(Buffer.concat(parts))))
        }
      }),
      runs(2_000),
    )
  })

  it('is refused if it claims a greater length, and no memory is reserved for it', () => {
    const before = process.memoryUsage().arrayBuffers
    for (const at of [8, 12]) {
      for (const length of [0xff_ff_ff_ff, 0x7f_ff_ff_ff, 0x80_00_00_00, FRAME.length]) {
        const frame = Buffer.from(FRAME)
        frame.writeUInt32BE(length, at)
        expect(decodeFrame('k', withChecksum(frame))).toBeUndefined()
      }
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024)
  })
})
