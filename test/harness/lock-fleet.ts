// Fleets of processes with locks on a Redis of their own, and a second one that witnesses who holds
// what.

import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { expect } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { assertCleanExit, type FleetMember, startFleet } from './fleet.ts'
import { PATIENT } from './patient.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { waitUntil } from './wait-until.ts'

type RedisStoreOptions = NonNullable<Parameters<typeof redisStore>[1]>

type LocksOptions = Parameters<typeof createLocks>[0]

interface Opened extends AsyncDisposable {
  readonly locks: Locks
}

/** Locks that Redis sees as a process of its own. */
export function openLocks(
  redis: Redis | string,
  options: Partial<LocksOptions> = {},
  store: RedisStoreOptions = PATIENT,
): Opened {
  const client = typeof redis === 'string' ? new Redis(redis, { lazyConnect: true }) : redis
  const locks = createLocks({ store: redisStore(client, store), ...options })
  return {
    locks,
    async [Symbol.asyncDispose]() {
      await locks.close()
      client.disconnect()
    },
  }
}

/** A connection of the test itself, to inspect and to disturb. */
export function openAdmin(redis: RedisServer) {
  const client = new Redis(redis.url)
  const { record } = names('stampede')
  const nameOf = (key: string) => record(`l:${key}`)
  return {
    client,
    nameOf,
    async record(key: string) {
      const fields = await client.hgetall(nameOf(key))
      const places = Object.keys(fields).filter((field) => /^[qp]:/.test(field))
      return {
        ...fields,
        token: fields.token,
        until: Number.parseInt(fields.until ?? '0', 10),
        places,
      }
    },
    /** Resolves when this many processes queue. */
    queued: (key: string, count: number) =>
      waitUntil(`${count} processes queue for ${key}`, async () => {
        const fields = await client.hkeys(nameOf(key))
        return fields.filter((field) => field.startsWith('q:')).length === count
      }),
    isFree: (key: string, withinMs?: number) =>
      waitUntil(
        `${key} is free`,
        async () => (await client.hget(nameOf(key), 'token')) === null,
        withinMs,
      ),
    isHeld: (key: string) =>
      waitUntil(`${key} is held`, async () => (await client.hget(nameOf(key), 'token')) !== null),
    async [Symbol.asyncDispose]() {
      client.disconnect()
    },
  }
}

export interface Had {
  readonly fence: string
  readonly askedAt: number
  readonly hadAt: number
}

interface Passage {
  readonly waitedMs: number
  readonly released: string
}

export async function startLockFleet(options: { size: number; locks?: object; store?: object }) {
  const redis = await startRedis()
  const witness = await startRedis()
  const fleet = await startFleet({
    size: options.size,
    entry: new URL('./servers/lock-worker.mjs', import.meta.url),
    env: {
      REDIS_URL: redis.url,
      WITNESS_URL: witness.url,
      LOCKS: JSON.stringify(options.locks ?? {}),
      STORE: JSON.stringify(options.store ?? PATIENT),
    },
  }).catch(async (error) => {
    await Promise.all([redis.stop(), witness.stop()])
    throw error
  })
  const { members } = fleet
  const member = (index: number): FleetMember => {
    const found = members[index]
    if (found === undefined) throw new Error(`No member ${index}`)
    return found
  }
  const witnessClient = new Redis(witness.url)
  return {
    redis,
    members,
    member,
    begin: (index: number, as: string, key = 'job', given: object = {}) =>
      member(index).ask({ type: 'begin', as, key, options: given }),
    had: (index: number, as: string) => member(index).ask<Had>({ type: 'had', as }, 60_000),
    release: (index: number, as: string) => member(index).ask<string>({ type: 'release', as }),
    /** Every member opens its connections and loads its scripts. */
    async warmUp() {
      for (const each of members) {
        await each.ask({ type: 'acquire', as: 'warm', key: `warm ${each.index}` })
        await each.ask({ type: 'release', as: 'warm' })
      }
    },
    crowd: (waiters: number, given: object = {}) =>
      Promise.all(
        members.map((each) => each.ask({ type: 'crowd', key: 'job', waiters, ...given })),
      ),
    crowded: async (): Promise<Passage[]> =>
      (
        await Promise.all(members.map((each) => each.ask<Passage[]>({ type: 'crowded' }, 60_000)))
      ).flat(),
    /** The holders in the witness's order: never two at once, each fence above the last. */
    async passages(): Promise<Array<{ member: number; fence: bigint }>> {
      const log = (await witnessClient.lrange('log', 0, -1)).map((line) => line.split(' '))
      const inside: Array<{ member: number; fence: bigint }> = []
      for (let i = 0; i < log.length; i += 2) {
        const [enter, at, fence = '0'] = log[i] ?? []
        expect(enter, `line ${i}`).toBe('enter')
        expect(log[i + 1], `line ${i + 1}`).toEqual(['leave', at, fence])
        inside.push({ member: Number(at), fence: BigInt(fence) })
      }
      for (const [i, { fence }] of inside.entries()) {
        if (i > 0) expect(fence, `passage ${i}`).toBeGreaterThan(inside[i - 1]?.fence ?? 0n)
      }
      return inside
    },
    count: () => witnessClient.llen('log'),
    async [Symbol.asyncDispose]() {
      witnessClient.disconnect()
      const running = members.filter((each) => each.exit() === undefined)
      const exits = await Promise.allSettled(running.map((each) => assertCleanExit(each)))
      await fleet.stop()
      await Promise.all([redis.stop(), witness.stop()])
      for (const exit of exits) if (exit.status === 'rejected') throw exit.reason
    },
  }
}
