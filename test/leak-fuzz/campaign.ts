// Many scenarios, one after the other, until one fails or there was enough; with figures that show that the cache
// was in use meanwhile: a fuzzer that only ever bypasses it finds nothing.

import type { RedisServer } from '../harness/redis-server.ts'
import { isReused, isUnchanged } from './check.ts'
import { makeScenario, type Wanted } from './make-scenario.ts'
import { type Outcome, runScenario } from './run-scenario.ts'
import type { Scenario } from './scenario.ts'
import type { Failure } from './shrink.ts'

export interface Figures {
  scenarios: number
  requests: number
  /** Answers from what another request had brought: hits, and waits for another's run. */
  reused: number
  /** Reused answers of routes that speak to people: from the caller's own entry. */
  reusedOwn: number
  /** Answers that the app's 304 to the cache stands behind. */
  unchanged: number
  /** Requests that got no answer in time. */
  stuck: number
  /** Answers about people, by what kept them from others. */
  readonly shields: Map<string, number>
}

export interface Campaign {
  readonly figures: Figures
  readonly failure: Failure | undefined
}

export interface CampaignOptions extends Wanted {
  readonly firstSeed: number
  /** Whether to begin another scenario, after so many. */
  readonly goesOn: (scenarios: number) => boolean
  readonly redis: RedisServer | undefined
  /** Scenarios at the same time, in this process. */
  readonly atOnce?: number
  readonly onScenario?: (figures: Figures) => void
}

export async function runCampaign(options: CampaignOptions): Promise<Campaign> {
  const figures: Figures = {
    scenarios: 0,
    requests: 0,
    reused: 0,
    reusedOwn: 0,
    unchanged: 0,
    stuck: 0,
    shields: new Map(),
  }
  const { firstSeed, goesOn, redis, onScenario, atOnce = 1 } = options
  for (let seed = firstSeed; goesOn(figures.scenarios); seed += atOnce) {
    const batch = Array.from({ length: atOnce }, (_, i) => makeScenario(seed + i, options))
    for (const { scenario, outcome } of await runBatch(batch, redis)) {
      add(figures, outcome, (route) => scenario.routes[route]?.about !== undefined)
      onScenario?.(figures)
      if (outcome.findings.length > 0) return { figures, failure: { scenario, outcome } }
    }
  }
  return { figures, failure: undefined }
}

/** Those without Redis at the same time: they mostly wait. One that stops Redis would stop it for the others. */
async function runBatch(
  batch: readonly Scenario[],
  redis: RedisServer | undefined,
): Promise<Failure[]> {
  const run = async (scenario: Scenario): Promise<Failure> => ({
    scenario,
    outcome: await runScenario(scenario, redis),
  })
  const done = await Promise.all(batch.filter(({ store }) => store === 'memory').map(run))
  for (const scenario of batch) if (scenario.store === 'redis') done.push(await run(scenario))
  return done.sort((a, b) => a.scenario.seed - b.scenario.seed)
}

function add(figures: Figures, outcome: Outcome, isAboutPeople: (route: number) => boolean): void {
  figures.scenarios += 1
  for (const { request, reply } of outcome.exchanges) {
    figures.requests += 1
    if (reply === 'stuck') figures.stuck += 1
    if (isUnchanged(reply)) figures.unchanged += 1
    if (!isReused(reply)) continue
    figures.reused += 1
    if (isAboutPeople(request.route)) figures.reusedOwn += 1
  }
  for (const [shield, count] of outcome.shields) {
    figures.shields.set(shield, (figures.shields.get(shield) ?? 0) + count)
  }
}

export function describe(figures: Figures): string {
  const { scenarios, requests, reused, reusedOwn, unchanged, stuck, shields } = figures
  const share = (count: number) => `${((100 * count) / Math.max(1, requests)).toFixed(1)} %`
  const counts = [...shields].sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    `${scenarios} scenarios, ${requests} requests, ${share(reused)} reused`,
    `(${share(reusedOwn)} of one's own), ${share(unchanged)} found unchanged, ${stuck} stuck;`,
    `about people: ${counts.map(([shield, count]) => `${shield} ${count}`).join(', ')}`,
  ].join(' ')
}
