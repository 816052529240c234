// The control of the fault plan: the judge finds faults of a middleware whose record of a key is
// outside of the handler's transaction.

import { expect, it } from 'vitest'
import { describePostgres } from '../../harness/postgres.ts'
import { KINDS } from './kinds.ts'
import { Stage } from './stage.ts'

/** Claim, begin, two writes, commit, and the record of the response. */
const REQUESTS = 6

describePostgres('a middleware with its own transaction', { timeout: 600_000 }, () => {
  it('is found to write orders twice', async () => {
    await using stage = await Stage.open({ env: { NAIVE: '1' } })
    expect(await stage.requestsOfPost()).toHaveLength(REQUESTS)
    let doubles = 0
    for (const kind of KINDS) {
      for (const number of [5, 6]) await stage.strike(kind, number)
      const found = await stage.violations()
      doubles = found.filter((text) => text.includes(': double')).length
      if (doubles >= 3) break
    }
    expect(doubles).toBeGreaterThanOrEqual(3)
  })
})
