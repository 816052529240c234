// Tests of the digests of requests that were served stale.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { begin, end, setUp } from '../testing/resolve-bench.ts'
import { mayLeadInstead } from './refresh-delay.ts'

beforeEach(begin)
afterEach(end)

describe('digests of requests that were served stale', () => {
  it('are forgotten when there are too many', () => {
    const { rt } = setUp()
    for (let i = 0; i < 10_000; i++) {
      expect(mayLeadInstead(rt, `d${i}`, 'failed')).toBe(false)
    }
    expect(rt.seenDigests.size).toBeLessThanOrEqual(4_096)
  })
})
