// One row of the comparison.
import type { Verdict } from '../verdicts/verdict.ts'
import type { Stage } from './stage.ts'

export interface Case {
  readonly id: string
  /** The behaviour that a cache must have. */
  readonly title: string
  readonly run: (stage: Stage) => Promise<Verdict>
}
