// Compares caches side by side and writes results/benchmarks.md: `npm run bench [-- --help]`.
import { fillPage } from '../lib/markdown.ts'
import { startRedis } from '../lib/redis.ts'
import { withFloors } from '../lib/rows.ts'
import { chosen, publish, RESULTS, readArguments, runInfo, valuesOf } from '../lib/run.ts'
import { peers } from '../torture/peers.ts'
import { memoryPeers, redisPeers } from './data-peers.ts'
import { otherTables, tablesOf } from './page.ts'
import type { Results } from './results.ts'
import { runCalls } from './run-calls.ts'
import { FULL, QUICK, runGrowth } from './run-growth.ts'
import { runOpen } from './run-open.ts'
import { runServers } from './run-servers.ts'
import { scenarios } from './scenarios.ts'
import { hits } from './tables.ts'

const PARTS = ['hit', 'data', 'l2', 'open', 'growth']
const USAGE = `npm run bench                     all of it, some 16 minutes, to apps/bench/results
npm run bench -- --only hit,l2    parts, printed: ${PARTS.join(', ')}
npm run bench -- --rows ID,ID     rows of them, with their floors; ids are in apps/bench/src/compare
npm run bench -- --quick          short: to see that it runs, its figures say nothing
npm run bench -- --out FOLDER     page and raw results to a folder`

const args = process.argv.slice(2)
if (args.includes('--help')) {
  console.log(USAGE)
  process.exit()
}
const { ids, isQuick, folder } = readArguments(args)
const parts = PARTS.some((part) => ids.has(part)) ? PARTS.filter((part) => ids.has(part)) : PARTS
const rowIds = new Set([...ids].filter((id) => !PARTS.includes(id)))

const plan = isQuick
  ? {
      hits: { rounds: 3, roundMs: 700, warmUpMs: 2_000 },
      calls: { rounds: 3, roundMs: 300, warmUpMs: 700 },
      ...{ openRounds: 1, sizes: QUICK },
    }
  : {
      hits: { rounds: 15, roundMs: 500, warmUpMs: 3_000 },
      calls: { rounds: 5, roundMs: 700, warmUpMs: 1_000 },
      ...{ openRounds: 3, sizes: FULL },
    }

const COMPARED = ['stampede', 'bentocache', 'cacheable', 'async-cache-dedupe', 'layered-loader']
const fleets = chosen(
  peers.filter(({ id }) => COMPARED.includes(id)),
  rowIds,
)

// The commit is read first, because somebody may commit during the run.
const info = runInfo()
const redis = await startRedis()
const results = await run(redis.url)
const values = {
  ...valuesOf('benchmarks', info),
  command: ['npm run bench', ...(args.length > 0 ? ['--', ...args] : [])].join(' '),
  redis: redis.version,
  load: info.loadBefore.toFixed(1),
  ...{ [info.loadBefore < 1.5 ? 'isQuiet' : 'isBusy']: 'yes' },
}
await redis[Symbol.asyncDispose]()
const isWhole = parts.length === PARTS.length && rowIds.size === 0
const page = fillPage('benchmarks', {
  ...values,
  ...tablesOf(results),
  ...(isWhole ? { isWhole: 'yes', ...otherTables() } : { isPart: 'yes' }),
})
// A part of a run, or a quick run, is printed and not published.
const target = folder ?? (isWhole && !isQuick ? RESULTS : undefined)
if (target === undefined) console.log(page)
else publish(target, 'benchmarks', page, { ...info, ...values, ...results })

async function run(redisUrl: string): Promise<Results> {
  const seen: Results = {}
  if (parts.includes('hit')) {
    const rows = withFloors(hits, rowIds)
    seen.hits = await runServers({ title: 'hit', ...plan.hits, rows, redisUrl })
  }
  if (parts.includes('data')) {
    const rows = chosen(memoryPeers, rowIds)
    const one = { tier: 'memory', callers: 1, isEachNew: false, redisUrl } as const
    seen.calls = await runCalls({ ...one, ...plan.calls, rows })
  }
  if (parts.includes('l2')) {
    const rows = chosen(redisPeers, rowIds)
    const many = { tier: 'redis', callers: 50, redisUrl, ...plan.calls, rows } as const
    seen.redisHits = await runCalls({ ...many, isEachNew: false })
    seen.redisMisses = await runCalls({ ...many, isEachNew: true })
  }
  if (parts.includes('open'))
    seen.open = await runOpen({ peers: fleets, scenarios, processes: 4, rounds: plan.openRounds })
  if (parts.includes('growth')) {
    const both = fleets.map(({ id }) => id).filter((id) => COMPARED.indexOf(id) < 2)
    seen.growth = await runGrowth(plan.sizes, both)
  }
  return seen
}
