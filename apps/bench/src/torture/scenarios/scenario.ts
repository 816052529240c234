// Type of a scenario: what happens, the criterion, and the function that runs and judges it.
import type { Stage } from '../stage.ts'
import type { Verdict } from '../verdict.ts'

export interface Scenario {
  readonly id: string
  readonly title: string
  /** The course of the scenario, in a few sentences. */
  readonly story: string
  /** The criterion, as the end of the sentence "The row is ok if …". */
  readonly criterion: string
  readonly run: (stage: Stage) => Promise<Verdict>
}
