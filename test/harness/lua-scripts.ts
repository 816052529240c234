// A Redis for direct calls of the scripts in lua/. Each test has one record, which it writes and
// reads by hand, and sees the messages published meanwhile.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { namedLease, namedLife, withLease, withLife } from './record-life.ts'
import { type RedisServer, startRedis } from './redis-server.ts'

export type Arguments = ReadonlyArray<string | number | Buffer>
export type Fields = Record<string, string | number | Buffer>

/** Moments of the server in milliseconds: one in the past, and one far in the future. */
export const PAST = 1
export const FUTURE = 9_000_000_000_000

/** The format of a lease or marker in a record: its end, and when it was set. */
export const span = (from: number, forMs: number): string => `${from + forMs} ${from}`

export let server: RedisServer
export let redis: Redis
export let listener: Redis
/** The current test: its number, its record, and the record of its group. */
export let tests = 0
export let key: string
export let group: string
/** Published messages as `channel message`. */
let heard: string[] = []
let echoes = 0

/** Called at the top of a file: its tests have a server of their own. */
export function scriptsOfFile(): void {
  beforeAll(async () => {
    server = await startRedis()
    redis = new Redis(server.url)
    listener = new Redis(server.url)
    listener.on('message', (channel: string, message: string) =>
      heard.push(`${channel} ${message}`),
    )
  })
  afterAll(async () => {
    redis.disconnect()
    listener.disconnect()
    await server.stop()
  })
  beforeEach(() => {
    tests += 1
    key = `record ${tests}`
    group = `group ${tests}`
    heard = []
  })
}

export async function record(fields: Fields): Promise<number> {
  return redis.hset(key, withLife(fields, (await redis.hget(key, 'life')) ?? ''))
}

export async function fieldsOf(): Promise<Record<string, string>> {
  return namedLife(await redis.hgetall(key))
}

/** Writes into the record of a cache key. */
export async function cached(fields: Fields): Promise<number> {
  return record(withLease(fields, await namedOf('lease', 'last')))
}

/** The fields of the record of a cache key, by name. */
export async function cachedFields(): Promise<Record<string, string>> {
  return namedLease(await fieldsOf())
}

async function namedOf(...packed: string[]): Promise<Record<string, string>> {
  const found = Object.entries(await redis.hgetall(key)).filter(([name]) => packed.includes(name))
  return namedLease(Object.fromEntries(found))
}

export const statusOf = async (reply: Promise<unknown>): Promise<unknown> =>
  ((await reply) as unknown[])[0]

export async function serverMs(): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
}

/** A connection of a user who may do all but this. */
export async function without(...commands: string[]): Promise<Redis> {
  const name = `user${tests}`
  const all = ['on', '>pw', '~*', '&*', '+@all']
  await redis.acl('SETUSER', name, ...all, ...commands.map((each) => `-${each}`))
  return new Redis(server.url.replace('//', `//${name}:pw@`))
}

/** Calls the script while the server has no memory left. */
export async function whenFull<T>(call: () => Promise<T>): Promise<T> {
  await redis.config('SET', 'maxmemory', '1')
  return call().finally(() => redis.config('SET', 'maxmemory', '0'))
}

/** All messages of this test until now. The second word of their channels is the test's number. */
export async function allHeard(): Promise<string[]> {
  echoes += 1
  const echo = `echo${echoes}`
  await listener.subscribe(echo)
  await redis.publish(echo, 'end')
  await expect.poll(() => heard.at(-1), { interval: 2 }).toBe(`${echo} end`)
  return heard.filter((each) => each.split(' ')[1] === String(tests))
}
