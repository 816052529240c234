import { describe, expect, it } from 'vitest'
import { fencedUpdate } from './fencing.ts'

describe('fencedUpdate', () => {
  it('gives the parts of an UPDATE that a late holder cannot pass', () => {
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

  it('keeps every digit of a fence, also beyond what a number can', () => {
    expect(fencedUpdate(2n ** 63n - 1n).value).toBe('9223372036854775807')
  })

  it('refuses what is no fence: a run without a lease has undefined', () => {
    for (const fence of [undefined, 1, '1']) {
      expect(() => fencedUpdate(fence as never)).toThrow(
        expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
      )
    }
  })

  it('takes a plain column name only', () => {
    for (const column of ['', '1st', 'a b', 'a;b', 'a"', "a'--"]) {
      expect(() => fencedUpdate(1n, { column })).toThrow(
        `fencedUpdate.column: received ${JSON.stringify(column)}; use a plain column name`,
      )
    }
  })
})
