// Runs scenarios one after another, until one fails or enough have run. The figures show that the
// cache was in use: a fuzzer that only bypasses it finds nothing.

import type { RedisServer } from '../../harness/redis-server.ts'
import { isCut, isReused, isUnchanged } from './check.ts'
import { makeScenario, type Wanted } from './make-scenario.ts'
import { type Outcome, runScenario } from './run-scenario.ts'
import type { Scenario } from './scenario.ts'
import type { Failure } from './shrink.ts'

export interface Figures {
  scenarios: number
  requests: number
  /** Responses that another request produced: hits, and waits for another request's run. */
  reused: number
  /** Reused responses of personal routes, from the caller's own entry. */
  reusedOwn: number
  /** Responses that the app confirmed with a 304 to the cache. */
  unchanged: number
  /** 206, 304 or 416 responses to the leader, cut from the 200 of its handler. */
  cut: number
  /** Requests that got no response in time. */
  stuck: number
  /** Responses about one person, by the shield that kept them from others. */
  readonly shields: Map<string, number>
  /** Scenarios by wire. */
  readonly wires: Map<string, number>
}

export interface Campaign {
  readonly figures: Figures
  readonly failure: Failure | undefined
}

export interface CampaignOptions extends Wanted {
  readonly firstSeed: number
  /** Whether to start another scenario after this many. */
  readonly goesOn: (scenarios: number) => boolean
  readonly redis: RedisServer | undefined
  /** Number of scenarios that run at the same time in this process. */
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
    cut: 0,
    stuck: 0,
    shields: new Map(),
    wires: new Map(),
  }
  const { firstSeed, goesOn, redis, onScenario, atOnce = 1 } = options
  for (let seed = firstSeed; goesOn(figures.scenarios); seed += atOnce) {
    const batch = Array.from({ length: atOnce }, (_, i) => makeScenario(seed + i, options))
    for (const { scenario, outcome } of await runBatch(batch, redis)) {
      add(figures, outcome, scenario)
      onScenario?.(figures)
      if (outcome.findings.length > 0) return { figures, failure: { scenario, outcome } }
    }
  }
  return { figures, failure: undefined }
}

/**
 * Runs scenarios without Redis at the same time, because they mostly wait. A scenario that stops
 * Redis would stop it for the others.
 */
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

function add(figures: Figures, outcome: Outcome, { wire, routes }: Scenario): void {
  figures.scenarios += 1
  figures.wires.set(wire, (figures.wires.get(wire) ?? 0) + 1)
  for (const { request, reply } of outcome.exchanges) {
    figures.requests += 1
    if (reply === 'stuck') figures.stuck += 1
    if (isUnchanged(reply)) figures.unchanged += 1
    if (isCut(reply)) figures.cut += 1
    if (!isReused(reply)) continue
    figures.reused += 1
    if (routes[request.route]?.about !== undefined) figures.reusedOwn += 1
  }
  for (const [shield, count] of outcome.shields) {
    figures.shields.set(shield, (figures.shields.get(shield) ?? 0) + count)
  }
}

export function describe(figures: Figures): string {
  const { scenarios, requests, reused, reusedOwn, unchanged, cut, stuck, shields, wires } = figures
  const share = (count: number) => `${((100 * count) / Math.max(1, requests)).toFixed(1)} %`
  const inWords = (counts: ReadonlyMap<string, number>) =>
    [...counts]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  return [
    `${scenarios} scenarios (${inWords(wires)}), ${requests} requests, ${share(reused)} reused`,
    `(${share(reusedOwn)} of one's own), ${share(unchanged)} found unchanged, ${cut} cut for the leader, ${stuck} stuck;`,
    `about people: ${inWords(shields)}`,
  ].join(' ')
}
