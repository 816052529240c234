// A short part of the fault plan, on other versions of PostgreSQL. All of it: test/postgres/faults.

import { expect, it } from 'vitest'
import { describePostgresVersions } from '../harness/postgres.ts'
import { KINDS } from '../postgres/faults/kinds.ts'
import { Stage } from '../postgres/faults/stage.ts'

/** The begin, both writes of the handler, and the end. */
const REQUESTS = 4
const SHORT = [
  'the connection is cut, request',
  'the worker loses the connection and the server does not, reply',
]

describePostgresVersions('a POST in a transaction', (source) => {
  it('takes effect once if a fault strikes at any request', async () => {
    await using stage = await Stage.open(source === undefined ? {} : { source })
    const kinds = KINDS.filter(({ name }) => SHORT.includes(name))
    expect(kinds).toHaveLength(SHORT.length)
    for (const kind of kinds)
      for (let number = 1; number <= REQUESTS; number++)
        expect(await stage.strike(kind, number), `${kind.name} ${number}`).toBe(true)
    expect(await stage.violations()).toEqual([])
  })
})
