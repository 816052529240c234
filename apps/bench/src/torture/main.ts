// Runs every scenario against every peer and writes docs/torture.md: `npm run bench:torture [peer…] [scenario…]`.
import { writeFileSync } from 'node:fs'
import { peers } from './peers.ts'
import { startRedis } from './redis-server.ts'
import { type Column, report } from './report.ts'
import { runCell } from './run-cell.ts'
import { scenarios } from './scenarios.ts'
import type { Verdict } from './verdict.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const asked = new Set(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => asked.has(id)) ? all.filter(({ id }) => asked.has(id)) : all

const since = performance.now()
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
if (asked.size === 0) {
  const redis = await startRedis()
  const seconds = Math.round((performance.now() - since) / 1_000)
  const text = report(scenarios, columns, { redis: redis.version, seconds })
  await redis[Symbol.asyncDispose]()
  writeFileSync(new URL('../../../../docs/torture.md', import.meta.url), text)
}
