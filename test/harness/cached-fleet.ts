// A fleet of cached apps on one Redis and one origin: what most tests of the cache start with.
import { assertCleanExit, type Fleet, type FleetMember, startFleet } from './fleet.ts'
import { burst } from './load.ts'
import { type Origin, startOrigin } from './origin.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

export interface CachedFleetOptions {
  readonly size?: number
  /** `express`, `express4`, `koa`, `koa2`. */
  readonly framework?: string
  readonly ioredis?: '5' | '6'
  readonly originDelayMs?: number
  /** Options of stampedeCache, redisStore and createStampede. */
  readonly cache?: object
  readonly store?: object
  readonly stampede?: object
  /** Where members find Redis, when it is not the server's own address. */
  readonly redisUrl?: string
}

export interface CachedFleet extends AsyncDisposable {
  readonly redis: RedisServer
  readonly origin: Origin
  readonly members: readonly FleetMember[]
  /** The member of this index; throws if there is none. */
  member(index: number): FleetMember
  /** The addresses of a path on every member. */
  urls(path: string): string[]
  /** Every member answered through Redis once, so that connections and scripts are there. */
  warmUp(): Promise<void>
}

/** Everything is stopped on disposal, and every member that was not killed must exit cleanly. */
export async function startCachedFleet(options: CachedFleetOptions = {}): Promise<CachedFleet> {
  const { size = 4, framework = 'express', cache = { ttlMs: 60_000 }, ioredis = '6' } = options
  const redis = await startRedis()
  const origin = await startOrigin({ delayMs: options.originDelayMs ?? 0 })
  let fleet: Fleet
  try {
    fleet = await startFleet({
      size,
      entry: new URL('./servers/cached-app.mjs', import.meta.url),
      env: {
        FRAMEWORK: framework,
        IOREDIS: ioredis,
        REDIS_URL: options.redisUrl ?? redis.url,
        ORIGIN_URL: origin.url,
        CACHE: JSON.stringify(cache),
        STORE: JSON.stringify(options.store ?? {}),
        STAMPEDE: JSON.stringify(options.stampede ?? {}),
      },
    })
  } catch (error) {
    await Promise.all([redis.stop(), origin.stop()])
    throw error
  }
  const { members } = fleet
  const urls = (path: string) => members.map(({ url }) => url + path)
  return {
    redis,
    origin,
    members,
    urls,
    member(index) {
      const member = members[index]
      if (member === undefined) throw new Error(`No member ${index} in a fleet of ${size}`)
      return member
    },
    async warmUp() {
      // One after another, each a key of its own and then a shared one: every script runs everywhere.
      for (const { url, index } of members) await burst([`${url}/warm-up/${index}`], 1)
      for (const { url } of members) await burst([`${url}/warm-up/0`], 1)
      await Promise.all(members.map((member) => member.ask({ type: 'events' })))
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
