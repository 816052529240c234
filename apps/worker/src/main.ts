// The worker demo: `npm run demo:worker`. Exits with 0 if every job was done exactly once, or after
// a signal.

import { PGlite } from '@electric-sql/pglite'
import { run } from './coordinator.ts'
import { SCHEMA } from './jobs.ts'
import { isExactlyOnce, table } from './output.ts'
import { checkRedis, readSettings, type Settings, StartError, withoutPassword } from './settings.ts'
import { LONG_JOB } from './work.ts'

const LEASE_MS = 1_000
/** The demo never takes this long. After this time it is stopped. */
const LONGEST_MS = 60_000

async function start(): Promise<Settings> {
  const settings = readSettings(process.env)
  if (settings.redisUrl !== undefined) await checkRedis(settings.redisUrl)
  return settings
}

function intro({ redisUrl, fenced }: Settings): string {
  const where = redisUrl === undefined ? "this process's memory" : withoutPassword(redisUrl)
  return `
Four workers share eight jobs. Each job is delivered to two workers. Locks are in ${where}, with leases of ${LEASE_MS} ms.
Results are in PostgreSQL in this process, ${fenced ? 'guarded by the fence' : 'WITHOUT the fence (FENCE=off)'}.
Job ${LONG_JOB} takes longer than its lease, so the lease is renewed. One worker will be killed, and one will be paused.
`
}

try {
  const settings = await start()
  console.log(intro(settings))
  const postgres = await PGlite.create()
  await postgres.exec(SCHEMA)
  const abort = new AbortController()
  const tooLong = setTimeout(() => abort.abort(), LONGEST_MS)
  let wasStopped = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      wasStopped = true
      abort.abort()
    })
  }
  const startedAt = performance.now()
  const tally = await run({
    ...settings,
    leaseMs: LEASE_MS,
    query: async <Row>(sql: string, params: readonly unknown[]) =>
      (await postgres.query<Row>(sql, [...params])).rows,
    print(line) {
      const seconds = (performance.now() - startedAt) / 1_000
      console.log(`${seconds.toFixed(2).padStart(6)} s  ${line}`)
    },
    signal: abort.signal,
  })
  clearTimeout(tooLong)
  console.log(table(tally))
  process.exitCode = wasStopped || isExactlyOnce(tally) ? 0 : 1
  await postgres.close()
} catch (error) {
  if (!(error instanceof StartError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
