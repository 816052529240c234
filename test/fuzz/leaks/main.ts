// `npm run fuzz:leaks -- --seed 1 --minutes 60`: runs scenarios until the time is over or one
// fails. It shrinks and prints the failing scenario, and exits with status 1. With --scenarios N it
// ends after N of them. With --report it prints figures as JSON.

import { parseArgs } from 'node:util'
import { findRedis } from '../../harness/find-redis.ts'
import { type RedisServer, startRedis } from '../../harness/redis-server.ts'
import { describe, type Figures, runCampaign } from './campaign.ts'
import { type FrameworkName, PLATFORMS, type StoreName } from './scenario.ts'
import { shrink } from './shrink.ts'
import { transcript } from './transcript.ts'

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      minutes: { type: 'string', default: '1' },
      scenarios: { type: 'string', default: 'Infinity' },
      framework: { type: 'string' },
      store: { type: 'string' },
      'at-once': { type: 'string', default: '4' },
      report: { type: 'boolean', default: false },
    },
  })
  const { report } = values
  const redis = values.store === 'memory' ? undefined : await openRedis()
  const startedAt = performance.now()
  const minutes = () => (performance.now() - startedAt) / 60_000
  const say = (text: string) => report || console.log(text)
  say(`seed ${values.seed}`)
  let saidAt = 0
  try {
    const { figures, failure } = await runCampaign({
      framework: frameworkOf(values.framework),
      store: values.store as StoreName | undefined,
      firstSeed: Number(values.seed),
      redis,
      atOnce: Number(values['at-once']),
      goesOn: (count) => count < Number(values.scenarios) && minutes() < Number(values.minutes),
      onScenario(each: Figures) {
        if (minutes() < saidAt + 1) return
        saidAt = minutes()
        say(`${saidAt.toFixed(0)} min: ${describe(each)}`)
      },
    })
    const rate = Math.round(figures.scenarios / minutes())
    say(`${describe(figures)}\n${rate} scenarios a minute`)
    const { scenarios, requests, reused } = figures
    const seed = failure?.scenario.seed
    const found = failure?.outcome.findings[0]?.what
    if (report) console.log(JSON.stringify({ scenarios, requests, reused, rate, seed, found }))
    if (failure === undefined) return 0
    if (!report) {
      console.log(`seed ${failure.scenario.seed} fails; making it small`)
      const { scenario, outcome } = await shrink(failure, redis)
      console.log(transcript(scenario, outcome))
    }
    return 1
  } finally {
    await redis?.stop()
  }
}

async function openRedis(): Promise<RedisServer> {
  const { source } = await findRedis()
  return startRedis({ source })
}

function frameworkOf(name: string | undefined): FrameworkName | undefined {
  const known = PLATFORMS.find((each) => each === name)
  if (name !== undefined && known === undefined) {
    throw new Error(`--framework is one of ${PLATFORMS.join(', ')}`)
  }
  return known
}
