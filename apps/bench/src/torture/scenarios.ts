// The twelve scenarios, in the order of their numbers. The page has their stories and criteria.
import { faults } from './scenarios/faults.ts'
import { loads } from './scenarios/loads.ts'
import type { Scenario } from './scenarios/scenario.ts'

const number = ({ id }: Scenario): number => Number(id.slice(1))

export const scenarios: readonly Scenario[] = [...loads, ...faults].sort(
  (a, b) => number(a) - number(b),
)
