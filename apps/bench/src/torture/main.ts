// Runs every scenario against every peer and writes docs/torture.md.
// `npm run bench:torture -- peer… scenario… --out FOLDER` runs a part of it, or writes elsewhere.
import { DOCS, publish, readAsked } from '../publish.ts'
import { surroundings } from '../surroundings.ts'
import { peers } from './peers.ts'
import { startRedis } from './redis-server.ts'
import { type Column, rawOf, report } from './report.ts'
import { runCell } from './run-cell.ts'
import { scenarios } from './scenarios.ts'
import type { Verdict } from './verdict.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids: asked } = readAsked(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => asked.has(id)) ? all.filter(({ id }) => asked.has(id)) : all

const since = performance.now()
// At the beginning: somebody may commit while it runs.
const here = surroundings()
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

// A part of the matrix is for looking at, not for publishing.
const target = folder ?? (asked.size === 0 ? DOCS : undefined)
if (target !== undefined) {
  const redis = await startRedis()
  const seconds = Math.round((performance.now() - since) / 1_000)
  const around = { ...here, redis: redis.version, seconds }
  await redis[Symbol.asyncDispose]()
  const ran = chosen(scenarios)
  publish(target, 'torture', report(ran, columns, around), rawOf(ran, columns, around))
}
