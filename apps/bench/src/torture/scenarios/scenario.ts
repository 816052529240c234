// One scenario: what happens, what is asked for, and how it is decided from what was seen, the same for all.
import type { Stage } from '../stage.ts'
import type { Verdict } from '../verdict.ts'

export interface Scenario {
  readonly id: string
  readonly title: string
  /** What is done, in one sentence. */
  readonly story: string
  /** What is `ok`, in one sentence. */
  readonly criterion: string
  readonly run: (stage: Stage) => Promise<Verdict>
}
