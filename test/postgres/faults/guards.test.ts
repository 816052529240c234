// The guards of a POST in a transaction, taken out of the build one by one. The fault plan notices
// each guard that carries the promise.

import { expect, it } from 'vitest'
import { describePostgres } from '../../harness/postgres.ts'
import { KINDS } from './kinds.ts'
import { type Edit, Stage } from './stage.ts'

const SQL = '/packages/postgres/dist/migrations.generated.js'

const CLAIM = 'is_ours boolean := pg_try_advisory_xact_lock(1937010032, stampede.lock_of(k))'
const WITHOUT_LOCK: Edit = [SQL, CLAIM, `${CLAIM} or true`]
const WITHOUT_KEY: Edit = [
  SQL,
  'stampede.after(keep_ms), response);',
  'stampede.after(keep_ms), response) on conflict (key) do nothing;',
]
const WITHOUT_LOOKUP: Edit = [
  '/packages/postgres/dist/transaction.js',
  'return this.#lookUp()',
  "return 'finished'",
]

const WITHOUT_HOLD: Edit = [
  '/packages/core/dist/idempotency/handle-idempotent.js',
  'graceMs, holdsAll, onEnd',
  'graceMs, holdsAll: false, onEnd',
]

interface Guard {
  readonly name: string
  readonly edits: readonly Edit[]
  /** Violations that the judge finds without it. Undefined: another guard carries the promise. */
  readonly finds?: RegExp
}

const GUARDS: readonly Guard[] = [
  { name: 'the advisory lock', edits: [WITHOUT_LOCK] },
  { name: 'the primary key', edits: [WITHOUT_KEY] },
  {
    name: 'the advisory lock and the primary key',
    edits: [WITHOUT_LOCK, WITHOUT_KEY],
    finds: /double/,
  },
  { name: 'the lookup of an unknown outcome', edits: [WITHOUT_LOOKUP], finds: /lost/ },
  { name: 'the hold of head and body', edits: [WITHOUT_HOLD], finds: /lost/ },
]

/** The first request and the last one. */
const NUMBERS = [1, 4]
/** These run a handler twice without both guards, so each guard alone must withstand them. */
const DOUBLING = KINDS.filter(({ name }) => /loses the connection|is late|is frozen/.test(name))

describePostgres('the fault plan', { timeout: 600_000 }, () => {
  it.each(GUARDS)('judges a build without $name', async ({ edits, finds }) => {
    await using stage = await Stage.open({ edits })
    const kinds = finds ? KINDS : DOUBLING
    for (const [kind, number] of kinds.flatMap((kind) => NUMBERS.map((n) => [kind, n] as const))) {
      await stage.strike(kind, number)
      if (finds?.test((await stage.violations()).join('\n'))) break
    }
    const found = await stage.violations()
    if (finds) expect(found.join('\n')).toMatch(finds)
    else expect(found).toEqual([])
  })
})
