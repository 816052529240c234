// Runs the list against every peer and writes docs/idempotency-compared.md: `npm run bench:idempotency [peer…] [case…]`.
import { writeFileSync } from 'node:fs'
import { cases } from './cases.ts'
import { absent, peers } from './peers.ts'
import { startRedis } from './redis-process.ts'
import { type Column, report } from './report.ts'
import { runCase } from './run-case.ts'
import type { Verdict } from './verdict.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const asked = new Set(process.argv.slice(2))
const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
  all.some(({ id }) => asked.has(id)) ? all.filter(({ id }) => asked.has(id)) : all

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
if (asked.size === 0) {
  const redis = await startRedis()
  const text = report(cases, columns, { redis: redis.version, absent })
  await redis[Symbol.asyncDispose]()
  writeFileSync(new URL('../../../../docs/idempotency-compared.md', import.meta.url), text)
}
