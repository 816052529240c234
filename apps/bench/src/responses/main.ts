// Runs every case with every response cache and writes docs/responses-compared.md.
// `npm run bench:responses -- peer… case… --out FOLDER` runs a part of it, or writes to a folder.
import type { Verdict } from '../idempotency/verdict.ts'
import { DOCS, publish, readArguments } from '../publish.ts'
import { runInfo } from '../run-info.ts'
import { startRedis } from '../torture/redis-server.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'
import { type Column, rawOf, report } from './report.ts'
import { runCell } from './run-cell.ts'

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids } = readArguments(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => ids.has(id)) ? all.filter(({ id }) => ids.has(id)) : all

// The commit is read first, because somebody may commit during the run.
const start = runInfo()
const columns: Column[] = []
for (const peer of chosen(peers)) {
  const verdicts: Verdict[] = []
  for (const each of chosen(cases)) {
    const verdict = await runCell(peer, each)
    verdicts.push(verdict)
    console.error(`${peer.id} ${each.id}: ${Object.values(verdict).join(', ')}`)
  }
  columns.push({ peer, verdicts })
}

// A part of the table is printed and not published.
const target = folder ?? (ids.size === 0 ? DOCS : undefined)
if (target !== undefined) {
  const redis = await startRedis()
  const info = { ...start, redis: redis.version }
  await redis[Symbol.asyncDispose]()
  const ran = chosen(cases)
  publish(target, 'responses-compared', report(ran, columns, info), rawOf(ran, columns, info))
}
