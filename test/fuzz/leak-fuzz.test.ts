// Checks with random apps and requests, from fixed seeds, that no byte of person A reaches person
// B. For longer runs see leaks/README.md, which also shows that the fuzzer notices planted leaks.

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { type Campaign, describe as inWords, runCampaign } from './leaks/campaign.ts'
import { MUTATIONS } from './leaks/mutations.ts'
import { type FrameworkName, PLATFORMS, type StoreName } from './leaks/scenario.ts'
import { shrink } from './leaks/shrink.ts'
import { transcript } from './leaks/transcript.ts'

const SCENARIOS: Readonly<Record<StoreName, number>> = { memory: 40, redis: 8 }
/** A busy machine runs fewer scenarios of the same list, but at least as many as it needs. */
const FEWEST: Readonly<Record<StoreName, number>> = { memory: 40, redis: 4 }
const BUDGET_MS = 4_000

/** Text that a mutation may insert in any file. */
const LANGUAGE = new Set([
  'void',
  'null',
  'undefined',
  'false',
  'true',
  'slice',
  'field',
  'headers',
  'filter',
  'length',
])

/** Names that exist in the code. */
function wordsOf(text: string): readonly string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
  return code.match(/\b[a-z_$][\w$]*/gi) ?? []
}

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

async function run(framework: FrameworkName, store: StoreName): Promise<Campaign> {
  const end = performance.now() + BUDGET_MS
  const most = SCENARIOS[store]
  const campaign = await runCampaign({
    framework,
    store,
    firstSeed: 1 + 10_000 * PLATFORMS.indexOf(framework),
    redis,
    goesOn: (count) => count < FEWEST[store] || (count < most && performance.now() < end),
  })
  const { failure } = campaign
  if (failure === undefined) return campaign
  const { scenario, outcome } = await shrink(failure, redis, 15_000)
  throw new Error(transcript(scenario, outcome))
}

it.each(MUTATIONS)('the mutation matches the sources: $name', async ({ edits }) => {
  for (const { file, from, to } of edits) {
    const text = await readFile(new URL(`../../packages/${file}`, import.meta.url), 'utf8')
    expect(text.split(from), `${file} has no, or more than one: ${from}`).toHaveLength(2)
    // A mutation must not use names that no longer exist.
    const known = new Set(wordsOf(text))
    const words = wordsOf(to.replace(/'[^']*'|"[^"]*"/g, ''))
    expect(words.filter((word) => !known.has(word) && !LANGUAGE.has(word))).toEqual([])
  }
})

describe.each(PLATFORMS)('random apps and requests: %s', (framework) => {
  it('leak nothing between users with the memory store', async () => {
    const { figures } = await run(framework, 'memory')
    // A fuzzer that only bypasses the cache finds nothing.
    expect(figures.reused / figures.requests, inWords(figures)).toBeGreaterThan(0.08)
    expect(figures.reusedOwn, inWords(figures)).toBeGreaterThan(0)
    expect(figures.unchanged, inWords(figures)).toBeGreaterThan(0)
  })

  it('leak nothing between users with two processes on one Redis, also while Redis fails', async () => {
    const { figures } = await run(framework, 'redis')
    expect(figures.reused, inWords(figures)).toBeGreaterThan(0)
  })
})
