// Shrinks a failing scenario: removes requests and steps as long as it still fails. A failure that
// depends on timing may need several runs, so a removal is rejected only after some of them.

import type { RedisServer } from '../../harness/redis-server.ts'
import { type Outcome, runScenario } from './run-scenario.ts'
import type { Scenario, StepSpec } from './scenario.ts'

export interface Failure {
  readonly scenario: Scenario
  readonly outcome: Outcome
}

const TRIES = 3

export async function shrink(
  failure: Failure,
  redis: RedisServer | undefined,
  budgetMs = 30_000,
): Promise<Failure> {
  const end = performance.now() + budgetMs
  let smallest = failure
  for (let shrunk = true; shrunk; ) {
    shrunk = false
    for (const smaller of removals(smallest.scenario)) {
      if (performance.now() > end) return smallest
      const outcome = await failsStill(smaller, redis)
      if (outcome === undefined) continue
      smallest = { scenario: smaller, outcome }
      shrunk = true
      break
    }
  }
  return smallest
}

async function failsStill(
  scenario: Scenario,
  redis: RedisServer | undefined,
): Promise<Outcome | undefined> {
  for (let i = 0; i < TRIES; i++) {
    const outcome = await runScenario(scenario, redis)
    if (outcome.findings.length > 0) return outcome
  }
  return undefined
}

/**
 * Every way to remove one thing, the largest first. Steps stay and become empty, so that their time
 * still passes.
 */
function* removals(scenario: Scenario): Generator<Scenario> {
  const { steps } = scenario
  const busy = steps.flatMap(({ requests }, index) => (requests.length > 0 ? [index] : []))
  for (const index of busy) yield withStep(scenario, index, { requests: [] })
  for (const index of busy) {
    const { requests } = steps[index] as StepSpec
    for (let i = 0; requests.length > 1 && i < requests.length; i++) {
      yield withStep(scenario, index, { requests: requests.toSpliced(i, 1) })
    }
  }
  for (const [index, { event }] of steps.entries()) {
    if (event !== 'none') yield withStep(scenario, index, { event: 'none' })
  }
}

function withStep(scenario: Scenario, index: number, change: Partial<StepSpec>): Scenario {
  const { steps } = scenario
  return {
    ...scenario,
    steps: steps.map((step, i) => (i === index ? { ...step, ...change } : step)),
  }
}
