// One row of the comparison.
import type { Verdict } from '../idempotency/verdict.ts'
import type { Stage } from './stage.ts'

export interface Case {
  readonly id: string
  /** What a cache must do. */
  readonly title: string
  readonly run: (stage: Stage) => Promise<Verdict>
}
