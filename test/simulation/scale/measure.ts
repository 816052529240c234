// The time that a real redis-server takes for the parts of the protocol that grow with the fleet.
// It is the server's own time from its slow log, in which it serves no other client. Subscribers
// are real connections.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Redis } from 'ioredis'
import * as scripts from '../../../packages/redis/src/protocol/scripts.generated.ts'
import { findRedis } from '../../harness/find-redis.ts'
import { type RedisServer, startRedis } from '../../harness/redis-server.ts'

export interface Measured {
  readonly processes: number
  /** The median time on the server, in microseconds. */
  readonly commitMicros: number
  readonly purgeOfRecordMicros: number
  readonly handOverMicros: number
  readonly announceMicros: number
  readonly lookupMicros: number
  /** The size of one record in which all processes wait. */
  readonly recordBytes: number
  /** The server's memory for each subscriber. */
  readonly subscriberBytes: number
  /** The time until all had connected, subscribed and got a reply. */
  readonly connectMs: number
}

const PREFIX = 'stampede:4:'
const RUNS = 9
const FUTURE_MS = 9_000_000_000_000

export async function measure(processes: number): Promise<Measured> {
  const { source } = await findRedis()
  const args = ['--maxclients', '15000', '--tcp-backlog', '4096', '--hz', '10']
  const server = await startRedis({ source, args })
  const redis = new Redis(server.url)
  const sockets: Socket[] = []
  try {
    const before = await usedBytes(redis)
    const startedAt = performance.now()
    await subscribeAll(server, processes, sockets)
    const connectMs = performance.now() - startedAt
    const subscriberBytes = ((await usedBytes(redis)) - before) / processes
    await redis.config('SET', 'slowlog-log-slower-than', '0')
    const bench = { redis, processes }
    const recordBytes = await plantWaiters(bench, 'size')
    return {
      processes,
      recordBytes,
      subscriberBytes,
      connectMs,
      commitMicros: await timed(bench, commitOnce),
      purgeOfRecordMicros: await timed(bench, purgeOnce),
      handOverMicros: await timed(bench, handOverOnce),
      announceMicros: await timed(bench, announceOnce),
      lookupMicros: await timed(bench, lookupOnce),
    }
  } finally {
    redis.disconnect()
    for (const socket of sockets) socket.destroy()
    await server.stop()
  }
}

interface Bench {
  readonly redis: Redis
  readonly processes: number
}

async function subscribeAll({ host, port }: RedisServer, count: number, sockets: Socket[]) {
  const connected = Array.from({ length: count }, async (_, i) => {
    const socket = connect({ host, port })
    sockets.push(socket)
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(
      `SUBSCRIBE ${PREFIX}wake:p${i} ${PREFIX}grant:p${i} ${PREFIX}settled ${PREFIX}log\r\n`,
    )
    await once(socket, 'data')
    // Later input is read and dropped.
    socket.resume()
  })
  await Promise.all(connected)
}

/** The median of the server's own times for one command. */
async function timed(
  bench: Bench,
  once: (bench: Bench, name: string) => Promise<void>,
): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < RUNS; i++) {
    await once(bench, `${once.name}-${i}`)
    const [latest] = (await bench.redis.slowlog('GET', 1)) as Array<[number, number, number]>
    times.push(latest?.[2] ?? Number.NaN)
  }
  times.sort((a, b) => a - b)
  return times[Math.floor(RUNS / 2)] ?? Number.NaN
}

async function usedBytes(redis: Redis): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
}

/** One process fills a record, and all others wait for it. */
async function plantWaiters({ redis, processes }: Bench, name: string): Promise<number> {
  const key = `${PREFIX}{=d:=${name}}`
  await redis.hset(key, { lease: `5 ${FUTURE_MS} 0 t`, waiting: 1 })
  for (let from = 0; from < processes; from += 1_000) {
    const names = Array.from({ length: Math.min(1_000, processes - from) }, (_, i) => from + i)
    await redis.hset(key, ...names.flatMap((each) => [`w:p${each}`, 'n'.repeat(22)]))
  }
  return Number(await redis.memory('USAGE', key, 'SAMPLES', 0))
}

async function commitOnce(bench: Bench, name: string): Promise<void> {
  await plantWaiters(bench, name)
  const key = `${PREFIX}{=d:=${name}}`
  const args = ['5 0 0 120000 60000 0 0 0 t', 'x'.repeat(1_000), name, `${PREFIX}wake:`]
  await run(bench, scripts.commit, [key], args)
}

async function purgeOnce(bench: Bench, name: string): Promise<void> {
  await plantWaiters(bench, name)
  await run(bench, scripts.purge, [`${PREFIX}{=d:=${name}}`], ['0', name, `${PREFIX}wake:`])
}

/** All processes queue for one lock, and its holder releases it. */
async function handOverOnce(bench: Bench, name: string): Promise<void> {
  const key = `${PREFIX}{=l:${name}}`
  const queue = bench.redis.pipeline()
  for (let i = 0; i < bench.processes; i++) {
    queue.eval(scripts.acquireLock.source, 1, key, `t${i}`, 60_000, `p${i}`, 60_000)
  }
  const [first] = (await queue.exec()) ?? []
  const fence = String((first?.[1] as unknown[] | undefined)?.[2])
  const args = ['t0', fence, '0', name, `${PREFIX}grant:`, 2_000, 1, '', '', 0, 60_000]
  await run(bench, scripts.releaseLock, [key], args)
}

/** A purge by tag reaches all processes. */
async function announceOnce(bench: Bench, name: string): Promise<void> {
  const keys = [`${PREFIX}{purges}:meta`, `${PREFIX}{purges}:log`, `${PREFIX}{purges}:marks`]
  await run(bench, scripts.appendPurge, keys, [
    '0-0',
    `${PREFIX}log`,
    10_000,
    100_000,
    1,
    `mh${name}`,
  ])
}

/** The lookup of one more process that has to wait. */
async function lookupOnce(bench: Bench, name: string): Promise<void> {
  await plantWaiters(bench, name)
  const key = `${PREFIX}{=d:=${name}}`
  await run(bench, scripts.lookupOrLease, [key], ['u', 5_000, 60_000, 'me', 1])
}

async function run(
  { redis }: Bench,
  { source }: { readonly source: string },
  keys: readonly string[],
  args: ReadonlyArray<string | number>,
): Promise<void> {
  // EVAL of a known text: its digest is looked up, and nothing is compiled again.
  await redis.eval(source, keys.length, ...keys, ...args)
}
