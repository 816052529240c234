// A fault at each request to PostgreSQL of a POST in a transaction, each followed by three
// duplicates. The judge then compares the responses of all clients with the rows.

import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../harness/postgres.ts'
import { KINDS } from './kinds.ts'
import { Stage } from './stage.ts'

/** The begin, both writes of the handler, and the end. */
const REQUESTS = [1, 2, 3, 4]
/** The other levels change what the begin and the end see. A fault between them ends both alike. */
const ENDS = [1, 4]

describePostgres.each([
  ['read committed', REQUESTS],
  ['repeatable read', ENDS],
  ['serializable', ENDS],
] as const)('a POST in a transaction, %s', (isolation, struck) => {
  let stage: Stage
  beforeAll(async () => {
    const env = { IDEMPOTENCY: JSON.stringify({ transaction: { isolation } }) }
    stage = await Stage.open({ env })
  })
  afterAll(() => stage?.[Symbol.asyncDispose]())

  it('has two requests more than its handler', async () => {
    expect(await stage.requestsOfPost()).toHaveLength(REQUESTS.length)
  })

  for (const kind of KINDS) {
    it(`takes effect once if ${kind.name}`, async () => {
      for (const number of struck) {
        expect(await stage.strike(kind, number), `the fault at request ${number}`).toBe(true)
        expect(await stage.violations()).toEqual([])
      }
    })
  }

  it('responds 201 to some of them, although a fault has struck', async ({ annotate }) => {
    await annotate(JSON.stringify([...stage.judge.statuses]))
    expect(stage.judge.keys).toBeGreaterThan(KINDS.length * struck.length)
  })
})
