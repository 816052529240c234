import { describe, expect, it } from 'vitest'
import { type StoredEntry, UNKNOWN_PROVENANCE } from './entry.ts'
import { ownBytes, withOwnStrings } from './own-memory.ts'

describe('ownBytes', () => {
  it.each([1, 100, 3_000])('copies %d bytes out of a large buffer', (length) => {
    const socket = Buffer.alloc(65_536, 'x')
    const own = ownBytes(socket.subarray(5, 5 + length))
    expect(own.buffer.byteLength).toBe(length)
    expect(Buffer.from(own).equals(socket.subarray(5, 5 + length))).toBe(true)
  })

  it('does not copy bytes that are nearly all of their buffer', () => {
    const frame = Buffer.alloc(65_536)
    const body = frame.subarray(1_000)
    expect(ownBytes(body)).toBe(body)
    expect(ownBytes(frame)).toBe(frame)
  })
})

describe('ownString', () => {
  it('returns an equal string, character by character', () => {
    const provenance = {
      asOf: 5,
      tookMs: 1.5,
      subjects: ['t=√', 't=\ud800'],
      path: '/ü',
      host: 'h',
    }
    const response: StoredEntry = {
      type: 'response',
      status: 200,
      fields: ['etag', '"é"', 'x', ''],
      body: Buffer.from('b'),
      initialAgeMs: 7,
      vary: [['accept', null]],
      provenance,
    }
    const value: StoredEntry = {
      type: 'value',
      encoding: 'json',
      body: Buffer.from('1'),
      provenance,
      parsed: undefined,
    }
    for (const entry of [response, value, { ...response, provenance: UNKNOWN_PROVENANCE }]) {
      const own = withOwnStrings(entry, entry.provenance.tookMs)
      expect(own).toEqual(entry)
      expect(own.provenance).not.toBe(entry.provenance)
      expect(own.body).toBe(entry.body)
    }
  })
})
