// Compares caches side by side and writes docs/benchmarks.md: `npm run bench [-- --quick --only PARTS --rows IDS]`.

import { startRedis, urlOf } from '../torture/redis-server.ts'
import { memoryPeers } from './data/memory-peers.ts'
import { redisPeers } from './data/redis-peers.ts'
import { runCalls } from './data/run-calls.ts'
import { callTable } from './data/table.ts'
import { runCrowds } from './growth/run-crowds.ts'
import { runFleets, runKeys, runWaiters } from './growth/run-growth.ts'
import { FULL, QUICK } from './growth/sizes.ts'
import { runHits } from './hit/run-hits.ts'
import { hitTable } from './hit/table.ts'
import { readRunOptions } from './lib/run-options.ts'
import { openPeers } from './open/peers.ts'
import { runOpen } from './open/run-open.ts'
import { scenarios } from './open/scenarios.ts'
import { openTables } from './open/tables.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { parts, isQuick, rows } = readRunOptions(process.argv.slice(2))
const asked = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  rows.length === 0 ? all : all.filter(({ id }) => rows.includes(id))

if (parts.includes('hit')) {
  const plan = isQuick
    ? { rounds: 3, roundMs: 700, warmUpMs: 2_000, rows }
    : { rounds: 7, roundMs: 1_500, warmUpMs: 4_000, rows }
  console.log(hitTable(await runHits(plan)))
}

const calls = isQuick
  ? { rounds: 3, roundMs: 300, warmUpMs: 700 }
  : { rounds: 5, roundMs: 700, warmUpMs: 1_000 }
if (parts.includes('data')) {
  const plan = { tier: 'memory' as const, peers: asked(memoryPeers), callers: 1, isEachNew: false }
  console.log(callTable(await runCalls({ ...plan, ...calls }, '')))
}
if (parts.includes('l2')) {
  await using redis = await startRedis()
  const plan = { tier: 'redis' as const, peers: asked(redisPeers), callers: 50, ...calls }
  console.log(callTable(await runCalls({ ...plan, isEachNew: false }, urlOf(redis.port))))
  console.log(callTable(await runCalls({ ...plan, isEachNew: true }, urlOf(redis.port))))
}
if (parts.includes('open')) {
  const plan = { peers: asked(openPeers), scenarios, processes: 4, rounds: isQuick ? 1 : 3 }
  console.log(openTables(await runOpen(plan)))
}
if (parts.includes('growth')) {
  const sizes = isQuick ? QUICK : FULL
  const peers = ['stampede', 'bentocache']
  console.log(await runKeys(sizes))
  console.log(await runFleets(sizes, peers))
  console.log(await runWaiters(sizes, peers))
  console.log(await runCrowds(sizes))
}
