import { describe, expect, it } from 'vitest'
import { fencedUpdate } from './fencing.ts'

describe('fencedUpdate', () => {
  it('returns the SQL parts of an UPDATE that rejects an expired holder', () => {
    expect(fencedUpdate(1_700_000_000_000_001n)).toEqual({
      set: 'last_fence = $1',
      where: 'last_fence <= $1',
      value: '1700000000000001',
    })
    expect(fencedUpdate(1n, { column: 'jobs.fence', placeholder: '?' })).toEqual({
      set: 'jobs.fence = ?',
      where: 'jobs.fence <= ?',
      value: '1',
    })
  })

  it('keeps every digit of a fence, even beyond the precision of a number', () => {
    expect(fencedUpdate(2n ** 63n - 1n).value).toBe('9223372036854775807')
  })

  it('rejects a value that is not a fence, such as undefined', () => {
    for (const fence of [undefined, 1, '1']) {
      expect(() => fencedUpdate(fence as never)).toThrow(
        expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
      )
    }
  })

  it('accepts only a plain column name', () => {
    for (const column of ['', '1st', 'a b', 'a;b', 'a"', "a'--"]) {
      expect(() => fencedUpdate(1n, { column })).toThrow(
        `fencedUpdate.column: received ${JSON.stringify(column)}; use a plain column name`,
      )
    }
  })
})
