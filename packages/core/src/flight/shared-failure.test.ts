// Tests of the digests of requests that were served stale.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { begin, end, scripted, setUp } from '../testing/resolve-bench.ts'
import { mayLeadInstead } from './shared-failure.ts'

beforeEach(begin)
afterEach(end)

describe('digests of requests that were served stale', () => {
  it('are forgotten when there are too many', () => {
    const { rt } = setUp()
    const { caller } = scripted()
    for (let i = 0; i < 10_000; i++) {
      expect(mayLeadInstead(rt, { ...caller, requestDigest: () => `d${i}` }, 'failed')).toBe(false)
    }
    expect(rt.seenDigests.size).toBeLessThanOrEqual(4_096)
  })
})
