// Runs the list against every peer and writes docs/idempotency-compared.md.
// `npm run bench:idempotency -- peer… case… --out FOLDER` runs a part of it, or writes elsewhere.
import { DOCS, publish, readAsked } from '../publish.ts'
import { surroundings } from '../surroundings.ts'
import { cases } from './cases.ts'
import { absent, peers } from './peers.ts'
import { startRedis } from './redis-process.ts'
import { type Column, rawOf, report } from './report.ts'
import { runCase } from './run-case.ts'
import type { Verdict } from './verdict.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids: asked } = readAsked(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => asked.has(id)) ? all.filter(({ id }) => asked.has(id)) : all

// At the beginning: somebody may commit while it runs.
const here = surroundings()
const columns: Column[] = []
for (const peer of chosen(peers)) {
  const verdicts: Verdict[] = []
  for (const each of chosen(cases)) {
    const verdict = await runCase(peer, each)
    verdicts.push(verdict)
    console.error(`${peer.id} ${each.id}: ${Object.values(verdict).join(', ')}`)
  }
  columns.push({ peer, verdicts })
}

// A part of the table is for looking at, not for publishing.
const target = folder ?? (asked.size === 0 ? DOCS : undefined)
if (target !== undefined) {
  const redis = await startRedis()
  const around = { ...here, redis: redis.version, absent }
  await redis[Symbol.asyncDispose]()
  const ran = chosen(cases)
  publish(target, 'idempotency-compared', report(ran, columns, around), rawOf(ran, columns, around))
}
