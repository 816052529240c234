// Type of a scenario: a row of the table, and the function that runs and judges it.
import type { Verdict } from '../../lib/verdict.ts'
import type { TableCase } from '../../lib/verdict-table.ts'
import type { Stage } from '../stage.ts'

export interface Scenario extends TableCase {
  readonly run: (stage: Stage) => Promise<Verdict>
}
