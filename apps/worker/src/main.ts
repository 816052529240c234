// The worker demo: `npm run demo:worker`. Ends with code 0 only if every job was done exactly once, or if it was told to stop.

import { PGlite } from '@electric-sql/pglite'
import { run } from './coordinator.ts'
import { SCHEMA } from './jobs.ts'
import { checkRedis, readSettings, type Settings, StartError, withoutPassword } from './settings.ts'
import { isExactlyOnce, table } from './story.ts'
import { LONG_JOB } from './work.ts'

const LEASE_MS = 1_000
/** Longer than the story ever takes; after this something is wrong, and it ends. */
const LONGEST_MS = 60_000

async function start(): Promise<Settings> {
  const settings = readSettings(process.env)
  if (settings.redisUrl !== undefined) await checkRedis(settings.redisUrl)
  return settings
}

function intro({ redisUrl, fenced }: Settings): string {
  const where = redisUrl === undefined ? "this process's memory" : withoutPassword(redisUrl)
  return `
Four workers, eight jobs, each delivered to two of them. Locks in ${where}, lease ${LEASE_MS} ms;
results in PostgreSQL in this process, ${fenced ? 'guarded by the fence' : 'WITHOUT the fence (FENCE=off)'}.
Job ${LONG_JOB} takes longer than the lease, which is renewed meanwhile. One worker will be killed, and one paused.
`
}

try {
  const settings = await start()
  console.log(intro(settings))
  const postgres = await PGlite.create()
  await postgres.exec(SCHEMA)
  const abort = new AbortController()
  const tooLong = setTimeout(() => abort.abort(), LONGEST_MS)
  let wasTold = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      wasTold = true
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
  process.exitCode = wasTold || isExactlyOnce(tally) ? 0 : 1
  await postgres.close()
} catch (error) {
  if (!(error instanceof StartError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
