// Compares caches side by side and writes docs/benchmarks.md. Usage: `npm run bench [-- --quick
// --only PARTS --rows IDS --out FOLDER]`.
import { loadavg } from 'node:os'
import { DOCS } from '../publish.ts'
import { runInfo } from '../run-info.ts'
import { startRedis, urlOf } from '../torture/redis-server.ts'
import { memoryPeers } from './data/memory-peers.ts'
import { redisPeers } from './data/redis-peers.ts'
import { type CallRow, runCalls } from './data/run-calls.ts'
import { runCrowds } from './growth/run-crowds.ts'
import { runFleets, runKeys, runPages, runWaiters } from './growth/run-growth.ts'
import { FULL, QUICK } from './growth/sizes.ts'
import { runHits } from './hit/run-hits.ts'
import { PARTS, readRunOptions, USAGE } from './lib/run-options.ts'
import { openPeers } from './open/peers.ts'
import { runOpen } from './open/run-open.ts'
import { scenarios } from './open/scenarios.ts'
import { pageOf } from './page/page.ts'
import type { Growth, Results } from './page/results.ts'
import { writePage } from './page/write-page.ts'

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const args = process.argv.slice(2)
const { parts, isQuick, rows, folder } = optionsOf(args)
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  rows.length === 0 ? all : all.filter(({ id }) => rows.includes(id))

const PLANS = isQuick
  ? {
      hits: { rounds: 3, roundMs: 700, warmUpMs: 2_000 },
      calls: { rounds: 3, roundMs: 300, warmUpMs: 700 },
      openRounds: 1,
      sizes: QUICK,
    }
  : {
      hits: { rounds: 15, roundMs: 500, warmUpMs: 3_000 },
      calls: { rounds: 5, roundMs: 700, warmUpMs: 1_000 },
      openRounds: 2,
      sizes: FULL,
    }

const since = performance.now()
const [, loadBefore = 0] = loadavg()
// The commit is read first, because somebody may commit during the run.
const info = runInfo()
const results = await run()
const isWhole = parts.length === PARTS.length && rows.length === 0 && !isQuick
if (folder !== undefined) writePage(folder, results)
// A part of a run is printed and not published.
else if (isWhole) writePage(DOCS, results)
else console.log(pageOf(results))

function optionsOf(given: readonly string[]) {
  if (given.includes('--help')) {
    console.log(USAGE)
    process.exit()
  }
  try {
    return readRunOptions(given)
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`)
    process.exit(2)
  }
}

async function run(): Promise<Results> {
  const seen: Partial<Results> = {}
  if (parts.includes('hit')) seen.hits = await runHits({ ...PLANS.hits, rows })
  if (parts.includes('data')) seen.calls = await memoryHits()
  if (parts.includes('l2')) Object.assign(seen, await redisTier())
  if (parts.includes('open')) {
    const plan = { peers: chosen(openPeers), scenarios, processes: 4, rounds: PLANS.openRounds }
    seen.open = await runOpen(plan)
  }
  if (parts.includes('growth')) seen.growth = await growth()
  const command = ['npm run bench', ...(args.length > 0 ? ['--', ...args] : [])].join(' ')
  return { ...info, ...seen, command, loadBefore, seconds: (performance.now() - since) / 1_000 }
}

function memoryHits(): Promise<CallRow[]> {
  const plan = { tier: 'memory', callers: 1, isEachNew: false, ...PLANS.calls } as const
  return runCalls({ ...plan, peers: chosen(memoryPeers) }, '')
}

async function redisTier(): Promise<Partial<Results>> {
  await using redis = await startRedis()
  const url = urlOf(redis.port)
  const plan = { tier: 'redis', peers: chosen(redisPeers), callers: 50, ...PLANS.calls } as const
  return {
    redisVersion: redis.version,
    redisHits: await runCalls({ ...plan, isEachNew: false }, url),
    redisMisses: await runCalls({ ...plan, isEachNew: true }, url),
  }
}

async function growth(): Promise<Growth> {
  const { sizes } = PLANS
  const compared = chosen(openPeers).map(({ id }) => id)
  const peers = ['stampede', 'bentocache'].filter((id) => compared.includes(id))
  return {
    keys: await runKeys(sizes),
    pages: await runPages(sizes),
    fleets: await runFleets(sizes, peers),
    waiters: await runWaiters(sizes, peers),
    crowds: await runCrowds(sizes),
  }
}
