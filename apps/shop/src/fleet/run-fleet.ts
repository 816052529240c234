// The role of the parent in the fleet. It has the database, Redis, the front and the lab, and it
// starts and stops the shop processes.

import { get, type RequestListener } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { connectRedis } from '../connect-redis.ts'
import { type Database, openDatabase } from '../database.ts'
import { fire } from '../fire.ts'
import type { About } from '../lab.ts'
import { createOriginRuns } from '../origin-runs.ts'
import type { OnStop } from '../run.ts'
import { type Settings, StartError } from '../settings.ts'
import { type Fleet, startFleet } from './fleet.ts'
import { createFleetLab, type FleetLab } from './fleet-lab.ts'
import { createFront } from './front.ts'
import { startRedisServer } from './redis-server.ts'
import { startWatchdog } from './watchdog.ts'

export interface FleetStart {
  /** With the URL of the Redis that the fleet uses. */
  readonly settings: Settings
  readonly listener: RequestListener
  /** Ends the streams to open pages, which would keep the server from closing. */
  closeStreams(): void
}

const WARM_UP_MS = 3_000
const WARM_UP_REQUESTS = 100

/** `program`: the Redis server to start. Undefined: `REDIS_URL` names one that runs already. */
export async function runFleet(
  given: Settings,
  program: string | undefined,
  onStop: OnStop,
): Promise<FleetStart> {
  const watchdog = startWatchdog()
  const redisServer = program === undefined ? undefined : await startRedisServer(program, watchdog)
  onStop(() => redisServer?.stop())
  const settings = { ...given, redisUrl: redisServer?.url ?? given.redisUrl }
  const redis = await connectRedis(settings)
  if (redis === undefined) throw new StartError('A fleet needs Redis.')
  onStop(() => redis.disconnect())
  const originRuns = createOriginRuns()
  let lab: FleetLab | undefined
  const opening = opened(settings)
  const fleet = startFleet({
    processes: settings.processes,
    database: opening,
    originRuns,
    redis,
    redisServer,
    watchdog,
    env: { ...process.env, REDIS_URL: settings.redisUrl },
    onState: () => lab?.showFleet(),
  })
  // A signal may come during the start. Then nothing waits until the database is open.
  onStop(() => fleet.stop())
  // The database takes a second of CPU time. The processes start beside it.
  const database = await opening
  onStop(() => database.close())
  onStop(() => fleet.stop())
  await fleet.ready().catch((error: Error) => {
    throw new StartError(`The shop could not start: ${error.message}`)
  })
  await warmUp(fleet)
  const about = await aboutOf(fleet)
  lab = createFleetLab({ fleet, database, originRuns, about })
  lab.showFleet()
  const front = createFront(() => fleet.next(), lab.route)
  onStop(() => front.close())
  const closeStreams = () => {
    lab.close()
    front.closeStreams()
  }
  return { settings, listener: front.listener, closeStreams }
}

/** Opens the database after the processes were started. */
async function opened({ originLatencyMs }: Settings): Promise<Database> {
  await setImmediate()
  return openDatabase({ latencyMs: originLatencyMs })
}

/**
 * Runs the code of the caches once, so that the first run of the lab is as fast as later ones. The
 * handler refuses the product number, so no query runs.
 */
async function warmUp(fleet: Fleet): Promise<void> {
  const next = () => fleet.next() ?? { host: '127.0.0.1', port: 0 }
  const deadline = AbortSignal.timeout(WARM_UP_MS)
  for (const prefix of ['', '/per-process', '', '/per-process']) {
    const target = { path: `${prefix}/api/products/none` }
    await fire({ target, requests: WARM_UP_REQUESTS, next, deadline })
  }
}

/** The shop as its processes describe it. Their statistics are asked for each time. */
async function aboutOf(fleet: Fleet): Promise<About> {
  const [first] = fleet.processes
  const { framework, store, ttlMs, staleWhileRevalidateMs, staleIfErrorMs } = await statsOf(
    first?.port,
  )
  const cacheStats = async () => {
    const up = fleet.processes.filter(({ state }) => state === 'up')
    return Promise.all(
      up.map(async ({ number, port }) => ({
        process: number,
        ...(await statsOf(port).then(
          ({ stampede }) => stampede as object,
          () => ({}),
        )),
      })),
    )
  }
  return { framework, store, ttlMs, staleWhileRevalidateMs, staleIfErrorMs, cacheStats }
}

function statsOf(port: number | undefined): Promise<About & { stampede: unknown }> {
  return new Promise((resolve, reject) => {
    const path = '/api/lab/stats'
    get({ host: '127.0.0.1', port, path, headers: { host: `localhost:${port}` } }, (message) => {
      let text = ''
      message.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      message.on('end', () => resolve(JSON.parse(text)))
      message.on('error', reject)
    }).on('error', reject)
  })
}
