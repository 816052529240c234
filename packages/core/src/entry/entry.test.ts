import { describe, expect, it } from 'vitest'
import { LONGEST_MS } from '../options.ts'
import {
  endOfEntry,
  heldEntry,
  isSpent,
  mayServeOnError,
  onlyForErrors,
  ownBytes,
  remaining,
  type StoredEntry,
  staleFrom,
  UNKNOWN_PROVENANCE,
  withJitter,
  withOwnStrings,
} from './entry.ts'

const value: StoredEntry = {
  ...{ type: 'value', encoding: 'json', body: Buffer.from('1') },
  provenance: UNKNOWN_PROVENANCE,
}
/** An entry that is fresh for 100 ms. */
const hold = (staleWhileRevalidateMs: number, staleIfErrorMs: number, keepMs: number) =>
  heldEntry(value, '1', 100, { staleWhileRevalidateMs, staleIfErrorMs, keepMs }, 0)

describe('an entry', () => {
  it('is refreshed, replaces errors and is revalidated for its windows after its freshness', () => {
    const held = hold(50, 100, 200)
    expect(held).toMatchObject({ bornAt: 0, staleAt: 100, revalidateUntil: 150 })
    expect([199, 200].map((now) => mayServeOnError(held, now))).toEqual([true, false])
    expect(endOfEntry(held)).toBe(300)
  })

  it('replaces errors as long as it may be served during a refresh', () => {
    expect([149, 150].map((now) => mayServeOnError(hold(50, 0, 0), now))).toEqual([true, false])
  })

  it('begins its windows earlier if its freshness ends earlier', () => {
    const held = staleFrom(hold(50, 100, 200), 40)
    expect(held).toMatchObject({ staleAt: 40, revalidateUntil: 90 })
    expect([mayServeOnError(held, 139), endOfEntry(held)]).toEqual([true, 240])
    expect(staleFrom(held, 60)).toBe(held)
  })

  it('only replaces errors after onlyForErrors(), for its longer window', () => {
    const held = onlyForErrors(hold(80, 30, 0), 40)
    expect(held).toMatchObject({ staleAt: 40, revalidateUntil: 40 })
    expect([119, 120].map((now) => mayServeOnError(held, now))).toEqual([true, false])
  })
})

import fc from 'fast-check'

const windows = { staleWhileRevalidateMs: 2_000, staleIfErrorMs: 5_000, keepMs: 0 }

describe('the lifetimes of an entry', () => {
  it('are shortened by at most the jitter, and end in the store that much later', () => {
    expect(withJitter(10_000, windows, 0.1, () => 1)).toEqual({
      ...windows,
      freshMs: 9_000,
      physicalMs: 9_000 + 5_000 + 1_000 + 1_000,
    })
  })

  it('use one random number for the freshness and one for the store', () => {
    const numbers = [0.5, 0]
    const next = () => numbers.shift() ?? Number.NaN
    const { freshMs, physicalMs } = withJitter(10_000, windows, 0.2, next)
    expect([freshMs, physicalMs]).toEqual([9_000, 15_000])
    expect(numbers).toEqual([])
  })

  it('are whole numbers, never longer than decided, and end before the store drops the record', () => {
    const ms = fc.nat(LONGEST_MS)
    const unit = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(
        ms,
        ms,
        ms,
        fc.double({ min: 0, max: 0.5, noNaN: true }),
        unit,
        unit,
        (fresh, swr, sie, jitter, first, second) => {
          const numbers = [first, second]
          const decided = { staleWhileRevalidateMs: swr, staleIfErrorMs: sie, keepMs: 0 }
          const lives = withJitter(fresh + 1, decided, jitter, () => numbers.shift() ?? 0)
          expect(Object.values(lives).every(Number.isSafeInteger)).toBe(true)
          expect(lives.freshMs).toBeGreaterThan(0)
          expect(lives.freshMs).toBeLessThanOrEqual(fresh + 1)
          expect(lives.physicalMs).toBeGreaterThan(lives.freshMs + Math.max(swr, sie))
          expect(lives).toMatchObject(decided)
        },
      ),
    )
  })
})

describe('remaining()', () => {
  const lifetimes = { ...windows, freshMs: 10_000, keepMs: 1_000, physicalMs: 16_000 }

  it('subtracts past time from the freshness first', () => {
    expect(remaining(lifetimes, 4_000)).toEqual({
      ...lifetimes,
      freshMs: 6_000,
      physicalMs: 12_000,
    })
  })

  it('subtracts the rest from every window after the freshness', () => {
    expect(remaining(lifetimes, 11_500)).toEqual({
      freshMs: 0,
      staleWhileRevalidateMs: 500,
      staleIfErrorMs: 3_500,
      keepMs: 0,
      physicalMs: 4_500,
    })
  })

  it.each([
    [14_999, false],
    [15_000, true],
  ])('returns nothing when the longest window is over: after %i ms', (elapsedMs, spent) => {
    expect(isSpent(remaining(lifetimes, elapsedMs))).toBe(spent)
  })
})

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
