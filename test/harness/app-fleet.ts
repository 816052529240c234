// A fleet of apps on one Redis and one origin, from which most tests of the middlewares start.
import { assertCleanExit, type Fleet, type FleetMember, startFleet } from './fleet.ts'
import { type Origin, startOrigin } from './origin.ts'
import { PATIENT } from './patient.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

export interface AppFleetOptions {
  readonly size?: number
  /** `express`, `express4`, `koa`, `koa2`. */
  readonly framework?: string
  readonly ioredis?: '5' | '6'
  readonly originDelayMs?: number
  /** A server that runs already. The fleet stops it. */
  readonly redis?: RedisServer
  /**
   * Options of redisStore (default: PATIENT) and createStampede. The latter may be a list, with one
   * entry for each member.
   */
  readonly store?: object
  readonly stampede?: object
  /**
   * The address of Redis for the members, if not the server's own. A list with commas has one for
   * each member.
   */
  readonly redisUrl?: string
}

export interface AppFleet extends AsyncDisposable {
  readonly redis: RedisServer
  readonly origin: Origin
  readonly members: readonly FleetMember[]
  /** The member of this index. Throws if there is none. */
  member(index: number): FleetMember
  /** The URLs of a path on every member. */
  urls(path: string): string[]
}

/** Disposal stops everything. Every member that was not killed must exit cleanly. */
export async function startAppFleet(
  entry: URL,
  options: AppFleetOptions,
  env: Readonly<Record<string, string>>,
): Promise<AppFleet> {
  const { size = 4, framework = 'express', ioredis = '6' } = options
  const redis = options.redis ?? (await startRedis())
  const origin = await startOrigin({ delayMs: options.originDelayMs ?? 0 })
  let fleet: Fleet
  try {
    fleet = await startFleet({
      size,
      entry,
      env: {
        FRAMEWORK: framework,
        IOREDIS: ioredis,
        REDIS_URL: options.redisUrl ?? redis.url,
        ORIGIN_URL: origin.url,
        STORE: JSON.stringify({ ...PATIENT, ...options.store }),
        STAMPEDE: JSON.stringify(options.stampede ?? {}),
        ...env,
      },
    })
  } catch (error) {
    await Promise.all([redis.stop(), origin.stop()])
    throw error
  }
  const { members } = fleet
  return {
    redis,
    origin,
    members,
    urls: (path) => members.map(({ url }) => url + path),
    member(index) {
      const member = members[index]
      if (member === undefined) throw new Error(`No member ${index} in a fleet of ${size}`)
      return member
    },
    async [Symbol.asyncDispose]() {
      const running = members.filter((member) => member.exit() === undefined)
      const exits = await Promise.allSettled(running.map((member) => assertCleanExit(member)))
      await fleet.stop()
      await Promise.all([redis.stop(), origin.stop()])
      for (const exit of exits) if (exit.status === 'rejected') throw exit.reason
    },
  }
}
