// A fault at each request to PostgreSQL of a POST in a transaction, each followed by three
// duplicates. The judge then compares the responses of all clients with the rows.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../harness/postgres.ts'
import { KINDS } from './kinds.ts'
import { Stage } from './stage.ts'

/** The begin, both writes of the handler, and the end. */
const REQUESTS = 4

describePostgres.each(['read committed', 'repeatable read', 'serializable'])(
  'a POST in a transaction, %s',
  (isolation) => {
    let stage: Stage
    beforeAll(async () => {
      const env = { IDEMPOTENCY: JSON.stringify({ transaction: { isolation } }) }
      stage = await Stage.open({ env })
    })
    afterAll(() => stage?.[Symbol.asyncDispose]())

    it('has two requests more than its handler', async () => {
      expect(await stage.requestsOfPost()).toHaveLength(REQUESTS)
    })

    for (const kind of KINDS) {
      it(`takes effect once if ${kind.name}`, async () => {
        for (let number = 1; number <= REQUESTS; number++) {
          expect(await stage.strike(kind, number), `the fault at request ${number}`).toBe(true)
          expect(await stage.violations()).toEqual([])
        }
      })
    }

    it('responds 201 to some of them, although a fault has struck', async ({ annotate }) => {
      await annotate(JSON.stringify([...stage.judge.statuses]))
      expect(stage.judge.keys).toBeGreaterThan(KINDS.length * REQUESTS)
    })
  },
)
