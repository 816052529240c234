// Runs every scenario with every cache and writes docs/torture.md. `npm run bench:torture -- peer…
// scenario… --out FOLDER` runs a part of it, or writes to a folder.
import { DOCS, publish, readArguments } from '../publish.ts'
import { runInfo } from '../run-info.ts'
import { peers } from './peers.ts'
import { startRedis } from './redis-server.ts'
import { type Column, rawOf, report } from './report.ts'
import { runCell } from './run-cell.ts'
import { scenarios } from './scenarios.ts'
import type { Verdict } from './verdict.ts'

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids } = readArguments(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => ids.has(id)) ? all.filter(({ id }) => ids.has(id)) : all

const since = performance.now()
// The commit is read first, because somebody may commit during the run.
const start = runInfo()
const columns: Column[] = []
for (const peer of chosen(peers)) {
  const verdicts: Verdict[] = []
  for (const scenario of chosen(scenarios)) {
    const verdict = await runCell(peer, scenario)
    verdicts.push(verdict)
    console.error(`${scenario.id} ${peer.id}: ${verdict.kind}: ${verdict.seen}`)
  }
  columns.push({ peer, verdicts })
}

// A part of the table is printed and not published.
const target = folder ?? (ids.size === 0 ? DOCS : undefined)
if (target !== undefined) {
  const redis = await startRedis()
  const seconds = Math.round((performance.now() - since) / 1_000)
  const info = { ...start, redis: redis.version, seconds }
  await redis[Symbol.asyncDispose]()
  const ran = chosen(scenarios)
  publish(target, 'torture', report(ran, columns, info), rawOf(ran, columns, info))
}
