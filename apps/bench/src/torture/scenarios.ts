// The twelve scenarios, in the order of their numbers.
import { fleets } from './scenarios/fleets.ts'
import { origins } from './scenarios/origins.ts'
import { outages } from './scenarios/outages.ts'
import { purges } from './scenarios/purges.ts'
import type { Scenario } from './scenarios/scenario.ts'

const number = ({ id }: Scenario): number => Number(id.slice(1))

export const scenarios: readonly Scenario[] = [...purges, ...origins, ...fleets, ...outages].sort(
  (a, b) => number(a) - number(b),
)
